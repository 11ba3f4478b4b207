// accel/float16.h: half precision and bfloat16 to float and back, without the instructions for it.
// Idea: branch-free integer arithmetic that a compiler vectorises. Results are those of the
// hardware conversions: round to nearest even, NaNs quiet with the upper payload bits kept.
// always_inline: these are compiled once per instruction set; no shared copy may come of them.
#pragma once

#include <cstdint>

namespace pomona {

#define POMONA_INLINE static inline __attribute__((always_inline))

POMONA_INLINE uint32_t float_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
POMONA_INLINE float bits_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

POMONA_INLINE float bf16_to_float(uint16_t bits) {
    return bits_float(static_cast<uint32_t>(bits) << 16);
}

POMONA_INLINE uint16_t float_to_bf16(float value) {
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// Exponent 0: an integer times 2^-24, exact in float. Exponent 31: all ones; NaN made quiet.
POMONA_INLINE float half_to_float(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu;
    uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t tiny = float_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    uint32_t special = 0x7f800000u | (magnitude << 13) | (magnitude > 0x7c00 ? 0x400000u : 0u);
    uint32_t bits = magnitude < 0x400 ? tiny : magnitude >= 0x7c00 ? special : normal;
    return bits_float(sign | bits);
}

// Normal numbers: rebias, add half a unit (less one if even), shift. Below 2^-14 the addition of
// 2^23 to value * 2^24 rounds to an integer, which is the result. From 65520 on: infinity.
POMONA_INLINE uint16_t float_to_half(float value) {
    uint32_t bits = float_bits(value);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t tiny = float_bits(bits_float(magnitude) * 0x1p24f + 0x1p23f) - 0x4b000000u;
    uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    uint32_t finite = magnitude < 0x38800000u ? tiny : normal;
    uint32_t limited = magnitude >= 0x477ff000u ? 0x7c00u : finite;
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? nan : limited));
}

}  // namespace pomona
