// btl/rdma/limits.h: what Apple's RDMA over Thunderbolt allows, the one table of it.
// Pomona keeps these limits with every verbs library; the test provider (tests/verbs) refuses
// whoever does not. Sources: Apple's technote TN3205; where it says nothing, what users of it have
// reported.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pomona::rdma {

struct Limits {
    int queue_pairs = 10;         // of a device, in all processes together
    int regions = 100;            // of registered memory, likewise
    uint32_t frames_most = 4095;  // of a queue: a message takes as many as it has begun 4 KiB
    size_t frame = 4096;
    size_t message_most = 16'773'120;
    size_t page = 16384;                           // regions begin and end at pages,
    uint64_t region_boundary = uint64_t{1} << 32;  // and do not cross an address that this divides
    uint32_t entries = 1;                          // of a scatter list
    uint32_t inline_most = 0;
    uint8_t port = 1;
};

inline constexpr Limits kLimits{};

constexpr uint32_t frames_of(size_t bytes) {
    return bytes == 0 ? 1 : static_cast<uint32_t>((bytes + kLimits.frame - 1) / kLimits.frame);
}

}  // namespace pomona::rdma
