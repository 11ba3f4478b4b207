// accel/reduce.metal: out[i] = a[i] op b[i] on the GPU, with the bits of the portable kernels.
// Idea: each thread takes four neighbours as one vector, the threads after those the elements
// before and behind the vectors; accel/metal_shape.h divides an array so. bfloat16 is computed on
// its bits, so that every version of Metal has it. NaNs are told by their bits: fast arithmetic
// may fold a != a. (A GPU may take subnormal floats as zero: accel/choose.h tries it before use.)
// The same text compiles as C++ through tests/metal/metal_stdlib, where it is tested.
#include <metal_stdlib>
using namespace metal;

struct ReduceShape {
    ulong out_start, a_start, b_start;  // elements from the beginnings of the buffers
    uint count;                         // elements
    uint head;                          // elements before the first vector
    uint vectors;                       // groups of four
    uint unused;
};

// ---- one element

struct Sum {
    static float of(float a, float b) { return a + b; }
    static half of(half a, half b) { return half(float(a) + float(b)); }
    static int of(int a, int b) { return as_type<int>(as_type<uint>(a) + as_type<uint>(b)); }
    static long of(long a, long b) { return as_type<long>(as_type<ulong>(a) + as_type<ulong>(b)); }
};
struct Prod {
    static float of(float a, float b) { return a * b; }
    static half of(half a, half b) { return half(float(a) * float(b)); }
    static int of(int a, int b) { return as_type<int>(as_type<uint>(a) * as_type<uint>(b)); }
    static long of(long a, long b) { return as_type<long>(as_type<ulong>(a) * as_type<ulong>(b)); }
};

