// tests/unit/accel_reference.h: what each reduction should give, written the slow and plain way.
// Idea: no code shared with accel/: integers through 128 bits, 16-bit floats through exact double
// arithmetic and a rounding by definition, minimum and maximum case by case.
#pragma once

#include "accel/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace pomona::reference {

// ---- 16-bit floats by definition

struct Format {
    int mantissa_bits, exponent_bits;
    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr Format half_format{10, 5};
inline constexpr Format bfloat_format{7, 8};

inline double decode(Format f, uint16_t bits) {
    int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
    int mantissa = bits & ((1 << f.mantissa_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << f.exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
    mantissa += 1 << f.mantissa_bits;
    return sign * std::ldexp(mantissa, exponent - f.bias() - f.mantissa_bits);
}

// Nearest, ties to even: the value as a multiple of the unit in the last place of its binade.
inline uint16_t encode(Format f, double value) {
    int top = (1 << f.exponent_bits) - 1;
    uint16_t infinity = static_cast<uint16_t>(top << f.mantissa_bits);
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (f.mantissa_bits - 1));
    double size = std::fabs(value);
    if (size == 0) return sign;
    if (std::isinf(size)) return static_cast<uint16_t>(sign | infinity);
    int exponent = std::max(std::ilogb(size), 1 - f.bias());
    double units = std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent));
    int field = exponent + f.bias();  // 1 for subnormal numbers too: they lack the leading one
    long bits = static_cast<long>(units) + (static_cast<long>(field - 1) << f.mantissa_bits);
    return static_cast<uint16_t>(sign | std::min<long>(bits, infinity));
}

// ---- one operation on one pair of values

template <class T> inline constexpr bool is_integer =
    std::is_integral_v<T> || std::is_same_v<T, Int128> || std::is_same_v<T, UInt128>;
template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T> ||
                                (POMONA_HAS_FLOAT128 && std::is_same_v<T, Float128>);

template <class T> struct PairTraits : std::false_type {};
template <class T, class I> struct PairTraits<ValueIndex<T, I>> : std::true_type {};
// Complex numbers that this compiler computes with, not only moves.
template <class T> struct ComplexTraits : std::false_type {};
template <class T> struct ComplexTraits<Complex<T>>
    : std::bool_constant<is_real<T> || std::is_same_v<T, Float16>> {};

template <class T> bool negative(T x) {
    return __builtin_signbit(static_cast<long double>(x)) != 0;
}

// IEEE 754-2019 minimum and maximum.
template <class T> T least(T a, T b) {
    if (a != a || b != b) return a != a ? a : b;
    if (a == 0 && b == 0) return negative(a) ? a : b;
    return a < b ? a : b;
}
template <class T> T greatest(T a, T b) {
    if (a != a || b != b) return a != a ? a : b;
    if (a == 0 && b == 0) return negative(a) ? b : a;
    return a > b ? a : b;
}

template <class T> T apply_integer(ReduceOp op, T a, T b) {
    auto wide_a = static_cast<UInt128>(a), wide_b = static_cast<UInt128>(b);
    switch (op) {
    case ReduceOp::sum: return static_cast<T>(wide_a + wide_b);
    case ReduceOp::prod: return static_cast<T>(wide_a * wide_b);
    case ReduceOp::min: return b < a ? b : a;
    case ReduceOp::max: return b > a ? b : a;
    case ReduceOp::band: return static_cast<T>(wide_a & wide_b);
    case ReduceOp::bor: return static_cast<T>(wide_a | wide_b);
    case ReduceOp::bxor: return static_cast<T>(wide_a ^ wide_b);
    case ReduceOp::land: return a && b;
    case ReduceOp::lor: return a || b;
    default: return !a != !b;
    }
}

template <class T> T apply_real(ReduceOp op, T a, T b) {
    switch (op) {
    case ReduceOp::sum: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return least(a, b);
    default: return greatest(a, b);
    }
}

// Half: exact in double, rounded once. bfloat16: rounded to float first, as accel/ says; exact
// sums of two bfloat16 may need more than double's digits.
inline Float16 apply_half(ReduceOp op, Float16 a, Float16 b) {
    double x = decode(half_format, a.bits), y = decode(half_format, b.bits);
    return {encode(half_format, apply_real(op, x, y))};
}
inline BFloat16 apply_bfloat(ReduceOp op, BFloat16 a, BFloat16 b) {
    auto x = static_cast<float>(decode(bfloat_format, a.bits));
    auto y = static_cast<float>(decode(bfloat_format, b.bits));
    return {encode(bfloat_format, static_cast<double>(apply_real(op, x, y)))};
}

template <class T> Complex<T> apply_complex(ReduceOp op, Complex<T> a, Complex<T> b) {
    if (op == ReduceOp::sum) return {a.re + b.re, a.im + b.im};
    T left = a.re * b.re, right = a.im * b.im, first = a.re * b.im, second = a.im * b.re;
    return {left - right, first + second};
}
inline Complex<Float16> apply_complex(ReduceOp op, Complex<Float16> a, Complex<Float16> b) {
    if (op == ReduceOp::sum) return {apply_half(op, a.re, b.re), apply_half(op, a.im, b.im)};
    auto wide = [](Float16 x) { return static_cast<float>(decode(half_format, x.bits)); };
    Complex<float> product =
        apply_complex(op, Complex<float>{wide(a.re), wide(a.im)}, {wide(b.re), wide(b.im)});
    return {{encode(half_format, static_cast<double>(product.re))},
            {encode(half_format, static_cast<double>(product.im))}};
}

