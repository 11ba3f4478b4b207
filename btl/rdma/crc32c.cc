// btl/rdma/crc32c.cc: by the processor's instruction where it has one, else by a table.
// Idea: the instruction's result is there after three cycles, and one can begin in each. So three
// blocks are taken side by side, and their states joined: a state behind `n` bytes more is a linear
// function of it, which a table holds. Where the processor multiplies polynomials (in vectors of
// 128 bits on Arm, of 256 or 512 on x86-64), 128 or 256 bytes are brought forward by as many, which
// leaves what is behind them unchanged modulo the polynomial, until one vector is left. Bytes that
// are copied as well go in one pass then (verbs_share tells the gain: docs/bench/rdma.json). With
// 512 bits that takes about half the time, with 256 as long; how long on a Mac is not known.
// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel 2009.
#include "btl/rdma/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#define POMONA_CRC_INSTRUCTION 1
#define POMONA_CRC_TARGET __attribute__((target("sse4.2")))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)  // as compilers for macOS have it
#include <arm_acle.h>
#include <arm_neon.h>
#define POMONA_CRC_INSTRUCTION 1
#define POMONA_CRC_TARGET
#elif defined(__aarch64__) && defined(__linux__) && !defined(__clang__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define POMONA_CRC_INSTRUCTION 1
#define POMONA_CRC_ASKS_LINUX 1
#define POMONA_CRC_TARGET __attribute__((target("+crc")))
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
#if defined(POMONA_CRC_ASKS_LINUX)
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#else
bool has_instruction() { return true; }
#endif
POMONA_CRC_TARGET inline uint64_t step(uint64_t state, const std::byte* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return __crc32cd(static_cast<uint32_t>(state), word);
}
POMONA_CRC_TARGET inline uint32_t half_step(uint32_t state, const std::byte* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return __crc32cw(state, word);
}
POMONA_CRC_TARGET inline uint32_t byte_step(uint32_t state, std::byte byte) {
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

#if defined(__x86_64__)
#define POMONA_CRC_TARGET_256 __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))
struct Products256 {
    using Vector = __m256i;
    static constexpr size_t wide = 256;  // bytes in a turn
    static bool there() {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
    }
    POMONA_CRC_TARGET_256 static Vector begun(Vector from, uint32_t crc) {
        return _mm256_xor_si256(from, _mm256_set_epi64x(0, 0, 0, crc));
    }
    POMONA_CRC_TARGET_256 static Vector load(const std::byte* from) {
        return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
    }
    POMONA_CRC_TARGET_256 static void store(std::byte* to, Vector bytes) {
        _mm256_storeu_si256(reinterpret_cast<Vector*>(to), bytes);
    }
    template <int bits> POMONA_CRC_TARGET_256 static Vector brought(Vector from, Vector onto) {
        constexpr auto one = static_cast<long long>(kFirst<bits>);
        constexpr auto two = static_cast<long long>(kSecond<bits>);
        const Vector by = _mm256_set_epi64x(two, one, two, one);
        Vector first = _mm256_clmulepi64_epi128(from, by, 0x00);
        Vector second = _mm256_clmulepi64_epi128(from, by, 0x11);
        return _mm256_xor_si256(_mm256_xor_si256(first, onto), second);
    }
#define POMONA_CRC_TARGET_OF_PRODUCTS POMONA_CRC_TARGET_256
#include "btl/rdma/crc32c_products.def"
#undef POMONA_CRC_TARGET_OF_PRODUCTS
};

#define POMONA_CRC_TARGET_512 __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
struct Products512 {
    using Vector = __m512i;
    static constexpr size_t wide = 256;
    static bool there() {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    }
    POMONA_CRC_TARGET_512 static Vector begun(Vector from, uint32_t crc) {
        return _mm512_xor_si512(from, _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, crc));
    }
    POMONA_CRC_TARGET_512 static Vector load(const std::byte* from) {
        return _mm512_loadu_si512(from);
    }
    POMONA_CRC_TARGET_512 static void store(std::byte* to, Vector bytes) {
        _mm512_storeu_si512(to, bytes);
    }
    template <int bits> POMONA_CRC_TARGET_512 static Vector brought(Vector from, Vector onto) {
        constexpr auto one = static_cast<long long>(kFirst<bits>);
        constexpr auto two = static_cast<long long>(kSecond<bits>);
        const Vector by = _mm512_set_epi64(two, one, two, one, two, one, two, one);
        Vector first = _mm512_clmulepi64_epi128(from, by, 0x00);
        Vector second = _mm512_clmulepi64_epi128(from, by, 0x11);
        return _mm512_ternarylogic_epi64(first, second, onto, 0x96);  // all three, exclusive
    }
#define POMONA_CRC_TARGET_OF_PRODUCTS POMONA_CRC_TARGET_512
#include "btl/rdma/crc32c_products.def"
#undef POMONA_CRC_TARGET_OF_PRODUCTS
};
#elif defined(__ARM_FEATURE_AES) || defined(POMONA_CRC_ASKS_LINUX)
#if defined(__ARM_FEATURE_AES)
#define POMONA_CRC_TARGET_128
#else
#define POMONA_CRC_TARGET_128 __attribute__((target("+crypto+crc")))
#endif
struct Products128 {
    using Vector = uint64x2_t;
    static constexpr size_t wide = 128;
    static bool there() {
#if defined(POMONA_CRC_ASKS_LINUX)
        return has_instruction() && (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0;
#else
        return true;
#endif
    }
    POMONA_CRC_TARGET_128 static Vector begun(Vector from, uint32_t crc) {
        return veorq_u64(from, vcombine_u64(vcreate_u64(crc), vcreate_u64(0)));
    }
    POMONA_CRC_TARGET_128 static Vector load(const std::byte* from) {
        return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
    }
    POMONA_CRC_TARGET_128 static void store(std::byte* to, Vector bytes) {
        vst1q_u8(reinterpret_cast<uint8_t*>(to), vreinterpretq_u8_u64(bytes));
    }
    template <int bits> POMONA_CRC_TARGET_128 static Vector brought(Vector from, Vector onto) {
        const poly64x2_t by = vcombine_p64(vcreate_p64(kFirst<bits>), vcreate_p64(kSecond<bits>));
        const poly64x2_t parts = vreinterpretq_p64_u64(from);
        Vector first = vreinterpretq_u64_p128(
            vmull_p64(vgetq_lane_p64(parts, 0), static_cast<poly64_t>(kFirst<bits>)));
        Vector second = vreinterpretq_u64_p128(vmull_high_p64(parts, by));
#if defined(__ARM_FEATURE_SHA3)
        return veor3q_u64(first, second, onto);
#else
        return veorq_u64(veorq_u64(first, onto), second);
#endif
    }
#define POMONA_CRC_TARGET_OF_PRODUCTS POMONA_CRC_TARGET_128
#include "btl/rdma/crc32c_products.def"
#undef POMONA_CRC_TARGET_OF_PRODUCTS
};
#define POMONA_CRC_PRODUCTS_128 1
#endif
#else
bool has_instruction() { return false; }
uint32_t by_instruction(uint32_t crc, ConstBytes bytes) { return by_table(crc, bytes); }
#endif


uint32_t plain(uint32_t crc, ConstBytes bytes, std::byte* to) {
    if (to && !bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return by_table(crc, bytes);
}

uint32_t instructed(uint32_t crc, ConstBytes bytes, std::byte* to) {
    if (!to) return by_instruction(crc, bytes);
    // Block by block, which is in the nearest cache when it is looked at.
    for (size_t at = 0; at < bytes.size(); at += kCopiedBlock) {
        ConstBytes block = bytes.subspan(at, std::min(kCopiedBlock, bytes.size() - at));
        std::memcpy(to + at, block.data(), block.size());
        crc = by_instruction(crc, {to + at, block.size()});
    }
    return crc;
}

// By vectors, where there are two turns at least: one brings nothing forward.
constexpr size_t kProductsFrom = 512;
template <class Products> uint32_t by_products(uint32_t crc, ConstBytes bytes, std::byte* to) {
    if (bytes.size() < kProductsFrom) return instructed(crc, bytes, to);
    return Products::sum(crc, bytes, to);
}

std::vector<CrcForm> forms() {
    std::vector<CrcForm> out{{"table", plain}};
    if (has_instruction()) out.push_back({"instruction", instructed});
#if defined(__x86_64__)
    if (Products256::there()) out.push_back({"products of 256 bits", by_products<Products256>});
    if (Products512::there()) out.push_back({"products of 512 bits", by_products<Products512>});
#elif defined(POMONA_CRC_PRODUCTS_128)
    if (Products128::there()) out.push_back({"products of 128 bits", by_products<Products128>});
#endif
    return out;
}

}  // namespace

static const bool kHasInstruction = has_instruction();
static const CrcForm::Sum kSum = forms().back().sum;

std::vector<CrcForm> crc32c_forms() { return forms(); }

bool crc32c_is_quick() { return kHasInstruction; }

// Of short ones, as heads of messages, without a look at the forms.
uint32_t crc32c(ConstBytes bytes) {
    if (kHasInstruction && bytes.size() < kProductsFrom) return ~by_instruction(~0u, bytes);
    return ~kSum(~0u, bytes, nullptr);
}

uint32_t crc32c_state(uint32_t state, ConstBytes bytes, std::byte* to) {
    return kSum(state, bytes, to);
}

// The product of two polynomials modulo that of the checksum, highest power first.
static constexpr uint32_t product(uint32_t one, uint32_t other) {
    uint32_t out = 0;
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
        if (one & bit) out ^= other;
        other = (other >> 1) ^ (other & 1 ? 0x82f63b78u : 0);
    }
    return out;
}

// x to the power of the bits of kCrcPart: what so many bytes behind a state do to it.
static constexpr uint32_t part_forward() {
    uint32_t power = 1u << 30;
    for (size_t bits = 1; bits < 8 * kCrcPart; bits *= 2) power = product(power, power);
    return power;
}

uint32_t crc32c_joined(uint32_t first, uint32_t second) {
    constexpr uint32_t kForward = part_forward();
    return product(kForward, first) ^ second;
}

uint32_t crc32c_plain(ConstBytes bytes) { return ~by_table(~0u, bytes); }

}  // namespace pomona::rdma
