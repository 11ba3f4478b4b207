/* Goal: every type constructor gives the layout the standard defines: size, lower bound, extent,
 * true extent, and the bytes it moves. Method: for each constructor the list of byte offsets in
 * order is written down by hand (or by loops from the standard's definition); packing must yield
 * exactly those bytes, and size and bounds must follow from them.
 */
#include "check.h"
#include <stddef.h>

enum { room = 4096 };
static unsigned char memory[room];
static int offsets[room], offset_count;

static void forget(void) { offset_count = 0; }
static void add_bytes(int at, int n) {
    for (int i = 0; i < n; ++i) offsets[offset_count++] = at + i;
}

/* Packs one element placed at base and compares it with the noted offsets. */
static void check_type(MPI_Datatype* type, int lb, int extent, const char* what) {
    enum { base = 1024 };
    int size = -1, position = 0, low = room, high = -room, i, pack_size = 0;
    MPI_Aint found_lb = -1, found_extent = -1, true_lb = -1, true_extent = -1;
    MPI_Count count_lb = -1, count_extent = -1;
    unsigned char packed[room], expected[room], target[room];
    context("%s", what);
    CHECK_OK(MPI_Type_commit(type));
    CHECK_OK(MPI_Type_size(*type, &size));
    CHECK_EQ(offset_count, size);
    CHECK_OK(MPI_Type_get_extent(*type, &found_lb, &found_extent));
    CHECK_EQ(lb, found_lb);
    CHECK_EQ(extent, found_extent);
    CHECK_OK(MPI_Type_get_extent_x(*type, &count_lb, &count_extent));
    CHECK_EQ(lb, count_lb);
    CHECK_EQ(extent, count_extent);
    for (i = 0; i < offset_count; ++i) {
        low = offsets[i] < low ? offsets[i] : low;
        high = offsets[i] > high ? offsets[i] : high;
        expected[i] = memory[base + offsets[i]];
    }
    if (offset_count > 0) {
        CHECK_OK(MPI_Type_get_true_extent(*type, &true_lb, &true_extent));
        CHECK_EQ(low, true_lb);
        CHECK_EQ(high - low + 1, true_extent);
    }
    CHECK_OK(MPI_Pack_size(1, *type, MPI_COMM_SELF, &pack_size));
    CHECK(pack_size >= size);
    CHECK_OK(MPI_Pack(memory + base, 1, *type, packed, room, &position, MPI_COMM_SELF));
    CHECK_EQ(size, position);
    CHECK_MEM(expected, packed, (size_t)offset_count);
    memset(target, 0, sizeof target);
    position = 0;
    CHECK_OK(MPI_Unpack(packed, size, &position, target + base, 1, *type, MPI_COMM_SELF));
    CHECK_EQ(size, position);
    for (i = 0; i < offset_count; ++i) {
        if (target[base + offsets[i]] != memory[base + offsets[i]]) break;
        target[base + offsets[i]] = 0;
    }
    CHECK_EQ(offset_count, i);
    for (i = 0; i < room && target[i] == 0; ++i) {
    }
    CHECK_EQ(room, i);
    CHECK_OK(MPI_Type_free(type));
    CHECK(*type == MPI_DATATYPE_NULL);
}

static void vectors(void) {
    MPI_Datatype t, u;
    int i;
    forget();
    add_bytes(0, 20);
    CHECK_OK(MPI_Type_contiguous(5, MPI_INT, &t));
    check_type(&t, 0, 20, "contiguous");
    forget();
    for (i = 0; i < 3; ++i) add_bytes(i * 20, 8);
    CHECK_OK(MPI_Type_vector(3, 2, 5, MPI_INT, &t));
    check_type(&t, 0, 48, "vector");
    forget();
    for (i = 0; i < 3; ++i) add_bytes(-i * 20, 8);
    CHECK_OK(MPI_Type_vector(3, 2, -5, MPI_INT, &t));
    check_type(&t, -40, 48, "vector of negative stride");
    forget();
    for (i = 0; i < 4; ++i) add_bytes(i * 14, 6);
    CHECK_OK(MPI_Type_create_hvector(4, 3, 14, MPI_SHORT, &t));
    check_type(&t, 0, 48, "hvector");
    forget();
    CHECK_OK(MPI_Type_contiguous(0, MPI_DOUBLE, &t));
    check_type(&t, 0, 0, "contiguous of nothing");
    forget();
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_CHAR, &u));
    for (i = 0; i < 3; ++i) {
        add_bytes(i * 3, 1);
        add_bytes(i * 3 + 2, 1);
    }
    CHECK_OK(MPI_Type_contiguous(3, u, &t));
    CHECK_OK(MPI_Type_free(&u));
    check_type(&t, 0, 9, "contiguous of vectors, inner type freed");
}

