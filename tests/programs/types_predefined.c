/* Goal: every predefined datatype has its size, extent, name and envelope, can be sent, and
 * MPI_Type_match_size finds it. Method: one table of types with what C says about them; pairs are
 * compared with the structs that define them (MPI-5.0 section 6.9.4).
 */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

struct float_int { float value; int at; };
struct double_int { double value; int at; };
struct long_int { long value; int at; };
struct short_int { short value; int at; };
struct long_double_int { long double value; int at; };
struct two_int { int value; int at; };

struct row { const char* name; MPI_Datatype type; int size; int extent; };
#define ROW(type, c_type) {#type, type, (int)sizeof(c_type), (int)sizeof(c_type)}
#define PAIR(type, first, pair) {#type, type, (int)(sizeof(first) + sizeof(int)), (int)sizeof(pair)}
#define FIXED(type, bytes) {#type, type, bytes, bytes}

static void fill(const struct row** out, int* n) {
    static struct row rows[64];
    struct row list[] = {
        ROW(MPI_CHAR, char), ROW(MPI_SIGNED_CHAR, signed char), ROW(MPI_UNSIGNED_CHAR, unsigned char),
        ROW(MPI_BYTE, char), ROW(MPI_WCHAR, wchar_t), ROW(MPI_SHORT, short),
        ROW(MPI_UNSIGNED_SHORT, unsigned short), ROW(MPI_INT, int), ROW(MPI_UNSIGNED, unsigned),
        ROW(MPI_LONG, long), ROW(MPI_UNSIGNED_LONG, unsigned long), ROW(MPI_LONG_LONG, long long),
        ROW(MPI_LONG_LONG_INT, long long), ROW(MPI_UNSIGNED_LONG_LONG, unsigned long long),
        ROW(MPI_FLOAT, float), ROW(MPI_DOUBLE, double), ROW(MPI_LONG_DOUBLE, long double),
        ROW(MPI_INT8_T, int8_t), ROW(MPI_INT16_T, int16_t), ROW(MPI_INT32_T, int32_t),
        ROW(MPI_INT64_T, int64_t), ROW(MPI_UINT8_T, uint8_t), ROW(MPI_UINT16_T, uint16_t),
        ROW(MPI_UINT32_T, uint32_t), ROW(MPI_UINT64_T, uint64_t), ROW(MPI_C_BOOL, _Bool),
        ROW(MPI_C_FLOAT_COMPLEX, float _Complex), ROW(MPI_C_COMPLEX, float _Complex),
        ROW(MPI_C_DOUBLE_COMPLEX, double _Complex),
        ROW(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex), ROW(MPI_AINT, MPI_Aint),
        ROW(MPI_OFFSET, MPI_Offset), ROW(MPI_COUNT, MPI_Count), ROW(MPI_PACKED, char),
        PAIR(MPI_FLOAT_INT, float, struct float_int), PAIR(MPI_DOUBLE_INT, double, struct double_int),
        PAIR(MPI_LONG_INT, long, struct long_int), PAIR(MPI_SHORT_INT, short, struct short_int),
        PAIR(MPI_LONG_DOUBLE_INT, long double, struct long_double_int),
        PAIR(MPI_2INT, int, struct two_int)};
    memcpy(rows, list, sizeof list);
    *out = rows;
    *n = (int)(sizeof list / sizeof list[0]);
}

static void one_type(const struct row* row) {
    MPI_Aint lb = -1, extent = -1, true_lb = -1, true_extent = -1;
    MPI_Count size_x = -1;
    char name[MPI_MAX_OBJECT_NAME];
    int size = -1, length = -1, integers = -1, addresses = -1, types = -1, combiner = -1;
    context("%s", row->name);
    CHECK_OK(MPI_Type_size(row->type, &size));
    CHECK_EQ(row->size, size);
    CHECK_OK(MPI_Type_size_x(row->type, &size_x));
    CHECK_EQ(row->size, size_x);
    CHECK_OK(MPI_Type_get_extent(row->type, &lb, &extent));
    CHECK_EQ(0, lb);
    CHECK_EQ(row->extent, extent);
    CHECK_OK(MPI_Type_get_true_extent(row->type, &true_lb, &true_extent));
    CHECK_EQ(0, true_lb);
    CHECK(true_extent >= row->size && true_extent <= row->extent);
    CHECK_OK(MPI_Type_get_name(row->type, name, &length));
    CHECK_EQ(length, strlen(name));
    if (row->type != MPI_LONG_LONG && row->type != MPI_C_COMPLEX &&
        row->type != MPI_C_FLOAT_COMPLEX) {
        CHECK_STR(row->name, name);
    } else {
        CHECK(strncmp(name, "MPI_", 4) == 0);
    }
    CHECK_OK(MPI_Type_get_envelope(row->type, &integers, &addresses, &types, &combiner));
    CHECK_EQ(MPI_COMBINER_NAMED, combiner);
    CHECK_EQ(0, integers);
    CHECK_EQ(0, addresses);
    CHECK_EQ(0, types);
}

/* Sends 17 elements to oneself; only the bytes of the type's members are compared. */
static void send_one(const struct row* row) {
    enum { n = 17 };
    size_t bytes = (size_t)row->extent * n, i;
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    MPI_Status s;
    int count = -1, k;
    context("send of %s", row->name);
    for (i = 0; i < bytes; ++i) out[i] = (unsigned char)(i * 5 + 1);
    memset(in, 0, bytes);
    CHECK_OK(MPI_Sendrecv(out, n, row->type, check_rank, 1, in, n, row->type, check_rank, 1,
                          MPI_COMM_WORLD, &s));
    CHECK_OK(MPI_Get_count(&s, row->type, &count));
    CHECK_EQ(n, count);
    if (row->size == row->extent) {
        CHECK_MEM(out, in, bytes);
    } else {
        size_t first = (size_t)row->size - sizeof(int), second = (size_t)row->extent;
        if (row->type == MPI_FLOAT_INT || row->type == MPI_SHORT_INT) second = 4;
        if (row->type == MPI_DOUBLE_INT || row->type == MPI_LONG_INT) second = 8;
        if (row->type == MPI_LONG_DOUBLE_INT) second = sizeof(long double);
        for (k = 0; k < n; ++k) {
            size_t at = (size_t)k * (size_t)row->extent;
            CHECK_MEM(out + at, in + at, first);
            CHECK_MEM(out + at + second, in + at + second, sizeof(int));
        }
    }
    free(out);
    free(in);
}

static void match(int typeclass, int size, const char* what) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int found = -1;
    context("match_size of %s %d", what, size);
    CHECK_OK(MPI_Type_match_size(typeclass, size, &type));
    if (CHECK(type != MPI_DATATYPE_NULL)) {
        CHECK_OK(MPI_Type_size(type, &found));
        CHECK_EQ(size, found);
    }
}

int main(int argc, char** argv) {
    const struct row* rows;
    int n, i;
    start(&argc, &argv);
    fill(&rows, &n);
    for (i = 0; i < n; ++i) one_type(&rows[i]);
    for (i = 0; i < n; ++i) send_one(&rows[i]);
    for (i = 1; i <= 8; i *= 2) match(MPI_TYPECLASS_INTEGER, i, "integer");
    for (i = 4; i <= 8; i *= 2) match(MPI_TYPECLASS_REAL, i, "real");
    for (i = 8; i <= 16; i *= 2) match(MPI_TYPECLASS_COMPLEX, i, "complex");
    return finish();
}
