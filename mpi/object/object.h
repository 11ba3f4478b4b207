// mpi/object/object.h: what every MPI object has: a kind word and a reference count.
// Idea: a handle is the object's address (mpi/abi/handle.h), so the kind word is what tells a right
// handle from a wrong one. The user's handle is one reference; operations in flight hold others.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace pomona {

// Random-looking words, so that freed or foreign memory is not taken for an object.
enum class Kind : uint32_t {
    none = 0,
    communicator = 0x9c0a01e1,
    group = 0x9c0a02d2,
    datatype = 0x9c0a03c3,
    operation = 0x9c0a04b4,
    info = 0x9c0a05a5,
    errhandler = 0x9c0a0696,
    request = 0x9c0a0787,
    message = 0x9c0a0878,
    session = 0x9c0a0969,
    window = 0x9c0a0a5a,
    file = 0x9c0a0b4b
};

// Whether several threads may touch objects of this process: reference counts are then changed by
// locked instructions, which cost ten times as much. Set (Engine) before the second thread comes,
// and never taken back.
inline std::atomic<bool> objects_shared{false};

class Object {
public:
    explicit Object(Kind kind) : kind(kind) {}
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() { kind = Kind::none; }

    void retain() {
        if (objects_shared.load(std::memory_order_relaxed))
            references_.fetch_add(1, std::memory_order_relaxed);
        else references_.store(references() + 1, std::memory_order_relaxed);
    }
    // Releases one reference; the last one deletes.
    void release() {
        if (drop_reference()) recycle();
    }
    int references() const { return references_.load(std::memory_order_relaxed); }

    Kind kind;
    uint16_t builtin_handle = 0;  // the value of a predefined handle, 0 for user objects
    int fortran_index = 0;        // MPI_X_toint's number, given at the first call (>= 0x400)
    mutable std::atomic<int> handles{0};  // that the program has got and not given back

protected:
    // Called when nobody refers to the object; pools override it.
    virtual void recycle() { delete this; }
    // Releases one reference; true when it was the last. acq_rel: the deleter sees all earlier
    // writes.
    bool drop_reference() {
        if (objects_shared.load(std::memory_order_relaxed))
            return references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
        int left = references() - 1;
        references_.store(left, std::memory_order_relaxed);
        return left == 0;
    }
    std::atomic<int> references_{1};
};

// An owning reference. Ref(pointer) takes over the reference the caller has; share() adds one.
template <class T> class Ref {
public:
    Ref() = default;
    explicit Ref(T* taken) : object_(taken) {}
    static Ref share(T* object) {
        if (object) object->retain();
        return Ref(object);
    }
    Ref(const Ref& other) : object_(other.object_) {
        if (object_) object_->retain();
    }
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_) object_->release();
    }
    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    // Gives the reference away, for instance to a user's handle.
    T* detach() { return std::exchange(object_, nullptr); }

private:
    T* object_ = nullptr;
};

}  // namespace pomona
