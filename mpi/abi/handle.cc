// mpi/abi/handle.cc: handles that are no usual addresses: garbage, and objects below 4 GiB.
#include "mpi/abi/handle.h"

#include "mpi/abi/guard.h"
#include "mpi/check/checker.h"

#include <algorithm>
#include <mutex>

#include <unistd.h>

namespace pomona {

namespace {

constexpr uintptr_t kPage = 4096;  // or larger: then single parts of a page are asked about

constexpr uint32_t kKindPrefix = static_cast<uint32_t>(Kind::request) >> 16;  // of all kinds

// The system reads it for us, and says where it cannot.
bool readable(uintptr_t address) {
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

Object* object_at(uintptr_t bits) {
    if (bits < kPage || bits % alignof(Object) != 0) return nullptr;
    auto* object = reinterpret_cast<Object*>(bits);
    if (!readable(bits)) return nullptr;
    // What is readable and no object may lie anywhere.
    bool is_object = static_cast<uint32_t>(object->kind) >> 16 == kKindPrefix;
    if (bits >> 32 == 0 && is_object) low_heap.add(bits);
    return object;
}

}  // namespace pomona
