/* Goal: views of every kind that programs use: blocks of matrices, regions of processes without
 * data, positions and ends in views with holes, reads beyond the end, writers under atomic mode
 * (MPI 5.0, sections 14.3, 14.4, 14.6).
 * Method: small files whose every byte is known; each result is computed by loops over the matrix.
 */
#include "io_files.h"
#include <stddef.h>

static MPI_File open_new(char* name, size_t bytes) {
    MPI_File f = MPI_FILE_NULL;
    new_name(name, bytes);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    return f;
}

static void close_and_delete(MPI_File* f, const char* name) {
    CHECK_OK(MPI_File_close(f));
    if (check_rank == 0) CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
    barrier();
}

/* A matrix dealt out by blocks of columns, through MPI_Type_create_subarray, with a border in
 * memory. */
static void matrix_columns(void) {
    enum { rows = 37, width = 5, border = 2 };
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int sizes[2] = {rows, width * check_size}, part[2] = {rows, width}, start_at[2] = {0, width * check_rank};
    int held[2] = {rows + 2 * border, width + 2 * border}, inside[2] = {border, border}, i, j, pass;
    double memory[rows + 2 * border][width + 2 * border], whole;
    MPI_Datatype file_type, memory_type;
    MPI_Status s;
    context("columns of a matrix");
    CHECK_OK(MPI_Type_create_subarray(2, sizes, part, start_at, MPI_ORDER_C, MPI_DOUBLE, &file_type));
    CHECK_OK(MPI_Type_create_subarray(2, held, part, inside, MPI_ORDER_C, MPI_DOUBLE, &memory_type));
    CHECK_OK(MPI_Type_commit(&file_type));
    CHECK_OK(MPI_Type_commit(&memory_type));
    CHECK_OK(MPI_File_set_view(f, 64, MPI_DOUBLE, file_type, "native", MPI_INFO_NULL));
    for (pass = 0; pass < 2; ++pass) {
        for (i = 0; i < rows + 2 * border; ++i)
            for (j = 0; j < width + 2 * border; ++j) memory[i][j] = -1;
        for (i = 0; i < rows; ++i)
            for (j = 0; j < width; ++j)
                memory[i + border][j + border] = (pass * rows + i) * 1000.0 + check_rank * width + j;
        CHECK_OK(MPI_File_write_all(f, memory, 1, memory_type, &s));
    }
    CHECK_OK(MPI_File_sync(f));
    barrier();
    for (i = 0; i < 2 * rows; ++i)
        for (j = 0; j < width * check_size; ++j) {
            long at = 64 + ((long)i * width * check_size + j) * (long)sizeof whole;
            CHECK_EQ(sizeof whole, plain_read(name, &whole, at, sizeof whole));
            CHECK_EQ(i * 1000 + j, whole);
        }
    memset(memory, 0, sizeof memory);
    CHECK_OK(MPI_File_read_at_all(f, rows * width, memory, 1, memory_type, &s));
    for (i = -border; i < rows + border; ++i)
        for (j = -border; j < width + border; ++j) {
            int is_inside = i >= 0 && i < rows && j >= 0 && j < width;
            double expected = is_inside ? (rows + i) * 1000 + check_rank * width + j : 0;
            CHECK_EQ(expected, memory[i + border][j + border]);
        }
    CHECK_OK(MPI_Type_free(&file_type));
    CHECK_OK(MPI_Type_free(&memory_type));
    close_and_delete(&f, name);
}

/* A cyclic distribution through MPI_Type_create_darray; the handle is freed while the view uses
 * it. */
