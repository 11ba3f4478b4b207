/* tests/programs/coll_kinds.h: datatypes whose elements a reference can make, read and combine.
 *
 * A kind is a predefined type that is alike on all systems, or a derived one that is only moved. Its
 * numbers are kept as 128-bit integers or pairs of doubles and written in the type's own format, so
 * that the reference uses no arithmetic of the type itself. Drawn reals are such that any order of
 * the operations is exact, unless they are drawn rough.
 */
#ifndef POMONA_TESTS_PROGRAMS_COLL_KINDS_H
#define POMONA_TESTS_PROGRAMS_COLL_KINDS_H

#include "check.h"
#if defined(__has_include)
#if __has_include(<mpix.h>)
#include <mpix.h>
#define HAS_OPTIONAL_TYPES 1
#endif
#endif

enum family { Integer, Unsigned, Address, Bits, Logical, Real, Complex, Pair, Matrix, Moved };
enum operation {
    Sum,
    Prod,
    Max,
    Min,
    Land,
    Lor,
    Lxor,
    Band,
    Bor,
    Bxor,
    MaxLoc,
    MinLoc,
    Product,
    operations
};
static const char* const operation_names[] = {"SUM",    "PROD",   "MAX",    "MIN", "LAND",
                                              "LOR",    "LXOR",   "BAND",   "BOR", "BXOR",
                                              "MAXLOC", "MINLOC", "product"};

/* Of reals: the bits of their exponent; those of the significand are what is left. */
struct kind {
    const char* name;
    MPI_Datatype type;
    enum family family;
    int bytes;    /* of a number of it */
    int exponent; /* 0: an integer */
    int second;   /* where the second number stands: of complex numbers, and the place of pairs */
    int extent;
    int derived; /* the gaps of its elements stay as they were */
};

/* One element's value. */
struct number {
    __int128 whole;
    double re, im;
    int place;
    uint32_t cell[4];
};

enum { kinds_max = 80 };
static struct kind kinds[kinds_max];
static int kinds_count;
static MPI_Op matrix_product;

static void add_kind(const char* name, MPI_Datatype type, enum family family, int bytes,
                     int exponent, int second, int extent) {
    struct kind k = {name, type, family, bytes, exponent, second, extent, family == Moved};
    kinds[kinds_count++] = k;
}

/* A 2x2 matrix of numbers modulo 2^32. */
static void multiply(const uint32_t* x, const uint32_t* y, uint32_t* out) {
    uint32_t product[4] = {x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3],
                           x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]};
    memcpy(out, product, sizeof product);
}
static void multiply_all(void* in, void* inout, int* count, MPI_Datatype* type) {
    (void)type;
    for (int i = 0; i < *count; ++i)
        multiply((const uint32_t*)in + 4 * i, (const uint32_t*)inout + 4 * i,
                 (uint32_t*)inout + 4 * i);
}

