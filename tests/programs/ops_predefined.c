/* Goal: every predefined operation on every type the standard allows (MPI-5.0 section 6.9.2), by
 * MPI_Reduce_local, MPI_Allreduce and MPI_Reduce. Method: a macro writes the reference for each C
 * type; values are small, so that all results are exact; odd counts cross vector widths; an
 * operation on a type that the standard does not allow must give MPI_ERR_OP.
 */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

enum { count_max = 517 };
static const int counts[] = {1, 16, 67, count_max};
enum { count_kinds = sizeof counts / sizeof counts[0] };

typedef void fill_function(void* data, int rank, int n);
typedef void reference_function(const void* in, void* inout, int n, MPI_Op op);
typedef int same_function(const void* a, const void* b, int n);

static int small(int rank, int i) { return 1 + (rank * 5 + i * 3 + i / 7) % 3; }

#define ARITHMETIC(name, T)                                                       \
    static void fill_##name(void* data, int rank, int n) {                        \
        for (int i = 0; i < n; ++i) ((T*)data)[i] = (T)small(rank, i);            \
    }                                                                             \
    static int same_##name(const void* a, const void* b, int n) {                 \
        int i = 0;                                                                \
        while (i < n && ((const T*)a)[i] == ((const T*)b)[i]) ++i;                \
        return i;                                                                 \
    }
#define REAL_OPS(x, y, T)                                        \
    if (op == MPI_SUM) y = (T)(x + y);                           \
    else if (op == MPI_PROD) y = (T)(x * y);                     \
    else if (op == MPI_MAX) y = x > y ? x : y;                   \
    else if (op == MPI_MIN) y = x < y ? x : y;
#define LOGICAL_OPS(x, y, T)                                     \
    else if (op == MPI_LAND) y = (T)(x && y);                    \
    else if (op == MPI_LOR) y = (T)(x || y);                     \
    else if (op == MPI_LXOR) y = (T)(!x != !y);
#define BIT_OPS(x, y, T)                                         \
    else if (op == MPI_BAND) y = (T)(x & y);                     \
    else if (op == MPI_BOR) y = (T)(x | y);                      \
    else if (op == MPI_BXOR) y = (T)(x ^ y);
#define LOOP(T, body)                                            \
    for (int i = 0; i < n; ++i) {                                \
        T x = ((const T*)in)[i], y = ((T*)inout)[i];             \
        body((T*)inout)[i] = y;                                  \
    }
#define INTEGER(name, T)                                                              \
    ARITHMETIC(name, T)                                                               \
    static void reference_##name(const void* in, void* inout, int n, MPI_Op op) {     \
        LOOP(T, REAL_OPS(x, y, T) LOGICAL_OPS(x, y, T) BIT_OPS(x, y, T))              \
    }
#define FLOATING(name, T)                                                             \
    ARITHMETIC(name, T)                                                               \
    static void reference_##name(const void* in, void* inout, int n, MPI_Op op) {     \
        LOOP(T, REAL_OPS(x, y, T))                                                    \
    }
#define COMPLEX(name, T)                                                              \
    static void fill_##name(void* data, int rank, int n) {                            \
        for (int i = 0; i < n; ++i) {                                                 \
            ((T*)data)[i] = (T)(small(rank, i) + small(rank, i + 1) * I);             \
        }                                                                             \
    }                                                                                 \
    static int same_##name(const void* a, const void* b, int n) {                     \
        int i = 0;                                                                    \
        while (i < n && ((const T*)a)[i] == ((const T*)b)[i]) ++i;                    \
        return i;                                                                     \
    }                                                                                 \
    static void reference_##name(const void* in, void* inout, int n, MPI_Op op) {     \
        LOOP(T, if (op == MPI_SUM) y = x + y; else if (op == MPI_PROD) y = x * y;)    \
    }

INTEGER(schar, signed char)
INTEGER(uchar, unsigned char)
INTEGER(short, short)
INTEGER(ushort, unsigned short)
INTEGER(int, int)
INTEGER(unsigned, unsigned)
INTEGER(long, long)
INTEGER(ulong, unsigned long)
INTEGER(longlong, long long)
INTEGER(ulonglong, unsigned long long)
INTEGER(aint, MPI_Aint)
INTEGER(offset, MPI_Offset)
INTEGER(mpicount, MPI_Count)
FLOATING(float, float)
FLOATING(double, double)
FLOATING(longdouble, long double)
COMPLEX(cfloat, float _Complex)
COMPLEX(cdouble, double _Complex)
COMPLEX(clongdouble, long double _Complex)

static void fill_bool(void* data, int rank, int n) {
    for (int i = 0; i < n; ++i) ((_Bool*)data)[i] = small(rank, i) > 1;
}
static int same_bool(const void* a, const void* b, int n) {
    int i = 0;
    while (i < n && ((const _Bool*)a)[i] == ((const _Bool*)b)[i]) ++i;
    return i;
}
static void reference_bool(const void* in, void* inout, int n, MPI_Op op) {
    LOOP(_Bool, if (0) {} LOGICAL_OPS(x, y, _Bool))
}
static void reference_byte(const void* in, void* inout, int n, MPI_Op op) {
    LOOP(unsigned char, if (0) {} BIT_OPS(x, y, unsigned char))
}

