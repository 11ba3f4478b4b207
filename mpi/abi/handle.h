// mpi/abi/handle.h: handles to objects and back.
// Idea: a predefined handle is a number below 0x400 and indexes the process's table; any other is
// the object's address, checked by its kind word. A wrong handle resolves to null; one at which no
// memory lies is found out where that costs right ones nothing, and of programs that are checked
// (POMONA_CHECK) always.
#pragma once

#include "mpi/abi/current.h"
#include "mpi/object/datatype.h"
#include "mpi/object/errhandler.h"
#include "mpi/object/group.h"
#include "mpi/object/info.h"
#include "mpi/object/operation.h"
#include "mpi/p2p/matcher.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace pomona {

// In units of 4 GiB, how much of the user's half holds usual addresses, without the first unit; 0
// where each address is looked up (POMONA_CHECK). A variable in the place of a constant: right
// handles pay for no further question. It is written where current_process is. Compilers compare
// with a plain one where it lies, with an atomic one they do not.
#ifdef __x86_64__
constexpr int kAddressBits = 47;
#else
constexpr int kAddressBits = 48;
#endif
#if defined(POMONA_RANKS_AS_THREADS)
using UsualUnits = std::atomic<uintptr_t>;
#else
using UsualUnits = uintptr_t;
#endif
inline constinit UsualUnits usual_units{(uintptr_t{1} << (kAddressBits - 32)) - 1};

// Where the system puts the objects of most programs: aligned, above 4 GiB (below lie the heaps of
// programs linked to a fixed address), and below the end of the user's half.
inline bool usual_address(uintptr_t bits) {
    // The rotation brings the bits that an aligned address does not have to the top.
    return (std::rotr(bits, 3) >> 29) - 1 < usual_units;
}
// Between which addresses below 4 GiB objects have been found. A program at a fixed address has its
// heap there, one range that grows; between two places in it nothing needs asking.
class LowHeap {
public:
    bool holds(uintptr_t address) const {
        // Acquire: whoever sees a size sees the begin that was stored before it, or an earlier one
        // of a smaller range; pairs with add().
        uintptr_t size = size_.load(std::memory_order_acquire);
        return address - begin_.load(std::memory_order_relaxed) < size &&
               address % alignof(Object) == 0;
    }
    void add(uintptr_t address);

private:
    std::atomic<uintptr_t> begin_{0}, size_{0};
};
inline constinit LowHeap low_heap;
// The object at another address, if there is memory: garbage is mostly small, negative or no
// address.
Object* object_at(uintptr_t bits);
// From now on no address is usual, of any rank of this process: the program is checked.
void look_up_all_handles();

inline Object* resolve_any(const void* handle, Kind kind) {
    auto bits = reinterpret_cast<uintptr_t>(handle);
    Object* object;
    if (bits < kBuiltinHandles) object = process().builtins[bits];
    else if (__builtin_expect(!usual_address(bits) && !low_heap.holds(bits), 0))
        object = object_at(bits);
    else object = const_cast<Object*>(static_cast<const Object*>(handle));
    return object && object->kind == kind ? object : nullptr;
}

// Null when the handle is MPI_X_NULL, freed, or of another kind.
inline Communicator* resolve(MPI_Comm handle) {
    return static_cast<Communicator*>(resolve_any(handle, Kind::communicator));
}
inline Group* resolve(MPI_Group handle) {
    return static_cast<Group*>(resolve_any(handle, Kind::group));
}
inline Datatype* resolve(MPI_Datatype handle) {
    return static_cast<Datatype*>(resolve_any(handle, Kind::datatype));
}
inline Operation* resolve(MPI_Op handle) {
    return static_cast<Operation*>(resolve_any(handle, Kind::operation));
}
inline Info* resolve(MPI_Info handle) {
    return static_cast<Info*>(resolve_any(handle, Kind::info));
}
inline Errhandler* resolve(MPI_Errhandler handle) {
    return static_cast<Errhandler*>(resolve_any(handle, Kind::errhandler));
}
inline Request* resolve(MPI_Request handle) {
    return static_cast<Request*>(resolve_any(handle, Kind::request));
}
inline Message* resolve(MPI_Message handle) {
    return static_cast<Message*>(resolve_any(handle, Kind::message));
}

// An object's handle: its predefined number if it has one, else its address. `Object*` and not the
// derived address, so that resolve_any's cast is right for every class.
template <class Handle> Handle handle_of(const Object* object) {
    return reinterpret_cast<Handle>(object->builtin_handle
                                        ? static_cast<uintptr_t>(object->builtin_handle)
                                        : reinterpret_cast<uintptr_t>(object));
}

// The same for a handle that the user is to free: where the program is checked, it is known until
// then. `function`: __func__ of the MPI function; null: as found on the stack.
void note_handed_out(const Object* object, const char* function);
void note_given_back(const Object* object);
// The same for what the checker does not ask for.
template <class Handle> Handle hand_out_unknown(const Object* object) {
    object->handles.fetch_add(1, std::memory_order_relaxed);
    return handle_of<Handle>(object);
}
template <class Handle> Handle hand_out(const Object* object, const char* function = nullptr) {
    if (__builtin_expect(process().checker != nullptr, 0)) note_handed_out(object, function);
    return hand_out_unknown<Handle>(object);
}
// Before the object is released. False: each handle that was handed out has been taken back, and
// what is left of the object is others'.
inline bool take_back(const Object* object) {
    if (__builtin_expect(process().checker != nullptr, 0)) note_given_back(object);
    bool left = object->handles.load(std::memory_order_relaxed) > 0;
    if (left) object->handles.fetch_sub(1, std::memory_order_relaxed);
    return left;
}

}  // namespace pomona
