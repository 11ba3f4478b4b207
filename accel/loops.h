// accel/loops.h: the elementwise loops, compiled once for every instruction set.
// Idea: plain C++ that compilers vectorise; a file such as avx2.cc includes this one under its own
// flags. Everything is in an anonymous namespace: a shared (COMDAT) copy of any function would let
// the linker give AVX-512 code to a CPU without it. For the same reason no standard headers with
// code are included here.
#pragma once

#include "accel/float16.h"
#include "accel/types.h"

#if defined(__F16C__) || defined(__AVX512FP16__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

// Iterations are independent: `out` equals an input exactly or overlaps none.
#if defined(__clang__)
#define POMONA_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed"  // long double has no vectors; that is no news
#else
#define POMONA_ELEMENTWISE _Pragma("GCC ivdep")
#endif

namespace pomona {
namespace {

template <class A, class B> inline constexpr bool same = false;
template <class A> inline constexpr bool same<A, A> = true;

// Buffers of packed messages need not be aligned: loads and stores go through memcpy.
template <class T> POMONA_INLINE T load(const void* from, size_t i) {
    T value;
    __builtin_memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
    return value;
}
template <class T> POMONA_INLINE void store(void* to, size_t i, T value) {
    __builtin_memcpy(static_cast<char*>(to) + i * sizeof(T), &value, sizeof(T));
}

// ---- arithmetic: signed integers through unsigned ones, so that they wrap

template <class T> struct Wrapping { using type = T; };
template <> struct Wrapping<uint8_t> { using type = uint32_t; };   // promotes to int,
template <> struct Wrapping<uint16_t> { using type = uint32_t; };  // whose product overflows

struct Sum {
    template <class T> static T of(T a, T b) {
        using W = typename Wrapping<T>::type;
        return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    }
};
struct Prod {
    template <class T> static T of(T a, T b) {
        using W = typename Wrapping<T>::type;
        return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    }
};

// ---- minimum and maximum

template <class T> inline constexpr bool is_half = same<T, Float16> || same<T, BFloat16>;
template <class T> struct WordOf { using type = void; };
template <> struct WordOf<float> { using type = uint32_t; };
template <> struct WordOf<double> { using type = uint64_t; };
template <class T> inline constexpr bool is_ieee = !same<typename WordOf<T>::type, void>;

// Where a < b and b < a are both false (equal, or a NaN), x and y are the two operands in either
// order. Or-ing all but the sign keeps a NaN, and equal numbers; of signs min takes "or" (-0
// wins), max takes "and".
template <class T> POMONA_INLINE T merge_min(T x, T y) {
    using W = typename WordOf<T>::type;
    W merged = __builtin_bit_cast(W, x) | __builtin_bit_cast(W, y);
    return __builtin_bit_cast(T, merged);
}
template <class T> POMONA_INLINE T merge_max(T x, T y) {
    using W = typename WordOf<T>::type;
    constexpr W sign = W{1} << (8 * sizeof(W) - 1);
    W p = __builtin_bit_cast(W, x), q = __builtin_bit_cast(W, y);
    return __builtin_bit_cast(T, static_cast<W>((p | q) & ((p & q) | ~sign)));
}

// A half or bfloat16 as an integer of the same order (-0 < +0); NaNs are the outermost values.
POMONA_INLINE int16_t half_key(uint16_t bits) {
    int16_t value = static_cast<int16_t>(bits);
    return static_cast<int16_t>(value ^ ((value >> 15) & 0x7fff));
}
template <class T> inline constexpr uint16_t half_infinity = same<T, Float16> ? 0x7c00 : 0x7f80;
template <class T> POMONA_INLINE int half_is_nan(uint16_t bits) {
    return (bits & 0x7fff) > half_infinity<T>;
}

struct Min {
    template <class T> static T of(T a, T b) {
        if constexpr (is_half<T>) {
            uint16_t least = half_key(a.bits) < half_key(b.bits) ? a.bits : b.bits;
            uint16_t nan = static_cast<uint16_t>(a.bits | b.bits | half_infinity<T>);
            int any = half_is_nan<T>(a.bits) | half_is_nan<T>(b.bits);
            return T{any ? nan : least};
        } else if constexpr (is_ieee<T>) {
            return merge_min(a < b ? a : b, b < a ? b : a);
        } else {
            return a < b ? a : b;
        }
    }
};
struct Max {
    template <class T> static T of(T a, T b) {
        if constexpr (is_half<T>) {
            uint16_t greatest = half_key(a.bits) > half_key(b.bits) ? a.bits : b.bits;
            uint16_t nan = static_cast<uint16_t>(a.bits | b.bits | half_infinity<T>);
            int any = half_is_nan<T>(a.bits) | half_is_nan<T>(b.bits);
            return T{any ? nan : greatest};
        } else if constexpr (is_ieee<T>) {
            return merge_max(a > b ? a : b, b > a ? b : a);
        } else {
            return a > b ? a : b;
        }
    }
};

// ---- bits and truth

struct BitAnd {
    template <class T> static T of(T a, T b) { return static_cast<T>(a & b); }
};
struct BitOr {
    template <class T> static T of(T a, T b) { return static_cast<T>(a | b); }
};
struct BitXor {
    template <class T> static T of(T a, T b) { return static_cast<T>(a ^ b); }
};
struct LogicalAnd {
    template <class T> static T of(T a, T b) { return static_cast<T>(int{a != 0} & int{b != 0}); }
};
struct LogicalOr {
    template <class T> static T of(T a, T b) { return static_cast<T>((a | b) != 0); }
};
struct LogicalXor {
    template <class T> static T of(T a, T b) { return static_cast<T>(int{a != 0} ^ int{b != 0}); }
};

// ---- the loops

template <class Op, class T>
void elementwise(void* out, const void* a, const void* b, size_t count) {
    POMONA_ELEMENTWISE
    for (size_t i = 0; i < count; ++i) store<T>(out, i, Op::of(load<T>(a, i), load<T>(b, i)));
}

template <class Op> struct WidenBFloat16 {
    static BFloat16 of(BFloat16 a, BFloat16 b) {
        return {float_to_bf16(Op::of(bf16_to_float(a.bits), bf16_to_float(b.bits)))};
    }
};
template <class Op> struct WidenFloat16 {
    static Float16 of(Float16 a, Float16 b) {
        return {float_to_half(Op::of(half_to_float(a.bits), half_to_float(b.bits)))};
    }
};

// Sum and product of half precision: as many vectors as the hardware converts, then one by one.
// Each step is written with the instructions; the arithmetic is that of WidenFloat16, since float
// has more than twice half's digits plus two: rounding float's result to half rounds once.
POMONA_INLINE const char* at16(const void* p, size_t i) {
    return static_cast<const char*>(p) + 2 * i;
}
POMONA_INLINE char* at16(void* p, size_t i) { return static_cast<char*>(p) + 2 * i; }

#if defined(__F16C__)
constexpr int half_rounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#endif
#if defined(__AVX512FP16__)
constexpr size_t half_lanes = 32;
template <class Op>
POMONA_INLINE void half_step(void* out, const void* a, const void* b, size_t i) {
    __m512h x = _mm512_loadu_ph(at16(a, i)), y = _mm512_loadu_ph(at16(b, i));
    if constexpr (same<Op, Sum>) _mm512_storeu_ph(at16(out, i), _mm512_add_ph(x, y));
    else _mm512_storeu_ph(at16(out, i), _mm512_mul_ph(x, y));
}
#elif defined(__AVX512F__)
constexpr size_t half_lanes = 16;
// The forms with a (full) mask: g++ 12 warns of its own headers for those without.
POMONA_INLINE __m512 load_half(const void* from, size_t i) {
    __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at16(from, i)));
    return _mm512_maskz_cvtph_ps(0xffff, raw);
}
template <class Op>
POMONA_INLINE void half_step(void* out, const void* a, const void* b, size_t i) {
    __m512 x = load_half(a, i), y = load_half(b, i);
    __m512 r = same<Op, Sum> ? _mm512_add_ps(x, y) : _mm512_mul_ps(x, y);
    __m256i packed = _mm512_maskz_cvtps_ph(0xffff, r, half_rounding);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at16(out, i)), packed);
}
#elif defined(__F16C__)
constexpr size_t half_lanes = 8;
POMONA_INLINE __m256 load_half(const void* from, size_t i) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at16(from, i))));
}
template <class Op>
POMONA_INLINE void half_step(void* out, const void* a, const void* b, size_t i) {
    __m256 x = load_half(a, i), y = load_half(b, i);
    __m256 r = same<Op, Sum> ? _mm256_add_ps(x, y) : _mm256_mul_ps(x, y);
    __m128i packed = _mm256_cvtps_ph(r, half_rounding);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at16(out, i)), packed);
}
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
constexpr size_t half_lanes = 8;
POMONA_INLINE float16x8_t load_half(const void* from, size_t i) {
    uint8x16_t raw = vld1q_u8(reinterpret_cast<const uint8_t*>(at16(from, i)));
    return vreinterpretq_f16_u8(raw);
}
template <class Op>
POMONA_INLINE void half_step(void* out, const void* a, const void* b, size_t i) {
    float16x8_t x = load_half(a, i), y = load_half(b, i);
    float16x8_t r = same<Op, Sum> ? vaddq_f16(x, y) : vmulq_f16(x, y);
    vst1q_u8(reinterpret_cast<uint8_t*>(at16(out, i)), vreinterpretq_u8_f16(r));
}
#elif defined(__aarch64__) && defined(__ARM_NEON)
constexpr size_t half_lanes = 4;
POMONA_INLINE float32x4_t load_half(const void* from, size_t i) {
    uint8x8_t raw = vld1_u8(reinterpret_cast<const uint8_t*>(at16(from, i)));
    return vcvt_f32_f16(vreinterpret_f16_u8(raw));
}
template <class Op>
POMONA_INLINE void half_step(void* out, const void* a, const void* b, size_t i) {
    float32x4_t x = load_half(a, i), y = load_half(b, i);
    float32x4_t r = same<Op, Sum> ? vaddq_f32(x, y) : vmulq_f32(x, y);
    uint8x8_t packed = vreinterpret_u8_f16(vcvt_f16_f32(r));
    vst1_u8(reinterpret_cast<uint8_t*>(at16(out, i)), packed);
}
#else
constexpr size_t half_lanes = 0;
template <class Op> POMONA_INLINE void half_step(void*, const void*, const void*, size_t) {}
#endif

