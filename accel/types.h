// accel/types.h: what can be reduced: operations, element types, and the pairs MPI 5.0 allows.
// Idea: one list gives enumerators, C++ types, families and names. Element types are those of
// memory: MPI_INT and MPI_INTEGER are both i32, MPI_REAL4 is f32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pomona {

// clang-format off
// replace gives the lower-ranked operand (`in` of a ReduceFunction), no_op the other one.
enum class ReduceOp : uint8_t {
    sum, prod, min, max, band, bor, bxor, land, lor, lxor, minloc, maxloc, replace, no_op, count_
};

// A 16-bit float as it lies in memory.
struct Float16 { uint16_t bits; };
struct BFloat16 { uint16_t bits; };

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

// REAL*16. Where the compiler has no such type, it is only moved (replace, no_op).
#if defined(__SIZEOF_FLOAT128__)
#define POMONA_HAS_FLOAT128 1
__extension__ typedef __float128 Float128;
#elif __LDBL_MANT_DIG__ == 113
#define POMONA_HAS_FLOAT128 1
typedef long double Float128;
#else
#define POMONA_HAS_FLOAT128 0
struct alignas(16) Float128 { uint64_t words[2]; };
#endif

template <class T> struct Complex { T re, im; };

// A value with its index, laid out as C lays out struct { T value; I index; }.
template <class T, class I> struct ValueIndex {
    T value;
    I index;
};

// What the standard's table of section 6.9.2 tells apart. Multi-language integers (MPI_AINT ...)
// count as integers.
enum class TypeFamily : uint8_t { integer, floating, complex, logical, byte, pair };

// X(name, C++ type, family)
#define POMONA_ELEMENT_TYPES(X)                                \
    X(i8, int8_t, integer)                                     \
    X(u8, uint8_t, integer)                                    \
    X(i16, int16_t, integer)                                   \
    X(u16, uint16_t, integer)                                  \
    X(i32, int32_t, integer)                                   \
    X(u32, uint32_t, integer)                                  \
    X(i64, int64_t, integer)                                   \
    X(u64, uint64_t, integer)                                  \
    X(i128, Int128, integer)                                   \
    X(f16, Float16, floating)                                  \
    X(bf16, BFloat16, floating)                                \
    X(f32, float, floating)                                    \
    X(f64, double, floating)                                   \
    X(long_double, long double, floating)                      \
    X(f128, Float128, floating)                                \
    X(complex_f16, Complex<Float16>, complex)                  \
    X(complex_f32, Complex<float>, complex)                    \
    X(complex_f64, Complex<double>, complex)                   \
    X(complex_long_double, Complex<long double>, complex)      \
    X(complex_f128, Complex<Float128>, complex)                \
    X(logical8, uint8_t, logical)                              \
    X(logical16, uint16_t, logical)                            \
    X(logical32, uint32_t, logical)                            \
    X(logical64, uint64_t, logical)                            \
    X(logical128, UInt128, logical)                            \
    X(byte, uint8_t, byte)                                     \
    X(float_int, PairOf<float>, pair)                          \
    X(double_int, PairOf<double>, pair)                        \
    X(long_int, PairOf<long>, pair)                            \
    X(int_int, PairOf<int>, pair)                              \
    X(short_int, PairOf<short>, pair)                          \
    X(long_double_int, PairOf<long double>, pair)              \
    X(f32_f32, PairOf2<float>, pair)                           \
    X(f64_f64, PairOf2<double>, pair)                          \
    X(i32_i32, PairOf2<int32_t>, pair)

template <class T> using PairOf = ValueIndex<T, int>;   // MPI_FLOAT_INT ... MPI_2INT
template <class T> using PairOf2 = ValueIndex<T, T>;    // MPI_2REAL, MPI_2DOUBLE_PRECISION ...

enum class ElementType : uint8_t {
#define X(name, type, family) name,
    POMONA_ELEMENT_TYPES(X)
#undef X
    count_
};

inline constexpr int op_count = static_cast<int>(ReduceOp::count_);
inline constexpr int type_count = static_cast<int>(ElementType::count_);

const char* op_name(ReduceOp op);            // "sum"
const char* type_name(ElementType type);     // "f32"
size_t element_size(ElementType type);       // extent in bytes
TypeFamily type_family(ElementType type);

// Whether MPI allows the operation on the type (find_kernel gives nullptr otherwise).
bool is_allowed(ReduceOp op, ElementType type);

// All but replace and no_op.
inline constexpr bool is_commutative(ReduceOp op) {
    return op != ReduceOp::replace && op != ReduceOp::no_op;
}

// clang-format on

}  // namespace pomona
