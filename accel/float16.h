// accel/float16.h: half precision and bfloat16 to float and back, without the instructions for it.
// Idea: branch-free integer arithmetic that a compiler vectorises. Results are those of the
// hardware conversions: round to nearest even, NaNs quiet with the upper payload bits kept.
// always_inline: these are compiled once per instruction set; no shared copy may come of them.
#pragma once

#include <cstdint>

namespace pomona {

#define POMONA_INLINE static inline __attribute__((always_inline))

// Comparisons are signed: SSE2 and AVX2 have no unsigned ones.
POMONA_INLINE uint32_t float_bits(float value) { return __builtin_bit_cast(uint32_t, value); }
POMONA_INLINE float bits_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }

POMONA_INLINE float bf16_to_float(uint16_t bits) {
    return bits_float(static_cast<uint32_t>(bits) << 16);
}

POMONA_INLINE uint16_t float_to_bf16(float value) {
    uint32_t bits = float_bits(value);
    bool is_nan = static_cast<int32_t>(bits & 0x7fffffff) > 0x7f800000;
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40;
    return static_cast<uint16_t>(is_nan ? nan : rounded);
}

// Exponent 0: an integer times 2^-24, exact in float. Exponent 31: all ones; NaN made quiet.
POMONA_INLINE float half_to_float(uint16_t half) {
    int32_t magnitude = half & 0x7fff;
    uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    int32_t normal = (magnitude << 13) + (112 << 23);
    int32_t tiny = __builtin_bit_cast(int32_t, static_cast<float>(magnitude) * 0x1p-24f);
    int32_t special = 0x7f800000 | (magnitude << 13) | (magnitude > 0x7c00 ? 0x400000 : 0);
    int32_t bits = magnitude < 0x400 ? tiny : magnitude >= 0x7c00 ? special : normal;
    return bits_float(sign | static_cast<uint32_t>(bits));
}

// Normal numbers: rebias, add half a unit (less one if even), shift. Below 2^-14 the addition of
// 2^23 to value * 2^24 rounds to an integer, which is the result. From 65520 on: infinity.
POMONA_INLINE uint16_t float_to_half(float value) {
    uint32_t bits = float_bits(value);
    int32_t magnitude = static_cast<int32_t>(bits & 0x7fffffff);
    int32_t sign = static_cast<int32_t>((bits >> 16) & 0x8000);
    int32_t normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    float scaled = __builtin_bit_cast(float, magnitude) * 0x1p24f + 0x1p23f;
    int32_t tiny = __builtin_bit_cast(int32_t, scaled) - 0x4b000000;
    int32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    int32_t finite = magnitude < 0x38800000 ? tiny : normal;
    int32_t limited = magnitude >= 0x477ff000 ? 0x7c00 : finite;
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000 ? nan : limited));
}

}  // namespace pomona