template <class Op> void half_arithmetic(void* out, const void* a, const void* b, size_t count) {
    size_t done = 0;
    if constexpr (half_lanes > 0) {
        for (; done + half_lanes <= count; done += half_lanes) half_step<Op>(out, a, b, done);
    }
    elementwise<WidenFloat16<Op>, Float16>(at16(out, done), at16(a, done), at16(b, done),
                                           count - done);
}

// bfloat16, where Arm's BFCVT rounds: it follows the same rules (AVX512_BF16 does not: it flushes
// subnormal numbers).
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <class Op>
POMONA_INLINE void bf16_step(void* out, const void* a, const void* b, size_t i) {
    uint16x8_t x = vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(at16(a, i))));
    uint16x8_t y = vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(at16(b, i))));
    float32x4_t xl = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16));
    float32x4_t yl = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(y), 16));
    float32x4_t xh = vreinterpretq_f32_u32(vshll_high_n_u16(x, 16));
    float32x4_t yh = vreinterpretq_f32_u32(vshll_high_n_u16(y, 16));
    float32x4_t low = same<Op, Sum> ? vaddq_f32(xl, yl) : vmulq_f32(xl, yl);
    float32x4_t high = same<Op, Sum> ? vaddq_f32(xh, yh) : vmulq_f32(xh, yh);
    bfloat16x8_t r = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high);
    vst1q_u8(reinterpret_cast<uint8_t*>(at16(out, i)), vreinterpretq_u8_bf16(r));
}
constexpr size_t bf16_lanes = 8;
#else
constexpr size_t bf16_lanes = 0;
template <class Op> POMONA_INLINE void bf16_step(void*, const void*, const void*, size_t) {}
#endif