static void cyclic(void) {
    enum { total = 103 };
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int gsize = total, kind = MPI_DISTRIBUTE_CYCLIC, argument = 3, grid = check_size, bytes = 0, n, i, v;
    int mine[total];
    MPI_Datatype type;
    context("cyclic");
    CHECK_OK(MPI_Type_create_darray(check_size, check_rank, 1, &gsize, &kind, &argument, &grid, MPI_ORDER_C,
                                    MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_size(type, &bytes));
    n = bytes / (int)sizeof(int);
    CHECK_OK(MPI_File_set_view(f, 0, MPI_INT, type, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_Type_free(&type));
    for (i = 0; i < n; ++i) mine[i] = (i / 3 * check_size + check_rank) * 3 + i % 3;
    CHECK_OK(MPI_File_write_at_all(f, 0, mine, n, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(f));
    barrier();
    for (i = 0; i < total; ++i) {
        CHECK_EQ(sizeof v, plain_read(name, &v, i * (long)sizeof v, sizeof v));
        CHECK_EQ(i, v);
    }
    close_and_delete(&f, name);
}

/* Ranks without data take part in collective calls. */
static void without_data(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int value = 100 + check_rank, back = -1, k, even = check_rank % 2 == 0, zero = 0;
    MPI_Datatype none, every;
    context("without data");
    CHECK_OK(MPI_Type_indexed(0, &zero, &zero, MPI_INT, &none));
    CHECK_OK(MPI_Type_commit(&none));
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)sizeof(int) * check_size, &every));
    CHECK_OK(MPI_Type_commit(&every));
    CHECK_OK(MPI_File_set_view(f, even ? check_rank * (MPI_Offset)sizeof(int) : 0, MPI_INT, even ? every : none,
                               "native", MPI_INFO_NULL));
    for (k = 0; k < 3; ++k)
        CHECK_OK(MPI_File_write_all(f, &value, even ? 1 : 0, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_read_at_all(f, 1, &back, even ? 1 : 0, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(even ? value : -1, back);
    for (k = 0; k < 3 * check_size; ++k) {
        if (k % check_size % 2) continue;
        CHECK_EQ(sizeof back, plain_read(name, &back, k * (long)sizeof back, sizeof back));
        CHECK_EQ(100 + k % check_size, back);
    }
    CHECK_OK(MPI_Type_free(&none));
    CHECK_OK(MPI_Type_free(&every));
    close_and_delete(&f, name);
}

/* Ends, positions and short reads in a view with holes: two of every five integers. */
static void holes(void) {
    char name[200], datarep[MPI_MAX_DATAREP_STRING] = "";
    MPI_File f = open_new(name, sizeof name);
    MPI_Datatype pattern, resized, etype, found;
    MPI_Offset at = -1, disp = -1;
    MPI_Aint extent = -1, lb = -1;
    MPI_Status s;
    int blocks[2] = {1, 1}, places[2] = {1, 3}, values[50], back[20], i, k, count, ni, na, nd, combiner;
    context("holes");
    CHECK_OK(MPI_Type_indexed(2, blocks, places, MPI_INT, &pattern));
    CHECK_OK(MPI_Type_create_resized(pattern, 0, 5 * (MPI_Aint)sizeof(int), &resized));
    CHECK_OK(MPI_Type_commit(&resized));
    for (i = 0; i < 50; ++i) values[i] = i;
    if (check_rank == 0) CHECK_OK(MPI_File_write_at(f, 0, values, 49, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_sync(f));
    CHECK_OK(MPI_File_set_view(f, 8, MPI_INT, resized, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_view(f, &disp, &etype, &found, datarep));
    CHECK_EQ(8, disp);
    CHECK(etype == MPI_INT);
    CHECK_STR("native", datarep);
    CHECK_OK(MPI_Type_get_extent(found, &lb, &extent));
    CHECK_EQ(0, lb);
    CHECK_EQ(20, extent);
    CHECK_OK(MPI_Type_get_envelope(found, &ni, &na, &nd, &combiner));
    CHECK(combiner != MPI_COMBINER_NAMED);
    CHECK_OK(MPI_Type_free(&found));
    CHECK_OK(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent));
    CHECK_EQ(sizeof(double), extent);
    /* Integer k of the view is integer 2 + k / 2 * 5 + (k % 2 ? 3 : 1) of the file. */
    for (k = 0; k < 20; ++k) {
        CHECK_OK(MPI_File_get_byte_offset(f, k, &at));
        CHECK_EQ((2 + k / 2 * 5 + (k % 2 ? 3 : 1)) * (long)sizeof(int), at);
    }
    /* The file has 49: the last of the view is number 18, at 2 + 45 + 1 = 48. */
    CHECK_OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(19, at);
    CHECK_OK(MPI_File_get_byte_offset(f, at, &disp));
    CHECK_EQ(50 * (long)sizeof(int), disp);
    /* The end where an integer of the view would begin, and within it. */
    for (k = 0; k < 3; ++k) {
        CHECK_OK(MPI_File_set_size(f, 50 * (MPI_Offset)sizeof(int) + k));
        CHECK_OK(MPI_File_seek(f, 0, MPI_SEEK_END));
        CHECK_OK(MPI_File_get_position(f, &at));
        CHECK_EQ(k ? 20 : 19, at);
        barrier();
    }
    CHECK_OK(MPI_File_set_size(f, 49 * (MPI_Offset)sizeof(int)));
    memset(back, 0xff, sizeof back);
    CHECK_OK(MPI_File_read_at(f, 3, back, 20, MPI_INT, &s));
    CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
    /* MPICH 4.0 reports what was asked for. */
    if (!known_limit("MPICH")) CHECK_EQ(16, count);
    for (i = 0; i < 16; ++i) {
        k = i + 3;
        CHECK_EQ(2 + k / 2 * 5 + (k % 2 ? 3 : 1), back[i]);
    }
    /* Together as well. */
    memset(back, 0xff, sizeof back);
    CHECK_OK(MPI_File_read_at_all(f, 3, back, 20, MPI_INT, &s));
    CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
    if (!known_limit("MPICH")) CHECK_EQ(16, count);
    CHECK_EQ(2 + 9 * 5 + 1, back[15]);
    CHECK_OK(MPI_Type_free(&pattern));
    CHECK_OK(MPI_Type_free(&resized));
    close_and_delete(&f, name);
}

/* Everybody writes the same many places in one call; under atomic mode all are of one rank. */
static void atomic_writers(void) {
    enum { block = 15, blocks = 300, bytes = block * blocks, turns = 80 };
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    static char data[bytes], back[bytes];
    MPI_Datatype many;
    MPI_Status s;
    int turn, i, count = 0;
    context("atomic mode");
    CHECK_OK(MPI_Type_vector(blocks, block, 100, MPI_CHAR, &many));
    CHECK_OK(MPI_Type_commit(&many));
    CHECK_OK(MPI_File_set_view(f, 0, MPI_CHAR, many, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_set_atomicity(f, 1));
    for (turn = 0; turn < turns; ++turn) {
        memset(data, 'a' + check_rank, sizeof data);
        if (turn % 8 == 0) CHECK_OK(MPI_File_write_at_all(f, 0, data, bytes, MPI_CHAR, &s));
        else CHECK_OK(MPI_File_write_at(f, 0, data, bytes, MPI_CHAR, &s));
        /* Others may still be writing. */
        CHECK_OK(MPI_File_read_at(f, 0, back, bytes, MPI_CHAR, &s));
        CHECK_OK(MPI_Get_count(&s, MPI_CHAR, &count));
        CHECK_EQ(bytes, count);
        for (i = 0; i < bytes && back[i] == back[0]; ++i) {
        }
        CHECK_EQ(bytes, i);
    }
    CHECK_OK(MPI_Type_free(&many));
    close_and_delete(&f, name);
}

/* Filetypes that overlap themselves, in one filetype or from one to the next, may be read. */
static void overlaps(void) {
    enum { total = 200 };
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int values[total], back[60], lengths[2] = {4, 3}, places[2] = {0, 2}, i, k, form;
    MPI_Datatype twice, dense;
    MPI_Status s;
    context("overlaps");
    for (i = 0; i < total; ++i) values[i] = i;
    if (check_rank == 0) CHECK_OK(MPI_File_write_at(f, 0, values, total, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    CHECK_OK(MPI_Type_indexed(2, lengths, places, MPI_INT, &twice));
    CHECK_OK(MPI_Type_commit(&twice));
    CHECK_OK(MPI_Type_create_resized(twice, 0, 3 * (MPI_Aint)sizeof(int), &dense));
    CHECK_OK(MPI_Type_commit(&dense));
    for (form = 0; form < 4; ++form) {
        /* MPICH 4.0 begins wrongly within a block. */
        MPI_Offset first = known_limit("MPICH") ? 0 : check_rank * 3;
        int apart = form & 1 ? 3 : 5;
        CHECK_OK(MPI_File_set_view(f, 0, MPI_INT, form & 1 ? dense : twice, "native", MPI_INFO_NULL));
        memset(back, 0xff, sizeof back);
        if (form & 2) CHECK_OK(MPI_File_read_at_all(f, first, back, 60, MPI_INT, &s));
        else CHECK_OK(MPI_File_read_at(f, first, back, 60, MPI_INT, &s));
        for (i = 0; i < 60; ++i) {
            k = (int)first + i;
            CHECK_EQ(k / 7 * apart + (k % 7 < 4 ? k % 7 : k % 7 - 2), back[i]);
        }
    }
    CHECK_OK(MPI_Type_free(&twice));
    CHECK_OK(MPI_Type_free(&dense));
    close_and_delete(&f, name);
}

/* external32: what lies in the file is what MPI_Pack_external gives, piece by piece. */
static void external(void) {
    enum { n = 12 };
    char name[200], raw[1000];
    unsigned char expected[1000];
    MPI_File f = open_new(name, sizeof name);
    struct item {
        int i;
        double d;
        char c[2];
        short s;
    } items[n], back[n];
    struct item* first = items;
    int lengths[4] = {1, 1, 2, 1}, k, size = 0, held = -1;
    MPI_Aint places[4] = {offsetof(struct item, i), offsetof(struct item, d), offsetof(struct item, c),
                          offsetof(struct item, s)};
    MPI_Datatype types[4] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_SHORT}, tight, item, etype, filetype;
    MPI_Aint position = 0, extent = 0;
    MPI_Offset at = -1, disp;
    MPI_Status s;
    context("external32");
    memset(items, 0, sizeof items);
    for (k = 0; k < n; ++k) {
        items[k].i = 1000 * check_rank + k;
        items[k].d = k / 3.0;
        items[k].c[0] = (char)('a' + k), items[k].c[1] = '-';
        items[k].s = (short)(-k);
    }
    CHECK_OK(MPI_Type_create_struct(4, lengths, places, types, &tight));
    CHECK_OK(MPI_Type_create_resized(tight, 0, sizeof *first, &item));
    CHECK_OK(MPI_Type_commit(&item));
    CHECK_OK(MPI_Type_size(item, &size));
    /* Rank by rank, as bytes that a filetype of integers holds. */
    CHECK_OK(MPI_File_set_view(f, check_rank * (MPI_Offset)(n * size), MPI_SHORT, MPI_SHORT, "external32",
                               MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_view(f, &disp, &etype, &filetype, raw));
    CHECK_STR("external32", raw);
    CHECK_OK(MPI_File_get_type_extent(f, MPI_INT, &extent));
    CHECK_EQ(4, extent);
    CHECK_OK(MPI_File_write_at_all(f, 0, items, n, item, &s));
    CHECK_OK(MPI_Get_count(&s, item, &held));
    CHECK_EQ(n, held);
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_Pack_external("external32", items, n, item, expected, sizeof expected, &position));
    CHECK_EQ(n * size, position);
    CHECK_EQ(n * size, plain_read(name, raw, check_rank * (long)(n * size), n * size));
    CHECK_MEM(expected, raw, (size_t)(n * size));
    memset(back, 0, sizeof back);
    CHECK_OK(MPI_File_read_all(f, back, n, item, &s));
    CHECK_OK(MPI_Get_count(&s, item, &held));
    CHECK_EQ(n, held);
    CHECK_MEM(items, back, sizeof items);
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(n * size / 2, at);
    CHECK_OK(MPI_Type_free(&tight));
    CHECK_OK(MPI_Type_free(&item));
    close_and_delete(&f, name);
}

/* Types whose size in files differs from that in memory: C's long has 4 bytes there. */
static void external_sizes(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    long values[6], back[6], spread[12];
    unsigned char raw[6 * 8] = {0};
    MPI_Datatype every, memory;
    MPI_Aint extent = 0;
    MPI_Status s;
    int k, count = -1;
    context("external32, long");
    for (k = 0; k < 6; ++k) values[k] = k % 2 ? -(check_rank * 10 + k) : check_rank * 10 + k;
    CHECK_OK(MPI_Type_vector(1, 1, 1, MPI_LONG, &memory));
    CHECK_OK(MPI_Type_create_resized(memory, 0, 4 * check_size, &every));
    CHECK_OK(MPI_Type_commit(&every));
    CHECK_OK(MPI_Type_free(&memory));
    CHECK_OK(MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &memory));
    CHECK_OK(MPI_Type_commit(&memory));
    CHECK_OK(MPI_File_set_view(f, 4 * check_rank, MPI_LONG, every, "external32", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_type_extent(f, MPI_LONG, &extent));
    CHECK_EQ(4, extent);
    CHECK_OK(MPI_File_write_all(f, values, 6, MPI_LONG, &s));
    CHECK_OK(MPI_Get_count(&s, MPI_LONG, &count));
    CHECK_EQ(6, count);
    CHECK_OK(MPI_File_sync(f));
    barrier();
    for (k = 0; k < 6; ++k) {
        CHECK_EQ(4, plain_read(name, raw, (k * check_size + check_rank) * 4L, 4));
        CHECK_EQ(values[k], (int)((unsigned)raw[0] << 24 | (unsigned)raw[1] << 16 | (unsigned)raw[2] << 8 | raw[3]));
    }
    memset(spread, 0xff, sizeof spread);
    CHECK_OK(MPI_File_read_at_all(f, 2, spread, 6, memory, &s));
    CHECK_OK(MPI_Get_count(&s, memory, &count));
    CHECK_EQ(4, count);
    for (k = 0; k < 12; ++k) CHECK_EQ(k % 2 || k >= 8 ? -1 : values[k / 2 + 2], spread[k]);
    CHECK_OK(MPI_File_seek(f, 5, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read(f, back, 1, MPI_LONG, &s));
    CHECK_EQ(values[5], back[0]);
    CHECK_OK(MPI_Type_free(&every));
    CHECK_OK(MPI_Type_free(&memory));
    close_and_delete(&f, name);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    matrix_columns();
    cyclic();
    without_data();
    holes();
    atomic_writers();
    overlaps();
    /* MPICH 4.0 crashes on derived types there. */
    if (!known_limit("MPICH")) {
        external();
        external_sizes();
    }
    return finish();
}
