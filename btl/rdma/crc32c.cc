// btl/rdma/crc32c.cc: by the processor's instruction where it has one, else by a table.
// Idea: the instruction's result is there after three cycles, and one can begin in each. So three blocks
// are taken side by side, and their states joined: a state behind `n` bytes more is a linear function of
// it, which a table holds.
#include "btl/rdma/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define POMONA_CRC_INSTRUCTION 1
#define POMONA_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define POMONA_CRC_INSTRUCTION 1
#define POMONA_CRC_TARGET
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

#ifdef POMONA_CRC_INSTRUCTION
constexpr size_t kBlock = 1024;

// A state behind kBlock bytes of zeros, by the bytes of the state.
using Shift = std::array<std::array<uint32_t, 256>, 4>;
Shift make_shift() {
    Shift out{};
    for (size_t bit = 0; bit < 32; ++bit) {
        uint32_t state = uint32_t{1} << bit;
        for (size_t i = 0; i < kBlock; ++i) state = (state >> 8) ^ kTable[state & 0xff];
        for (size_t value = 0; value < 256; ++value)
            if (value >> (bit % 8) & 1) out[bit / 8][value] ^= state;
    }
    return out;
}
uint32_t shifted(const Shift& shift, uint64_t state) {
    return shift[0][state & 0xff] ^ shift[1][state >> 8 & 0xff] ^ shift[2][state >> 16 & 0xff] ^
           shift[3][state >> 24 & 0xff];
}

#if defined(__x86_64__)
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
POMONA_CRC_TARGET inline uint64_t step(uint64_t state, const std::byte* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return _mm_crc32_u64(state, word);
}
#else
bool has_instruction() { return true; }
inline uint64_t step(uint64_t state, const std::byte* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return __crc32cd(static_cast<uint32_t>(state), word);
}
#endif

POMONA_CRC_TARGET uint32_t by_instruction(uint32_t crc, ConstBytes bytes) {
    static const Shift shift = make_shift();
    uint64_t state = crc;
    size_t at = 0;
    for (; at + 3 * kBlock <= bytes.size(); at += 3 * kBlock) {
        const std::byte* block = bytes.data() + at;
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < kBlock; i += 8) {
            state = step(state, block + i);
            second = step(second, block + kBlock + i);
            third = step(third, block + 2 * kBlock + i);
        }
        state = shifted(shift, shifted(shift, state) ^ second) ^ third;
    }
    for (; at + 8 <= bytes.size(); at += 8) state = step(state, bytes.data() + at);
    return by_table(static_cast<uint32_t>(state), bytes.subspan(at));
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

uint32_t crc32c_plain(ConstBytes bytes) { return ~by_table(~0u, bytes); }

}  // namespace pomona::rdma