// bfloat16 elsewhere: two neighbours in a 32-bit word are two floats but for a shift and a mask;
// no lane changes its width or place, which is 1.5 times faster than widening.
POMONA_INLINE uint32_t round_bf16(float value) {  // the result in the upper half
    uint32_t bits = float_bits(value);
    uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    bool nan = static_cast<int32_t>(bits & 0x7fffffff) > 0x7f800000;  // signed: SSE2 and AVX2 lack
    return nan ? bits | 0x400000 : rounded;                           // unsigned comparisons
}
template <class Op> struct WordOfTwo {
    static uint32_t of(uint32_t a, uint32_t b) {
        float low = Op::of(bits_float(a << 16), bits_float(b << 16));
        float high = Op::of(bits_float(a & 0xffff0000), bits_float(b & 0xffff0000));
        return (round_bf16(high) & 0xffff0000) | (round_bf16(low) >> 16);
    }
};
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bfloat16 in words of two assumes little-endian memory, as MPI ranks on these machines do."
#endif

template <class Op> void bf16_arithmetic(void* out, const void* a, const void* b, size_t count) {
    size_t done = 0;
    if constexpr (bf16_lanes > 0) {
        for (; done + bf16_lanes <= count; done += bf16_lanes) bf16_step<Op>(out, a, b, done);
    } else {
        elementwise<WordOfTwo<Op>, uint32_t>(out, a, b, count / 2);
        done = count / 2 * 2;
    }
    elementwise<WidenBFloat16<Op>, BFloat16>(at16(out, done), at16(a, done), at16(b, done),
                                             count - done);
}

}  // namespace
}  // namespace pomona