static void make_kinds(void) {
#define INTEGER(type, bytes) add_kind(#type, type, Integer, bytes, 0, 0, bytes)
#define UNSIGNED(type, bytes) add_kind(#type, type, Unsigned, bytes, 0, 0, bytes)
#define REAL(type, bytes, exponent) add_kind(#type, type, Real, bytes, exponent, 0, bytes)
#define COMPLEX(type, bytes, exponent)                                                             \
    add_kind(#type, type, Complex, bytes, exponent, bytes, 2 * (bytes))
#define PAIR(type, bytes, exponent, second, extent)                                                \
    add_kind(#type, type, Pair, bytes, exponent, second, extent)
    INTEGER(MPI_SIGNED_CHAR, 1);
    INTEGER(MPI_SHORT, 2);
    INTEGER(MPI_INT, 4);
    INTEGER(MPI_LONG, 8);
    INTEGER(MPI_LONG_LONG, 8);
    INTEGER(MPI_INT8_T, 1);
    INTEGER(MPI_INT16_T, 2);
    INTEGER(MPI_INT32_T, 4);
    INTEGER(MPI_INT64_T, 8);
    UNSIGNED(MPI_UNSIGNED_CHAR, 1);
    UNSIGNED(MPI_UNSIGNED_SHORT, 2);
    UNSIGNED(MPI_UNSIGNED, 4);
    UNSIGNED(MPI_UNSIGNED_LONG, 8);
    UNSIGNED(MPI_UNSIGNED_LONG_LONG, 8);
    UNSIGNED(MPI_UINT8_T, 1);
    UNSIGNED(MPI_UINT16_T, 2);
    UNSIGNED(MPI_UINT32_T, 4);
    UNSIGNED(MPI_UINT64_T, 8);
    add_kind("MPI_AINT", MPI_AINT, Address, 8, 0, 0, 8);
    add_kind("MPI_OFFSET", MPI_OFFSET, Address, 8, 0, 0, 8);
    add_kind("MPI_COUNT", MPI_COUNT, Address, 8, 0, 0, 8);
    add_kind("MPI_BYTE", MPI_BYTE, Bits, 1, 0, 0, 1);
    add_kind("MPI_C_BOOL", MPI_C_BOOL, Logical, 1, 0, 0, 1);
    REAL(MPI_FLOAT, 4, 8);
    REAL(MPI_DOUBLE, 8, 11);
    COMPLEX(MPI_C_FLOAT_COMPLEX, 4, 8);
    COMPLEX(MPI_C_DOUBLE_COMPLEX, 8, 11);
    PAIR(MPI_2INT, 4, 0, 4, 8);
    PAIR(MPI_SHORT_INT, 2, 0, 4, 8);
    PAIR(MPI_LONG_INT, 8, 0, 8, 16);
    PAIR(MPI_FLOAT_INT, 4, 8, 4, 8);
    PAIR(MPI_DOUBLE_INT, 8, 11, 8, 16);
#if HAS_OPTIONAL_TYPES
    INTEGER(MPI_INTEGER, 4);
    INTEGER(MPI_INTEGER1, 1);
    INTEGER(MPI_INTEGER2, 2);
    INTEGER(MPI_INTEGER4, 4);
    INTEGER(MPI_INTEGER8, 8);
    INTEGER(MPI_INTEGER16, 16);
    REAL(MPI_REAL, 4, 8);
    REAL(MPI_DOUBLE_PRECISION, 8, 11);
    REAL(MPI_REAL2, 2, 5);
    REAL(MPI_REAL4, 4, 8);
    REAL(MPI_REAL8, 8, 11);
    REAL(MPI_REAL16, 16, 15);
    REAL(MPIX_Type_float16(), 2, 5);
    REAL(MPIX_Type_bfloat16(), 2, 8);
    COMPLEX(MPI_COMPLEX, 4, 8);
    COMPLEX(MPI_DOUBLE_COMPLEX, 8, 11);
    COMPLEX(MPI_COMPLEX4, 2, 5);
    COMPLEX(MPI_COMPLEX8, 4, 8);
    COMPLEX(MPI_COMPLEX16, 8, 11);
    COMPLEX(MPI_COMPLEX32, 16, 15);
#endif
    MPI_Datatype inner, type;
    CHECK_OK(MPI_Type_contiguous(4, MPI_UINT32_T, &type));
    CHECK_OK(MPI_Type_commit(&type));
    add_kind("2x2 matrices", type, Matrix, 16, 0, 0, 16);
    CHECK_OK(MPI_Op_create(multiply_all, 0, &matrix_product));
    /* Two ints with a gap after each. */
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &inner));
    CHECK_OK(MPI_Type_create_resized(inner, 0, 16, &type));
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_commit(&type));
    add_kind("a vector of ints", type, Moved, 4, 0, 8, 16);
    /* A long before which a character stands in memory, though it comes second in the type. */
    {
        int lengths[2] = {1, 1};
        MPI_Aint places[2] = {8, 0};
        MPI_Datatype types[2] = {MPI_LONG, MPI_SIGNED_CHAR};
        CHECK_OK(MPI_Type_create_struct(2, lengths, places, types, &inner));
        CHECK_OK(MPI_Type_create_resized(inner, 0, 24, &type));
        CHECK_OK(MPI_Type_free(&inner));
        CHECK_OK(MPI_Type_commit(&type));
        add_kind("a struct", type, Moved, 1, 0, 8, 24);
    }
}