inline float bfloat_value(ushort bits) { return as_type<float>(uint(bits) << 16); }
inline ushort bfloat_round(float value) {
    uint bits = as_type<uint>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return ushort((bits >> 16) | 0x40);
    return ushort((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
template <typename Op> struct Bfloat {
    static ushort of(ushort a, ushort b) {
        return bfloat_round(Op::of(bfloat_value(a), bfloat_value(b)));
    }
};

// The order of floating point numbers as that of integers, -0 before +0.
inline int float_key(int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }
inline bool float_nan(int bits) { return (bits & 0x7fffffff) > 0x7f800000; }
inline int half_key(int bits) { return bits & 0x8000 ? (bits & 0x7fff) ^ -1 : bits; }

struct Min {
    static float of(float a, float b) {
        int x = as_type<int>(a), y = as_type<int>(b);
        if (float_nan(x) || float_nan(y)) return as_type<float>(x | y);
        return float_key(x) < float_key(y) ? a : b;
    }
    static int of(int a, int b) { return a < b ? a : b; }
    static uint of(uint a, uint b) { return a < b ? a : b; }
    static long of(long a, long b) { return a < b ? a : b; }
    static ulong of(ulong a, ulong b) { return a < b ? a : b; }
    static ushort half_bits(ushort a, ushort b) { return half_key(a) < half_key(b) ? a : b; }
};
struct Max {
    static float of(float a, float b) {
        int x = as_type<int>(a), y = as_type<int>(b);
        if (float_nan(x) || float_nan(y)) return as_type<float>((x | y) & ((x & y) | 0x7fffffff));
        return float_key(x) > float_key(y) ? a : b;
    }
    static int of(int a, int b) { return a > b ? a : b; }
    static uint of(uint a, uint b) { return a > b ? a : b; }
    static long of(long a, long b) { return a > b ? a : b; }
    static ulong of(ulong a, ulong b) { return a > b ? a : b; }
    static ushort half_bits(ushort a, ushort b) { return half_key(a) > half_key(b) ? a : b; }
};
// 16-bit floats of either kind on their bits.
template <typename Op, int infinity> struct Extremum16 {
    static ushort of(ushort a, ushort b) {
        if ((a & 0x7fff) > infinity || (b & 0x7fff) > infinity) return ushort(a | b | infinity);
        return Op::half_bits(a, b);
    }
};

struct BitAnd {
    static uint of(uint a, uint b) { return a & b; }
    static uchar of(uchar a, uchar b) { return uchar(a & b); }
};
struct BitOr {
    static uint of(uint a, uint b) { return a | b; }
    static uchar of(uchar a, uchar b) { return uchar(a | b); }
};
struct BitXor {
    static uint of(uint a, uint b) { return a ^ b; }
    static uchar of(uchar a, uchar b) { return uchar(a ^ b); }
};

// ---- one thread

template <typename T, typename Op>
inline void reduce_elements(device T* out, device const T* a, device const T* b,
                            constant ReduceShape& shape, uint index) {
    device T* to = out + shape.out_start;
    device const T* first = a + shape.a_start;
    device const T* second = b + shape.b_start;
    if (index < shape.vectors) {
        uint at = shape.head + 4 * index;
        vec<T, 4> x = *reinterpret_cast<device const vec<T, 4>*>(first + at);
        vec<T, 4> y = *reinterpret_cast<device const vec<T, 4>*>(second + at);
        vec<T, 4> result;
        for (int k = 0; k < 4; ++k) result[k] = Op::of(T(x[k]), T(y[k]));
        *reinterpret_cast<device vec<T, 4>*>(to + at) = result;
    } else {
        uint single = index - shape.vectors;
        if (single >= shape.count - 4 * shape.vectors) return;
        uint at = single < shape.head ? single : single + 4 * shape.vectors;
        to[at] = Op::of(first[at], second[at]);
    }
}

// ---- the kernels: X(operation, type in the name, type in memory, operation on elements)

#define REDUCE_KERNELS(X)                                \
    X(sum, float, float, Sum)                            \
    X(sum, half, half, Sum)                              \
    X(sum, bfloat, ushort, Bfloat<Sum>)                  \
    X(sum, int, int, Sum)                                \
    X(sum, long, long, Sum)                              \
    X(prod, float, float, Prod)                          \
    X(prod, half, half, Prod)                            \
    X(prod, bfloat, ushort, Bfloat<Prod>)                \
    X(prod, int, int, Prod)                              \
    X(prod, long, long, Prod)                            \
    X(min, float, float, Min)                            \
    X(min, half, ushort, HalfMin)                        \
    X(min, bfloat, ushort, BfloatMin)                    \
    X(min, int, int, Min)                                \
    X(min, uint, uint, Min)                              \
    X(min, long, long, Min)                              \
    X(min, ulong, ulong, Min)                            \
    X(max, float, float, Max)                            \
    X(max, half, ushort, HalfMax)                        \
    X(max, bfloat, ushort, BfloatMax)                    \
    X(max, int, int, Max)                                \
    X(max, uint, uint, Max)                              \
    X(max, long, long, Max)                              \
    X(max, ulong, ulong, Max)                            \
    X(band, uint, uint, BitAnd)                          \
    X(band, uchar, uchar, BitAnd)                        \
    X(bor, uint, uint, BitOr)                            \
    X(bor, uchar, uchar, BitOr)                          \
    X(bxor, uint, uint, BitXor)                          \
    X(bxor, uchar, uchar, BitXor)

typedef Extremum16<Min, 0x7c00> HalfMin;
typedef Extremum16<Max, 0x7c00> HalfMax;
typedef Extremum16<Min, 0x7f80> BfloatMin;
typedef Extremum16<Max, 0x7f80> BfloatMax;

#define DEFINE_KERNEL(op, name, type, function)                                              \
    kernel void reduce_##op##_##name(                                                        \
        device type* out [[buffer(0)]], device const type* a [[buffer(1)]],                  \
        device const type* b [[buffer(2)]], constant ReduceShape& shape [[buffer(3)]],       \
        uint index [[thread_position_in_grid]]) {                                            \
        reduce_elements<type, function>(out, a, b, shape, index);                            \
    }
REDUCE_KERNELS(DEFINE_KERNEL)