static void indexed(void) {
    int lengths[] = {2, 0, 1, 3}, at[] = {7, 2, 0, 4};
    /* Even, and even lengths: the standard rounds extents up to the alignment of the parts, which
     * libraries do for structs only or for all constructors. */
    MPI_Aint bytes[] = {50, 4, -10, 18};
    MPI_Datatype t;
    int i;
    forget();
    for (i = 0; i < 4; ++i) add_bytes(at[i] * 4, lengths[i] * 4);
    CHECK_OK(MPI_Type_indexed(4, lengths, at, MPI_INT, &t));
    check_type(&t, 0, 36, "indexed");
    forget();
    for (i = 0; i < 4; ++i) add_bytes((int)bytes[i], lengths[i] * 2);
    CHECK_OK(MPI_Type_create_hindexed(4, lengths, bytes, MPI_SHORT, &t));
    check_type(&t, -10, 64, "hindexed");
    forget();
    for (i = 0; i < 4; ++i) add_bytes(at[i] * 8, 16);
    CHECK_OK(MPI_Type_create_indexed_block(4, 2, at, MPI_DOUBLE, &t));
    check_type(&t, 0, 72, "indexed_block");
    forget();
    for (i = 0; i < 4; ++i) add_bytes((int)bytes[i], 3);
    CHECK_OK(MPI_Type_create_hindexed_block(4, 3, bytes, MPI_CHAR, &t));
    check_type(&t, -10, 63, "hindexed_block");
}

struct mixed { char letter; double value; short numbers[3]; };

static void structs(void) {
    int lengths[] = {1, 1, 3};
    MPI_Aint at[] = {offsetof(struct mixed, letter), offsetof(struct mixed, value),
                     offsetof(struct mixed, numbers)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, t, inner;
    int i;
    forget();
    add_bytes((int)at[0], 1);
    add_bytes((int)at[1], 8);
    add_bytes((int)at[2], 6);
    CHECK_OK(MPI_Type_create_struct(3, lengths, at, types, &t));
    check_type(&t, 0, (int)sizeof(struct mixed), "struct with padding");
    CHECK_OK(MPI_Type_create_struct(3, lengths, at, types, &inner));
    forget();
    for (i = 0; i < 3; ++i) {
        int base = i * 2 * (int)sizeof(struct mixed);
        add_bytes(base + (int)at[0], 1);
        add_bytes(base + (int)at[1], 8);
        add_bytes(base + (int)at[2], 6);
    }
    CHECK_OK(MPI_Type_vector(3, 1, 2, inner, &t));
    CHECK_OK(MPI_Type_free(&inner));
    check_type(&t, 0, 5 * (int)sizeof(struct mixed), "vector of structs");
}

static void resized(void) {
    MPI_Datatype t, u;
    int i;
    forget();
    add_bytes(0, 4);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, -4, 16, &t));
    check_type(&t, -4, 16, "resized");
    forget();
    for (i = 0; i < 3; ++i) add_bytes(i * 10, 4);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 10, &u));
    CHECK_OK(MPI_Type_contiguous(3, u, &t));
    check_type(&t, 0, 30, "contiguous of resized");
    forget();
    for (i = 0; i < 3; ++i) add_bytes(i * 2, 1);
    CHECK_OK(MPI_Type_vector(3, 1, 2, MPI_CHAR, &t));
    CHECK_OK(MPI_Type_free(&u));
    CHECK_OK(MPI_Type_create_resized(t, 0, 1, &u));
    CHECK_OK(MPI_Type_free(&t));
    CHECK_OK(MPI_Type_dup(u, &t));
    CHECK_OK(MPI_Type_free(&u));
    check_type(&t, 0, 1, "dup of resized to less than its size");
}

static void subarrays(void) {
    int sizes[] = {4, 5, 6}, parts[] = {2, 3, 2}, starts[] = {1, 2, 3}, i, j, k;
    MPI_Datatype t;
    forget();
    for (i = 0; i < 2; ++i) {
        for (j = 0; j < 3; ++j) add_bytes(((i + 1) * 30 + (j + 2) * 6 + 3) * 4, 8);
    }
    CHECK_OK(MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &t));
    check_type(&t, 0, 480, "subarray, C order");
    forget();
    for (k = 0; k < 2; ++k) {
        for (j = 0; j < 3; ++j) add_bytes(((k + 3) * 20 + (j + 2) * 4 + 1) * 2, 4);
    }
    CHECK_OK(MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_SHORT, &t));
    check_type(&t, 0, 240, "subarray, Fortran order");
}

int main(int argc, char** argv) {
    int i;
    start(&argc, &argv);
    for (i = 0; i < room; ++i) memory[i] = (unsigned char)(i * 37 + i / 256 + 1) | 1;
    vectors();
    indexed();
    structs();
    resized();
    subarrays();
    return finish();
}
