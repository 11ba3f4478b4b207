/* Goal: the shared pointer, ordered access and split collectives (MPI 5.0, sections 14.4.4,
 * 14.4.5): every access at the shared pointer gets a place of its own, ordered ones the places in
 * rank order.
 * Method: ranks write records that name their writer and number; afterwards the file must hold
 * every record once, each rank's in its order. Then the same through reads, with many at a time.
 */
#include "io_files.h"

enum { records = 40, ints = 6 };

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

static void make_record(int* record, int rank, int number) {
    for (int i = 0; i < ints; ++i) record[i] = (rank * records + number) * ints + i;
}

static int is_record(const int* record) {
    for (int i = 1; i < ints; ++i)
        if (record[i] != record[0] + i) return 0;
    return record[0] % ints == 0;
}

static void any_order(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int record[ints], k, total = records * check_size;
    int* all = malloc((size_t)total * ints * sizeof *all);
    int* seen = calloc((size_t)total, sizeof *seen);
    int* counts = calloc((size_t)total, sizeof *counts);
    int* next = calloc((size_t)check_size, sizeof *next);
    MPI_Offset at = -1, size = -1;
    MPI_Status s;
    MPI_Request r;
    context("shared pointer, any order");
    CHECK_OK(MPI_File_set_view(f, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (k = 0; k < records; ++k) {
        int count = -1;
        make_record(record, check_rank, k);
        if (k % 2) {
            CHECK_OK(MPI_File_write_shared(f, record, ints, MPI_INT, &s));
        } else {
            CHECK_OK(MPI_File_iwrite_shared(f, record, ints, MPI_INT, &r));
            CHECK_OK(MPI_Wait(&r, &s));
        }
        CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
        CHECK_EQ(ints, count);
    }
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_get_size(f, &size));
    CHECK_EQ(16 + total * ints * (long)sizeof(int), size);
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(total * ints, at);
    CHECK_OK(MPI_File_get_position(f, &at));
    CHECK_EQ(0, at);
    CHECK_OK(MPI_File_read_at_all(f, 0, all, total * ints, MPI_INT, &s));
    for (k = 0; k < total; ++k) {
        int writer = all[k * ints] / ints / records, number = all[k * ints] / ints % records;
        if (!CHECK(is_record(all + k * ints)) || !CHECK(writer >= 0 && writer < check_size)) continue;
        CHECK_EQ(next[writer]++, number);
    }
    /* Every record is read by one rank. */
    CHECK_OK(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    for (k = 0;; ++k) {
        int count = -1;
        memset(record, 0xff, sizeof record);
        if (k % 2) {
            CHECK_OK(MPI_File_read_shared(f, record, ints, MPI_INT, &s));
        } else {
            CHECK_OK(MPI_File_iread_shared(f, record, ints, MPI_INT, &r));
            CHECK_OK(MPI_Wait(&r, &s));
        }
        CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
        if (count == 0) break;
        CHECK_EQ(ints, count);
        if (CHECK(is_record(record))) ++seen[record[0] / ints];
    }
    CHECK_OK(MPI_Allreduce(seen, counts, total, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (k = 0; k < total; ++k) CHECK_EQ(1, counts[k]);
    close_and_delete(&f, name);
    free(all), free(seen), free(counts), free(next);
}

static void ordered(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int line[64], back[64], k, i, split;
    MPI_Offset at = -1, before = 0;
    MPI_Status s;
    /* Rank r has r + 1 integers (none for one rank in between), in four turns. */
    int count = check_rank == 1 ? 0 : check_rank + 1, total = 0, first = 0, got = -1;
    context("ordered");
    for (i = 0; i < check_size; ++i) {
        if (i == check_rank) first = total;
        total += i == 1 ? 0 : i + 1;
    }
    CHECK_OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (k = 0; k < 4; ++k) {
        for (i = 0; i < count; ++i) line[i] = k * total + first + i;
        if (k % 2) {
            CHECK_OK(MPI_File_write_ordered_begin(f, line, count, MPI_INT));
            CHECK_OK(MPI_File_write_ordered_end(f, line, &s));
        } else {
            CHECK_OK(MPI_File_write_ordered(f, line, count, MPI_INT, &s));
        }
        CHECK_OK(MPI_Get_count(&s, MPI_INT, &got));
        CHECK_EQ(count, got);
    }
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(4 * total, at);
    CHECK_OK(MPI_File_sync(f));
    barrier();
    for (i = 0; i < 4 * total; ++i) {
        CHECK_EQ(sizeof *back, plain_read(name, back, i * (long)sizeof *back, sizeof *back));
        CHECK_EQ(i, back[0]);
    }
    for (split = 0; split < 2; ++split) {
        CHECK_OK(MPI_File_seek_shared(f, split ? -4 * total : 0, split ? MPI_SEEK_END : MPI_SEEK_SET));
        for (k = 0; k < 4; ++k) {
            memset(back, 0xff, sizeof back);
            if (split) {
                CHECK_OK(MPI_File_read_ordered_begin(f, back, count, MPI_INT));
                CHECK_OK(MPI_File_read_ordered_end(f, back, &s));
            } else {
                CHECK_OK(MPI_File_read_ordered(f, back, count, MPI_INT, &s));
            }
            for (i = 0; i < count; ++i) CHECK_EQ(k * total + first + i, back[i]);
            CHECK_EQ(-1, back[count]);
        }
        CHECK_OK(MPI_File_get_position_shared(f, &at));
        CHECK_EQ(4 * total, at);
        barrier();
    }
    CHECK_OK(MPI_File_seek_shared(f, -2, MPI_SEEK_CUR));
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(4 * total - 2, at);
    CHECK_OK(MPI_File_get_byte_offset(f, at, &before));
    CHECK_EQ((4 * total - 2) * (long)sizeof(int), before);
    /* A new view begins at its beginning. */
    CHECK_OK(MPI_File_set_view(f, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(0, at);
    close_and_delete(&f, name);
}

/* Something else happens between begin and end. */
static void split(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int mine[50], back[50], other = 0, i, got = -1;
    MPI_Status s;
    context("split");
    for (i = 0; i < 50; ++i) mine[i] = check_rank * 50 + i;
    CHECK_OK(MPI_File_set_view(f, check_rank * (MPI_Offset)sizeof mine, MPI_INT, MPI_INT, "native",
                               MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_all_begin(f, mine, 50, MPI_INT));
    CHECK_OK(MPI_Allreduce(&check_rank, &other, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK_EQ(check_size - 1, other);
    CHECK_OK(MPI_File_write_all_end(f, mine, &s));
    CHECK_OK(MPI_Get_count(&s, MPI_INT, &got));
    CHECK_EQ(50, got);
    CHECK_OK(MPI_File_seek(f, 0, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_all_begin(f, back, 50, MPI_INT));
    barrier();
    CHECK_OK(MPI_File_read_all_end(f, back, &s));
    CHECK_MEM(mine, back, sizeof mine);
    CHECK_CLASS(MPI_ERR_IO, MPI_File_read_all_end(f, back, &s));
    CHECK_OK(MPI_File_read_at_all_begin(f, 0, back, 50, MPI_INT));
    CHECK_CLASS(MPI_ERR_IO, MPI_File_read_at_all_begin(f, 0, back, 50, MPI_INT));
    CHECK_OK(MPI_File_read_at_all_end(f, back, MPI_STATUS_IGNORE));
    close_and_delete(&f, name);
}

/* A non-blocking collective access does not wait for the other ranks. */
static void no_waiting(void) {
    char name[200];
    MPI_File f = open_new(name, sizeof name);
    int value = check_rank, back = -1, token = 0;
    MPI_Request r;
    context("non-blocking collectives");
    if (check_rank > 0) {
        CHECK_OK(MPI_Recv(&token, 1, MPI_INT, check_rank - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_File_iwrite_at_all(f, check_rank * (MPI_Offset)sizeof(int), &value, 1, MPI_INT, &r));
    if (check_rank + 1 < check_size)
        CHECK_OK(MPI_Send(&token, 1, MPI_INT, check_rank + 1, 5, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_seek(f, (check_rank + 1) % check_size, MPI_SEEK_SET));
    CHECK_OK(MPI_File_iread_all(f, &back, 1, MPI_INT, &r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ((check_rank + 1) % check_size, back);
    barrier();
    CHECK_OK(MPI_File_seek(f, check_rank, MPI_SEEK_SET));
    value += 100;
    CHECK_OK(MPI_File_iwrite_all(f, &value, 1, MPI_INT, &r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iread_at_all(f, check_rank, &back, 1, MPI_INT, &r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(check_rank + 100, back);
    close_and_delete(&f, name);
}

/* Sequential files: the shared pointer only, and views begin where it is. */
static void sequential(void) {
    char name[200], dash[8] = "", datarep[MPI_MAX_DATAREP_STRING];
    MPI_File f;
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    int c = '0' + check_rank, seen = 0;
    context("sequential");
    new_name(name, sizeof name);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL,
                           MPI_INFO_NULL, &f));
    char letter = (char)c;
    CHECK_OK(MPI_File_write_ordered(f, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION,
                MPI_File_write_at(f, 0, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION,
                MPI_File_write(f, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(f, 0, MPI_SEEK_SET));
    CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    CHECK_OK(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    CHECK_EQ(check_size, disp);
    CHECK(etype == MPI_CHAR && filetype == MPI_CHAR);
    CHECK_STR("native", datarep);
    letter = '-';
    CHECK_OK(MPI_File_write_shared(f, &letter, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&f));
    CHECK_EQ(1, plain_read(name, dash, check_rank, 1));
    CHECK_EQ(c, dash[0]);
    CHECK_EQ(1, plain_read(name, dash, check_size + check_rank, 1));
    CHECK_EQ('-', dash[0]);
    barrier();
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name,
                           MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                           &f));
    CHECK_OK(MPI_File_read_ordered(f, dash, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(c, dash[0]);
    CHECK_OK(MPI_File_close(&f));
    seen = exists(name);
    CHECK_EQ(0, seen);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    any_order();
    ordered();
    split();
    no_waiting();
    sequential();
    return finish();
}