static void free_kinds(void) {
    for (int i = 0; i < kinds_count; ++i)
        if (kinds[i].family == Matrix || kinds[i].family == Moved) MPI_Type_free(&kinds[i].type);
    MPI_Op_free(&matrix_product);
}

/* The bytes of an element's two numbers. */
static int second_bytes(const struct kind* k) {
    if (k->family == Complex) return k->bytes;
    if (k->family == Pair) return 4;
    if (k->family == Moved) return k->bytes == 1 ? 8 : 4;
    return 0;
}

/* Copies of an element what is data, so that gaps stay as they are. */
static void copy_element(const struct kind* k, void* to, const void* from) {
    memcpy(to, from, (size_t)k->bytes);
    if (k->second)
        memcpy((char*)to + k->second, (const char*)from + k->second, (size_t)second_bytes(k));
}

static MPI_Op handle_of(enum operation o) {
    switch (o) {
    case Sum: return MPI_SUM;
    case Prod: return MPI_PROD;
    case Max: return MPI_MAX;
    case Min: return MPI_MIN;
    case Land: return MPI_LAND;
    case Lor: return MPI_LOR;
    case Lxor: return MPI_LXOR;
    case Band: return MPI_BAND;
    case Bor: return MPI_BOR;
    case Bxor: return MPI_BXOR;
    case MaxLoc: return MPI_MAXLOC;
    case MinLoc: return MPI_MINLOC;
    default: return matrix_product;
    }
}
static int allowed(const struct kind* k, enum operation o) {
    switch (k->family) {
    case Integer:
    case Unsigned: return o <= Bxor;
    case Address: return o <= Min || (o >= Band && o <= Bxor);
    case Bits: return o >= Band && o <= Bxor;
    case Logical: return o >= Land && o <= Lxor;
    case Real: return o <= Min;
    case Complex: return o <= Prod;
    case Pair: return o == MaxLoc || o == MinLoc;
    case Matrix: return o == Product;
    default: return 0;
    }
}

/* ---- numbers in memory; all systems that Pomona runs on begin with the lowest byte */

static __int128 read_whole(const struct kind* k, const void* at) {
    unsigned __int128 bits = 0;
    int unused = 128 - 8 * k->bytes;
    memcpy(&bits, at, (size_t)k->bytes);
    if (k->family == Unsigned || k->family == Bits || k->family == Logical) return (__int128)bits;
    return (__int128)(bits << unused) >> unused;
}
static void write_whole(const struct kind* k, void* at, __int128 value) {
    memcpy(at, &value, (size_t)k->bytes);
}

/* Reals by their bits. Only numbers that the format holds exactly, or doubles that are cut. */
static double read_real(const struct kind* k, const void* at) {
    int fraction = 8 * k->bytes - 1 - k->exponent, i;
    unsigned __int128 bits = 0, field;
    double value = 0, digit = 0.5;
    int exponent;
    memcpy(&bits, at, (size_t)k->bytes);
    field = bits & (((unsigned __int128)1 << fraction) - 1);
    exponent = (int)(bits >> fraction) & ((1 << k->exponent) - 1);
    for (i = fraction - 1; i >= 0; --i, digit /= 2)
        if (field >> i & 1) value += digit;
    if (exponent) value += 1;
    else exponent = 1;
    exponent -= (1 << (k->exponent - 1)) - 1;
    for (; exponent > 0; --exponent) value *= 2;
    for (; exponent < 0; ++exponent) value /= 2;
    return bits >> (8 * k->bytes - 1) & 1 ? -value : value;
}
static void write_real(const struct kind* k, void* at, double value) {
    int fraction = 8 * k->bytes - 1 - k->exponent, exponent = (1 << (k->exponent - 1)) - 1, i;
    unsigned __int128 bits = 0;
    double rest = value < 0 ? -value : value;
    while (rest != 0 && rest < 1 && exponent > 1) rest *= 2, --exponent;
    if (rest >= 1) { /* below the smallest normal number: zero */
        for (; rest >= 2; ++exponent) rest /= 2;
        rest -= 1;
        for (i = fraction - 1; i >= 0; --i) {
            rest *= 2;
            if (rest >= 1) bits |= (unsigned __int128)1 << i, rest -= 1;
        }
        bits |= (unsigned __int128)exponent << fraction;
    }
    if (value < 0) bits |= (unsigned __int128)1 << (8 * k->bytes - 1);
    memcpy(at, &bits, (size_t)k->bytes);
}

