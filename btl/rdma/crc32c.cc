// btl/rdma/crc32c.cc: by the processor's instruction where it has one, else by a table.
#include "btl/rdma/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace pomona::rdma {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        out[i] = crc;
    }
    return out;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t by_table(uint32_t crc, ConstBytes bytes) {
    for (std::byte each : bytes)
        crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(each)) & 0xff];
    return crc;
}

#if defined(__x86_64__)
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
[[gnu::target("sse4.2")]] uint32_t by_instruction(uint32_t crc, ConstBytes bytes) {
    uint64_t state = crc;
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + at, 8);
        state = _mm_crc32_u64(state, word);
    }
    return by_table(static_cast<uint32_t>(state), bytes.subspan(at));
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
bool has_instruction() { return true; }
uint32_t by_instruction(uint32_t crc, ConstBytes bytes) {
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
        uint64_t word;
        std::memcpy(&word, bytes.data() + at, 8);
        crc = __crc32cd(crc, word);
    }
    return by_table(crc, bytes.subspan(at));
}
#else
bool has_instruction() { return false; }
uint32_t by_instruction(uint32_t crc, ConstBytes bytes) { return by_table(crc, bytes); }
#endif

}  // namespace

bool crc32c_is_quick() {
    static const bool quick = has_instruction();
    return quick;
}

uint32_t crc32c(ConstBytes bytes) {
    return ~(crc32c_is_quick() ? by_instruction(~0u, bytes) : by_table(~0u, bytes));
}

}  // namespace pomona::rdma