enum { Arithmetic = 1, Order = 2, Logical = 4, Bits = 8, Integer = 15, Floating = 3, Complex = 1 };
struct row {
    const char* name;
    MPI_Datatype type;
    int families;
    fill_function* fill;
    reference_function* reference;
    same_function* same;
};
#define ROW(type, families, name) \
    {#type, type, families, fill_##name, reference_##name, same_##name}

struct operation { const char* name; MPI_Op op; int family; };

static union { char bytes[count_max * 32 + 32]; long double aligned; } in, out, expected, start_value;

static void reductions(const struct row* row, const struct operation* o, int n) {
    int r, size = 0;
    CHECK_OK(MPI_Type_size(row->type, &size));
    context("%s on %d elements of %s", o->name, n, row->name);
    row->fill(&in, check_rank, n);
    row->fill(&out, 5, n);
    row->fill(&expected, 5, n);
    memset(out.bytes + n * size, 0x5a, 16);
    row->reference(&in, &expected, n, o->op);
    CHECK_OK(MPI_Reduce_local(&in, &out, n, row->type, o->op));
    CHECK_EQ(n, row->same(&expected, &out, n));
    CHECK_EQ(0x5a, out.bytes[n * size]);
    row->fill(&expected, 0, n);
    for (r = 1; r < check_size; ++r) {
        row->fill(&start_value, r, n);
        row->reference(&start_value, &expected, n, o->op);
    }
    memset(&out, 0x33, sizeof out);
    CHECK_OK(MPI_Allreduce(&in, &out, n, row->type, o->op, MPI_COMM_WORLD));
    CHECK_EQ(n, row->same(&expected, &out, n));
    memset(&out, 0x33, sizeof out);
    CHECK_OK(MPI_Reduce(&in, &out, n, row->type, o->op, check_size - 1, MPI_COMM_WORLD));
    if (check_rank == check_size - 1) CHECK_EQ(n, row->same(&expected, &out, n));
}

static void not_allowed(const struct row* row, const struct operation* o) {
    context("%s is not for %s", o->name, row->name);
    row->fill(&in, 0, 1);
    row->fill(&out, 1, 1);
    CHECK_CLASS(MPI_ERR_OP, MPI_Allreduce(&in, &out, 1, row->type, o->op, MPI_COMM_SELF));
}

int main(int argc, char** argv) {
    struct row rows[] = {
        ROW(MPI_SIGNED_CHAR, Integer, schar), ROW(MPI_UNSIGNED_CHAR, Integer, uchar),
        ROW(MPI_SHORT, Integer, short), ROW(MPI_UNSIGNED_SHORT, Integer, ushort),
        ROW(MPI_INT, Integer, int), ROW(MPI_UNSIGNED, Integer, unsigned),
        ROW(MPI_LONG, Integer, long), ROW(MPI_UNSIGNED_LONG, Integer, ulong),
        ROW(MPI_LONG_LONG, Integer, longlong), ROW(MPI_UNSIGNED_LONG_LONG, Integer, ulonglong),
        ROW(MPI_INT8_T, Integer, schar), ROW(MPI_UINT8_T, Integer, uchar),
        ROW(MPI_INT16_T, Integer, short), ROW(MPI_UINT16_T, Integer, ushort),
        ROW(MPI_INT32_T, Integer, int), ROW(MPI_UINT32_T, Integer, unsigned),
        ROW(MPI_INT64_T, Integer, longlong), ROW(MPI_UINT64_T, Integer, ulonglong),
        ROW(MPI_AINT, Arithmetic | Order | Bits, aint),
        ROW(MPI_OFFSET, Arithmetic | Order | Bits, offset),
        ROW(MPI_COUNT, Arithmetic | Order | Bits, mpicount),
        ROW(MPI_FLOAT, Floating, float), ROW(MPI_DOUBLE, Floating, double),
        ROW(MPI_LONG_DOUBLE, Floating, longdouble), ROW(MPI_C_FLOAT_COMPLEX, Complex, cfloat),
        ROW(MPI_C_DOUBLE_COMPLEX, Complex, cdouble),
        ROW(MPI_C_LONG_DOUBLE_COMPLEX, Complex, clongdouble), ROW(MPI_C_BOOL, Logical, bool),
        {"MPI_BYTE", MPI_BYTE, Bits, fill_uchar, reference_byte, same_uchar}};
    struct operation operations[] = {
        {"MPI_SUM", MPI_SUM, Arithmetic}, {"MPI_PROD", MPI_PROD, Arithmetic},
        {"MPI_MAX", MPI_MAX, Order},      {"MPI_MIN", MPI_MIN, Order},
        {"MPI_LAND", MPI_LAND, Logical},  {"MPI_LOR", MPI_LOR, Logical},
        {"MPI_LXOR", MPI_LXOR, Logical},  {"MPI_BAND", MPI_BAND, Bits},
        {"MPI_BOR", MPI_BOR, Bits},       {"MPI_BXOR", MPI_BXOR, Bits}};
    int r, o, c;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (r = 0; r < (int)(sizeof rows / sizeof rows[0]); ++r) {
        for (o = 0; o < 10; ++o) {
            if (!(rows[r].families & operations[o].family)) {
                /* Libraries may extend the logical operations and those of multi-language types. */
                if (rows[r].type != MPI_AINT && rows[r].type != MPI_OFFSET &&
                    rows[r].type != MPI_COUNT && rows[r].type != MPI_C_BOOL &&
                    operations[o].family != Logical && !known_limit("MPICH")) {
                    not_allowed(&rows[r], &operations[o]);
                }
                continue;
            }
            for (c = 0; c < count_kinds; ++c) reductions(&rows[r], &operations[o], counts[c]);
        }
    }
    return finish();
}
