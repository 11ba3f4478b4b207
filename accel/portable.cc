// accel/portable.cc: every (operation, type) pair in the compiler's base instruction set: SSE2 or
// NEON. The types that are rarely reduced have their loops only here.
#include "accel/fill.h"

namespace pomona {
namespace {

template <class T> bool is_nan(T value) { return value != value; }
bool is_nan(int) = delete;

// long double and the 128-bit float: scalar, so the rules can stand as they are written.
template <class T> bool sign_of(T value) { return __builtin_signbit(value) != 0; }

struct WideMin {
    template <class T> static T of(T a, T b) {
        if (is_nan(a)) return a;
        if (is_nan(b)) return b;
        if (a == b) return sign_of(a) ? a : b;
        return a < b ? a : b;
    }
};
struct WideMax {
    template <class T> static T of(T a, T b) {
        if (is_nan(a)) return a;
        if (is_nan(b)) return b;
        if (a == b) return sign_of(a) ? b : a;
        return a > b ? a : b;
    }
};

struct ComplexProd {
    template <class T> static Complex<T> of(Complex<T> a, Complex<T> b) {
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    }
    // Rounded once for each component, like the 16-bit sums and products.
    static Complex<Float16> of(Complex<Float16> a, Complex<Float16> b) {
        Complex<float> product = of(widen(a), widen(b));
        return {{float_to_half(product.re)}, {float_to_half(product.im)}};
    }
    static Complex<float> widen(Complex<Float16> a) {
        return {half_to_float(a.re.bits), half_to_float(a.im.bits)};
    }
};

// The gap behind a short value or index belongs to the user's memory and stays as it is.
template <class Better, class T, class I>
void locate(void* out, const void* a, const void* b, size_t count) {
    using Pair = ValueIndex<T, I>;
    for (size_t i = 0; i < count; ++i) {
        Pair x = load<Pair>(a, i), y = load<Pair>(b, i);
        bool tied = !Better::than(x.value, y.value) && !Better::than(y.value, x.value);
        bool first = tied ? x.index < y.index : Better::than(x.value, y.value);
        const Pair& winner = first ? x : y;
        char* place = static_cast<char*>(out) + i * sizeof(Pair);
        __builtin_memcpy(place + offsetof(Pair, value), &winner.value, sizeof(T));
        __builtin_memcpy(place + offsetof(Pair, index), &winner.index, sizeof(I));
    }
}
template <class T> bool unordered(T value) {
    if constexpr (T(0.5) != T(0)) return is_nan(value);
    else return false;
}
// A NaN is better than any number, so that it is seen; two NaNs tie.
struct Less {
    template <class T> static bool than(T a, T b) { return unordered(a) ? !unordered(b) : a < b; }
};
struct Greater {
    template <class T> static bool than(T a, T b) { return unordered(a) ? !unordered(b) : a > b; }
};

template <size_t bytes> void take_first(void* out, const void* a, const void*, size_t count) {
    if (out != a && count) __builtin_memmove(out, a, count * bytes);
}
template <size_t bytes> void take_second(void* out, const void*, const void* b, size_t count) {
    if (out != b && count) __builtin_memmove(out, b, count * bytes);
}

struct PortableFiller : Filler {
    template <class T> void enter_wide(ElementType real, ElementType complex) {
        enter_sum_prod<T>(real);
        enter<elementwise<WideMin, T>>(ReduceOp::min, real);
        enter<elementwise<WideMax, T>>(ReduceOp::max, real);
        enter<elementwise<Sum, T>, 2>(ReduceOp::sum, complex);
        enter_complex_prod<T>(complex);
    }
    template <class T> void enter_complex_prod(ElementType type) {
        enter<elementwise<ComplexProd, Complex<T>>>(ReduceOp::prod, type);
    }
    template <class T, class I> void enter_pair(ElementType type) {
        enter<locate<Less, T, I>>(ReduceOp::minloc, type);
        enter<locate<Greater, T, I>>(ReduceOp::maxloc, type);
    }
    template <class T> void enter_moves(ElementType type) {
        enter<take_first<sizeof(T)>>(ReduceOp::replace, type);
        enter<take_second<sizeof(T)>>(ReduceOp::no_op, type);
    }
    void enter_all() {
        enter_common();
        enter_sum_prod<UInt128>(ElementType::i128);
        enter_min_max<Int128>(ElementType::i128);
        enter_bits<16>(ElementType::i128);
        enter_logical<UInt128>(ElementType::i128);
        enter_logical<UInt128>(ElementType::logical128);
        enter_wide<long double>(ElementType::long_double, ElementType::complex_long_double);
#if POMONA_HAS_FLOAT128
        enter_wide<Float128>(ElementType::f128, ElementType::complex_f128);
#endif
        enter_complex_prod<Float16>(ElementType::complex_f16);
        enter_complex_prod<float>(ElementType::complex_f32);
        enter_complex_prod<double>(ElementType::complex_f64);
        enter_pair<float, int>(ElementType::float_int);
        enter_pair<double, int>(ElementType::double_int);
        enter_pair<long, int>(ElementType::long_int);
        enter_pair<int, int>(ElementType::int_int);
        enter_pair<short, int>(ElementType::short_int);
        enter_pair<long double, int>(ElementType::long_double_int);
        enter_pair<float, float>(ElementType::f32_f32);
        enter_pair<double, double>(ElementType::f64_f64);
        enter_pair<int32_t, int32_t>(ElementType::i32_i32);
#define X(type, c_type, family) enter_moves<c_type>(ElementType::type);
        POMONA_ELEMENT_TYPES(X)
#undef X
    }
};

}  // namespace

void fill_portable(KernelTable& table) { PortableFiller{{table, "portable"}}.enter_all(); }

}  // namespace pomona