template <class T, class I>
ValueIndex<T, I> apply_pair(ReduceOp op, ValueIndex<T, I> a, ValueIndex<T, I> b) {
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value)
        return (a.value < b.value) == (op == ReduceOp::minloc) ? a : b;
    return b.index < a.index ? b : a.index < b.index ? a : b;  // same index: `inout` stays
}

template <class T> T apply(ReduceOp op, T a, T b) {
    if (op == ReduceOp::replace) return a;
    if (op == ReduceOp::no_op) return b;
    if constexpr (is_integer<T>) return apply_integer(op, a, b);
    else if constexpr (is_real<T>) return apply_real(op, a, b);
    else if constexpr (std::is_same_v<T, Float16>) return apply_half(op, a, b);
    else if constexpr (std::is_same_v<T, BFloat16>) return apply_bfloat(op, a, b);
    else if constexpr (ComplexTraits<T>::value) return apply_complex(op, a, b);
    else if constexpr (PairTraits<T>::value) return apply_pair(op, a, b);
    else return b;  // a type that this compiler only moves
}

// ---- equality: same value and sign of zero; any NaN equals any NaN

template <class T> bool equal(T x, T y) {
    if constexpr (is_integer<T>) return x == y;
    else if constexpr (is_real<T>) {
        if (x != x || y != y) return x != x && y != y;
        return x == y && negative(x) == negative(y);
    } else if constexpr (std::is_same_v<T, Float16>)
        return equal(decode(half_format, x.bits), decode(half_format, y.bits));
    else if constexpr (std::is_same_v<T, BFloat16>)
        return equal(decode(bfloat_format, x.bits), decode(bfloat_format, y.bits));
    else if constexpr (ComplexTraits<T>::value) return equal(x.re, y.re) && equal(x.im, y.im);
    else if constexpr (PairTraits<T>::value)
        return equal(x.value, y.value) && equal(x.index, y.index);
    else return std::memcmp(&x, &y, sizeof x) == 0;
}

// ---- values: random bits, and often the numbers that go wrong

using Engine = std::mt19937_64;

template <class T> T random_value(Engine& random) {
    if constexpr (is_integer<T>) {
        auto bits = static_cast<UInt128>(random()) << 64 | random();
        switch (random() % 6) {
        case 0: return static_cast<T>(0);
        case 1: return static_cast<T>(~UInt128{0});
        case 2: return static_cast<T>(UInt128{1} << (8 * sizeof(T) - 1));        // least signed
        case 3: return static_cast<T>((UInt128{1} << (8 * sizeof(T) - 1)) - 1);  // greatest
        default: return static_cast<T>(bits);
        }
    } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        constexpr bool half = std::is_same_v<T, Float16>;
        constexpr uint16_t infinity = half ? 0x7c00 : 0x7f80;
        constexpr uint16_t special[] = {
            0, infinity, infinity - 1,        infinity + 1,        0x7fff,
            1, 2,        half ? 0x3ff : 0x7f, half ? 0x400 : 0x80, 0x3c00};
        uint16_t sign = random() & 1 ? 0x8000 : 0;
        if (random() % 3 == 0) return {static_cast<uint16_t>(sign | special[random() % 10])};
        return {static_cast<uint16_t>(random())};
    } else if constexpr (is_real<T>) {
        using Narrow = std::conditional_t<std::is_same_v<T, float>, float, double>;
        using Word = std::conditional_t<sizeof(Narrow) == 4, uint32_t, uint64_t>;
        constexpr Narrow special[] = {0,
                                      INFINITY,
                                      NAN,
                                      std::numeric_limits<Narrow>::max(),
                                      std::numeric_limits<Narrow>::min(),
                                      std::numeric_limits<Narrow>::denorm_min(),
                                      1};
        if (random() % 3 == 0) {
            Narrow value = special[random() % 7];
            return random() & 1 ? -value : value;
        }
        if (random() % 2) return static_cast<T>(static_cast<Narrow>(random() % 2001) / 8 - 125);
        return static_cast<T>(__builtin_bit_cast(Narrow, static_cast<Word>(random())));
    } else if constexpr (ComplexTraits<T>::value) {
        using Part = decltype(T::re);
        return {random_value<Part>(random), random_value<Part>(random)};
    } else if constexpr (PairTraits<T>::value) {
        using Value = decltype(T::value);
        using Index = decltype(T::index);
        auto value = random() % 2 ? random_value<Value>(random)
                                  : static_cast<Value>(static_cast<int>(random() % 3) - 1);
        return {value, static_cast<Index>(static_cast<int>(random() % 5) - 2)};
    } else {
        T value;
        for (size_t i = 0; i < sizeof value; ++i)
            reinterpret_cast<unsigned char*>(&value)[i] = static_cast<unsigned char>(random());
        return value;
    }
}

// Calls f with a null pointer to the C++ type of `type`.
template <class F> void with_type(ElementType type, F&& f) {
    switch (type) {
#define X(name, c_type, family)                                                                    \
    case ElementType::name: return f(static_cast<c_type*>(nullptr));
        POMONA_ELEMENT_TYPES(X)
#undef X
    case ElementType::count_: break;
    }
}

}  // namespace pomona::reference
