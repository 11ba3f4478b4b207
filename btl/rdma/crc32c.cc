// btl/rdma/crc32c.cc: by the processor's instruction where it has one, else by a table.
// Idea: the instruction's result is there after three cycles, and one can begin in each. So three
// blocks are taken side by side, and their states joined: a state behind `n` bytes more is a linear
// function of it, which a table holds. Where the processor multiplies polynomials 512 bits at a
// time that takes about half the time: 256 bytes are brought forward by as many, which leaves what
// is behind them unchanged modulo the polynomial, until 16 bytes are left.
// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009.
#include "btl/rdma/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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
constexpr size_t kCopiedBlock = 12 << 10;

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
POMONA_CRC_TARGET inline uint32_t half_step(uint32_t state, const std::byte* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return _mm_crc32_u32(state, word);
}
POMONA_CRC_TARGET inline uint32_t byte_step(uint32_t state, std::byte byte) {
    return _mm_crc32_u8(state, static_cast<uint8_t>(byte));
}
#else
bool has_instruction() { return true; }
inline uint64_t step(uint64_t state, const std::byte* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return __crc32cd(static_cast<uint32_t>(state), word);
}
inline uint32_t half_step(uint32_t state, const std::byte* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return __crc32cw(state, word);
}
inline uint32_t byte_step(uint32_t state, std::byte byte) {
    return __crc32cb(state, static_cast<uint8_t>(byte));
}
#endif

// Whole turns of three blocks; `at`: where what is left begins.
[[gnu::noinline]] POMONA_CRC_TARGET uint64_t by_blocks(uint64_t state, ConstBytes bytes,
                                                       size_t& at) {
    static const Shift shift = make_shift();
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
    return state;
}

POMONA_CRC_TARGET uint32_t by_instruction(uint32_t crc, ConstBytes bytes) {
    uint64_t wide = crc;
    size_t at = 0;
    if (bytes.size() >= 3 * kBlock) wide = by_blocks(wide, bytes, at);
    for (; at + 32 <= bytes.size(); at += 32)
        for (size_t i = 0; i < 32; i += 8) wide = step(wide, bytes.data() + at + i);
    for (; at + 8 <= bytes.size(); at += 8) wide = step(wide, bytes.data() + at);
    auto state = static_cast<uint32_t>(wide);
    if (at + 4 <= bytes.size()) state = half_step(state, bytes.data() + at), at += 4;
    for (; at < bytes.size(); ++at) state = byte_step(state, bytes[at]);
    return state;
}
#if defined(__x86_64__)
#define POMONA_CRC_WIDE __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
constexpr size_t kWide = 256;  // bytes in a turn

// What brings 8 bytes forward: x to the power of `bits`, modulo the polynomial, lowest bit last.
constexpr uint64_t forward(int bits) {
    uint64_t power = 1, out = 0;
    for (int i = 0; i < bits; ++i) {
        power <<= 1;
        if (power >> 32) power ^= 0x11edc6f41u;
    }
    for (int bit = 0; bit < 32; ++bit)
        if (power >> bit & 1) out |= uint64_t{1} << (31 - bit);
    return out << 1;
}
// Of 16 bytes the first 8, and the others, by so many bits.
template <int bits> constexpr uint64_t kFirst = forward(bits + 32);
template <int bits> constexpr uint64_t kSecond = forward(bits - 32);

bool has_wide() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

template <int bits> POMONA_CRC_WIDE inline __m512i brought(__m512i from, __m512i onto) {
    constexpr auto one = static_cast<long long>(kFirst<bits>);
    constexpr auto two = static_cast<long long>(kSecond<bits>);
    const __m512i by = _mm512_set_epi64(two, one, two, one, two, one, two, one);
    __m512i first = _mm512_clmulepi64_epi128(from, by, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(from, by, 0x11);
    return _mm512_ternarylogic_epi64(first, second, onto, 0x96);  // all three, exclusive
}

// 64 bytes, which go to `to` as well where this copies.
template <bool copies> POMONA_CRC_WIDE inline __m512i read(const std::byte* from, std::byte* to) {
    __m512i bytes = _mm512_loadu_si512(from);
    if constexpr (copies) _mm512_storeu_si512(to, bytes);
    return bytes;
}

// At least kWide bytes.
template <bool copies>
POMONA_CRC_WIDE uint32_t by_products(uint32_t crc, ConstBytes bytes, std::byte* to) {
    const std::byte* data = bytes.data();
    __m512i parts[4];
    for (size_t i = 0; i < 4; ++i) parts[i] = read<copies>(data + 64 * i, to + 64 * i);
    parts[0] = _mm512_xor_si512(parts[0], _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, crc));
    size_t at = kWide;
    for (; at + kWide <= bytes.size(); at += kWide)
        for (size_t i = 0; i < 4; ++i)
            parts[i] =
                brought<8 * kWide>(parts[i], read<copies>(data + at + 64 * i, to + at + 64 * i));
    __m512i sum = parts[0];
    for (size_t i = 1; i < 4; ++i) sum = brought<512>(sum, parts[i]);
    for (; at + 64 <= bytes.size(); at += 64)
        sum = brought<512>(sum, read<copies>(data + at, to + at));
    if constexpr (copies) std::memcpy(to + at, data + at, bytes.size() - at);
    alignas(64) uint64_t words[8];
    _mm512_store_si512(words, sum);
    // The rest is one number after the other; what is before counts as its state.
    uint64_t state = 0;
    for (uint64_t word : words) state = _mm_crc32_u64(state, word);
    for (; at + 8 <= bytes.size(); at += 8) state = step(state, data + at);
    return by_table(static_cast<uint32_t>(state), bytes.subspan(at));
}
#else
constexpr size_t kWide = 0;
bool has_wide() { return false; }
template <bool copies> uint32_t by_products(uint32_t crc, ConstBytes bytes, std::byte*) {
    return by_instruction(crc, bytes);
}
#endif
#else
constexpr size_t kWide = 0;
bool has_instruction() { return false; }
bool has_wide() { return false; }
template <bool copies> uint32_t by_products(uint32_t crc, ConstBytes bytes, std::byte*) {
    return by_table(crc, bytes);
}
uint32_t by_instruction(uint32_t crc, ConstBytes bytes) { return by_table(crc, bytes); }
#endif

}  // namespace

static const bool kHasInstruction = has_instruction(), kHasWide = has_wide();

bool crc32c_is_quick() { return kHasInstruction; }

static bool takes_products(size_t length) { return length >= 2 * kWide && kHasWide; }

static uint32_t onward(uint32_t crc, ConstBytes bytes) {
    if (takes_products(bytes.size())) return by_products<false>(crc, bytes, nullptr);
    return kHasInstruction ? by_instruction(crc, bytes) : by_table(crc, bytes);
}

uint32_t crc32c(ConstBytes bytes) { return ~onward(~0u, bytes); }

uint32_t crc32c_copied(std::byte* to, ConstBytes from) {
    if (takes_products(from.size())) return ~by_products<true>(~0u, from, to);
    // Block by block, which is in the nearest cache when it is looked at.
    uint32_t crc = ~0u;
    for (size_t at = 0; at < from.size(); at += kCopiedBlock) {
        ConstBytes block = from.subspan(at, std::min(kCopiedBlock, from.size() - at));
        std::memcpy(to + at, block.data(), block.size());
        crc = onward(crc, {to + at, block.size()});
    }
    return ~crc;
}

uint32_t crc32c_plain(ConstBytes bytes) { return ~by_table(~0u, bytes); }

}  // namespace pomona::rdma
