// tests/fuzz/shm_ring.cc: libFuzzer over a ring in shared memory that another process has written:
// whatever stands in its slots, the reader stays within the ring. Method: memory of exactly the
// ring's size; the input overwrites it in pieces; every payload that the reader accepts is read.
#include "btl/shm/ring.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

using namespace pomona;

namespace {

constexpr uint32_t kSlots = 8;
constexpr size_t kData = 1024;

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

// One honest frame, then bytes of the input in its place: most slots stay close to right.
void write(RingMemory memory, uint64_t number, ConstBytes& input) {
    Slot& slot = memory.slots[number % kSlots];
    slot.header = {};
    slot.length = 100;
    slot.data_end = 128 * (number + 1);
    auto* bytes = reinterpret_cast<std::byte*>(&slot) + sizeof slot.sequence;
    size_t room = sizeof(Slot) - sizeof slot.sequence;
    size_t at = std::to_integer<size_t>(input[0]) % room;
    size_t length = std::min({std::to_integer<size_t>(input[1]) % 32, input.size() - 2, room - at});
    std::memcpy(bytes + at, input.data() + 2, length);
    input = input.subspan(2 + length);
    slot.sequence.store(number + 1, std::memory_order_release);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    size_t bytes = RingMemory::size(kSlots, kData);
    std::unique_ptr<std::byte, Free> place(
        static_cast<std::byte*>(std::aligned_alloc(kLine, bytes)));
    std::memset(place.get(), 0, bytes);
    RingMemory memory = RingMemory::at(place.get(), kSlots, kData);
    RingReader reader(memory);
    ConstBytes input{reinterpret_cast<const std::byte*>(data), size};
    static volatile unsigned sum;  // keeps the reads
    for (uint64_t number = 0; input.size() >= 2; ++number) {
        write(memory, number, input);
        Slot* slot = reader.front();
        if (!slot) std::abort();
        if (!reader.plausible(*slot)) return 0;  // the peer is given up
        for (std::byte each : reader.payload(*slot)) sum = sum + std::to_integer<unsigned>(each);
        reader.pop(*slot);
        reader.idle();
    }
    return 0;
}