static struct number read_number(const struct kind* k, const void* at) {
    struct number n = {0, 0, 0, 0, {0}};
    if (k->family == Matrix) memcpy(n.cell, at, sizeof n.cell);
    else if (k->exponent) n.re = read_real(k, at);
    else n.whole = read_whole(k, at);
    if (k->family == Complex) n.im = read_real(k, (const char*)at + k->second);
    if (k->family == Pair) memcpy(&n.place, (const char*)at + k->second, sizeof n.place);
    return n;
}
static void write_number(const struct kind* k, void* at, struct number n) {
    if (k->family == Matrix) memcpy(at, n.cell, sizeof n.cell);
    else if (k->exponent) write_real(k, at, n.re);
    else write_whole(k, at, n.whole);
    if (k->family == Complex) write_real(k, (char*)at + k->second, n.im);
    if (k->family == Pair) memcpy((char*)at + k->second, &n.place, sizeof n.place);
}

/* ---- values and what operations make of them */

static double draw_real(const struct kind* k, enum operation o, int rough, uint64_t bits) {
    if (rough) return 0.5 + (double)(bits % 10007) / 10007;
    if (o == Prod && k->family == Complex) return bits & 1 ? 1 : -1;
    if (o == Prod) return bits % 3 ? bits % 2 ? 1 : -1 : bits % 2 ? 2 : 0.5;
    return (int)(bits % 31) - 15; /* so small that bfloat16 holds the sum of 16 */
}
static struct number draw_number(const struct kind* k, enum operation o, int rough, uint64_t bits) {
    struct number n = {0, 0, 0, 0, {0}};
    n.whole = (__int128)((unsigned __int128)(bits * UINT64_C(0x9e3779b97f4a7c15)) << 64 | bits);
    if (k->family == Logical) n.whole = bits & 1;
    if (k->family == Integer && o >= Land && o <= Lxor && bits % 3 == 0) n.whole = 0;
    if (k->exponent)
        n.re = draw_real(k, o, rough, bits >> 8), n.im = draw_real(k, o, rough, bits >> 32);
    if (k->family == Pair) n.whole %= 5, n.place = (int)(bits >> 40 & 15); /* many are equal */
    memcpy(n.cell, &n.whole, sizeof n.cell);
    if (k->family != Complex) n.im = 0;
    return n;
}

static struct number combine(const struct kind* k, enum operation o, struct number x,
                             struct number y) {
    struct number z = y;
    unsigned __int128 a = (unsigned __int128)x.whole, b = (unsigned __int128)y.whole;
    int more = k->exponent ? x.re > y.re : x.whole > y.whole,
        same = k->exponent ? x.re == y.re : x.whole == y.whole;
    switch (o) {
    case Sum: z.whole = (__int128)(a + b), z.re = x.re + y.re, z.im = x.im + y.im; break;
    case Prod:
        z.whole = (__int128)(a * b);
        z.re = x.re * y.re - x.im * y.im;
        z.im = x.re * y.im + x.im * y.re;
        break;
    case Max:
        if (more) z = x;
        break;
    case Min:
        if (!more && !same) z = x;
        break;
    case Land: z.whole = a && b; break;
    case Lor: z.whole = a || b; break;
    case Lxor: z.whole = !a != !b; break;
    case Band: z.whole = (__int128)(a & b); break;
    case Bor: z.whole = (__int128)(a | b); break;
    case Bxor: z.whole = (__int128)(a ^ b); break;
    case MaxLoc:
    case MinLoc:
        if (same) z.place = x.place < y.place ? x.place : y.place;
        else if (more == (o == MaxLoc)) z = x;
        break;
    default: multiply(x.cell, y.cell, z.cell); break;
    }
    /* As the type holds it. */
    if (!k->exponent && k->family != Matrix) {
        unsigned char bytes[16] = {0};
        write_whole(k, bytes, z.whole);
        z.whole = read_whole(k, bytes);
    }
    return z;
}

#endif
