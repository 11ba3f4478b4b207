// mpi/abi/handle.cc: handles that are no usual addresses: garbage, and objects below 4 GiB; of
// programs that are checked all that are addresses.
#include "mpi/abi/handle.h"

#include "mpi/abi/guard.h"
#include "mpi/check/checker.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <unistd.h>
#if defined(__linux__)
#include <sys/uio.h>
#endif

namespace pomona {

namespace {

constexpr uintptr_t kPage = 4096;  // or larger: then single parts of a page are asked about

constexpr uint32_t kKindPrefix = static_cast<uint32_t>(Kind::request) >> 16;  // of all kinds

// The system reads it for us, and says where it cannot. Nothing of that is kept: memory comes and
// goes. Linux has a call for it, which containers may forbid; a pipe takes several everywhere.
bool readable(uintptr_t address) {
#if defined(__linux__)
    alignas(Object) std::byte copy[sizeof(Object)];
    iovec to{copy, sizeof copy}, from{reinterpret_cast<void*>(address), sizeof copy};
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (got >= 0) return got == sizeof copy;
    if (errno == EFAULT) return false;
#endif
    int ends[2];
    if (pipe(ends) != 0) return false;
    ssize_t written = write(ends[1], reinterpret_cast<const void*>(address), sizeof(Object));
    close(ends[0]);
    close(ends[1]);
    return written == sizeof(Object);
}

}  // namespace

// At each moment begin and size, old or new, describe a part of what has been found.
void LowHeap::add(uintptr_t address) {
    static std::mutex mutex;
    std::lock_guard guard(mutex);
    uintptr_t size = size_.load(std::memory_order_relaxed);
    uintptr_t begin = size ? begin_.load(std::memory_order_relaxed) : address;
    uintptr_t end = std::max(begin + size, address + 1);
    begin = std::min(begin, address);
    begin_.store(begin, std::memory_order_relaxed);
    size_.store(end - begin, std::memory_order_release);  // publishes begin_
}

void note_handed_out(const Object* object, const char* function) {
    process().checker->handed_out(object, function ? mpi_name(function) : mpi_function_on_stack());
}
void note_given_back(const Object* object) { process().checker->given_back(object); }

void look_up_all_handles() { usual_units = 0; }

Object* object_at(uintptr_t bits) {
    if (bits < kPage || bits % alignof(Object) != 0) return nullptr;
    auto* object = reinterpret_cast<Object*>(bits);
    Checker* checker = process().checker.get();
    // Most handles are known to the checker, which costs less than to ask the system.
    if (checker && checker->holds(object)) return object;
    if (!readable(bits)) return nullptr;
    if (checker) return object;  // no range of addresses is remembered: each is looked up
    // What is readable and no object may lie anywhere.
    bool is_object = static_cast<uint32_t>(object->kind) >> 16 == kKindPrefix;
    if (bits >> 32 == 0 && is_object) low_heap.add(bits);
    return object;
}

}  // namespace pomona
