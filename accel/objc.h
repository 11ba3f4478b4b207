// accel/objc.h: calling Objective-C from C++ without its compiler or Apple's headers.
// Idea: send<R>(receiver, "selector:", arguments...) casts objc_msgSend to the method's own type,
// as the runtime requires on arm64. Blocks are laid out by hand as global ones, which nobody
// copies or frees. The functions declared here come from libobjc on macOS and from
// tests/metal/mock.cc in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

extern "C" {
void objc_msgSend(void);  // always called through a cast
void* objc_getClass(const char* name);
void* sel_registerName(const char* name);
void* objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void* pool);
extern void* _NSConcreteGlobalBlock[32];
}

namespace pomona::objc {

using Id = void*;

template <class R, class... Args>
#if defined(__clang__)
__attribute__((no_sanitize("undefined")))  // the type of the callee is known to the runtime only
#endif
R send(Id receiver, const char* selector, Args... arguments) {
    using Method = R (*)(Id, void*, Args...);
    return reinterpret_cast<Method>(&objc_msgSend)(receiver, sel_registerName(selector),
                                                   arguments...);
}

// An object that we hold a reference to: what new..., alloc and copy return.
class Owned {
public:
    Owned() = default;
    explicit Owned(Id object) : object_(object) {}
    Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Owned() {
        if (object_) send<void>(object_, "release");
    }
    // For what other methods return: the pool's object becomes ours too.
    static Owned retained(Id object) {
        return Owned(object ? send<Id>(object, "retain") : nullptr);
    }
    Id get() const { return object_; }
    explicit operator bool() const { return object_ != nullptr; }

private:
    Id object_ = nullptr;
};

// Objects returned without ownership live until the innermost pool ends.
class Pool {
public:
    Pool() : pool_(objc_autoreleasePoolPush()) {}
    ~Pool() { objc_autoreleasePoolPop(pool_); }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

private:
    void* pool_;
};

// A block of one argument (clang's Block ABI). Global: _Block_copy returns it as it is. It must
// outlive every call and the runtime's look at its flags after the last one.
struct BlockDescriptor {
    unsigned long reserved, size;
};
struct Block {
    void* isa = _NSConcreteGlobalBlock;
    int32_t flags = 1 << 28;  // BLOCK_IS_GLOBAL
    int32_t reserved = 0;
    void (*invoke)(Block* self, Id argument) = nullptr;
    const BlockDescriptor* descriptor = nullptr;
};

}  // namespace pomona::objc
