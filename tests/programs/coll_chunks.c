/* Goal: large collectives, which ranks of one machine do through chunks of shared memory, are right
 * whatever the order and the pace: roots that run ahead, several under way and ended in another
 * order, small ones in between, in place, operations that do not commute, lengths that differ.
 * Method: every result is compared as a whole; ranks are slowed down in turn; a performance
 * variable tells that chunks were used where nothing forbids it.
 */
#include "check.h"
#include "counter.h"

#include <unistd.h>

enum { longest = 600000 }; /* ints */
static const int counts[] = {1, 700, 1025, 8191, 8192, 16385, 50000, 131072, 262147, longest};
enum { kinds = sizeof counts / sizeof *counts };
static int *mine, *all, *other;

static void slow(int round) {
    if (round % (3 * check_size) == check_rank) usleep(300);
}

static int value(int rank, int round, int i) { return rank * 7919 + round * 31 + i % 1009; }

static void fill(int* data, int rank, int round, int n) {
    int i;
    for (i = 0; i < n; ++i) data[i] = value(rank, round, i);
}

/* Of n elements that differ from what `rank` filled in, from element `from` of its data on. */
static int wrong(const int* data, int rank, int round, int from, int n) {
    int i, bad = 0;
    for (i = 0; i < n; ++i) bad += data[i] != value(rank, round, from + i);
    return bad;
}

static int wrong_sum(const int* data, int round, int from, int n) {
    int i, bad = 0, ranks = check_size * (check_size - 1) / 2;
    for (i = 0; i < n; ++i)
        bad += data[i] != ranks * 7919 + check_size * (round * 31 + (from + i) % 1009);
    return bad;
}

static void ahead(MPI_Comm comm) {
    int round;
    context("ahead");
    for (round = 0; round < 60; ++round) {
        int n = counts[round % kinds], root = round / 15 % check_size;
        if (check_rank == root) fill(mine, root, round, n);
        else memset(mine, -1, sizeof(int) * (size_t)n);
        slow(round);
        CHECK_OK(MPI_Bcast(mine, n, MPI_INT, root, comm));
        CHECK_EQ(0, wrong(mine, root, round, 0, n));
        fill(mine, check_rank, round, n);
        CHECK_OK(MPI_Reduce(mine, all, n, MPI_INT, MPI_SUM, root, comm));
        if (check_rank == root) CHECK_EQ(0, wrong_sum(all, round, 0, n));
    }
}

static void every_kind(MPI_Comm comm) {
    int round, j, p = check_size, r = check_rank;
    for (round = 0; round < 2 * kinds; ++round) {
        int n = counts[round % kinds], m = n / p + 1;
        context("count %d", n);
        fill(mine, r, round, p * m);
        slow(round);
        CHECK_OK(MPI_Allreduce(mine, all, n, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, 0, n));
        memcpy(all, mine, sizeof(int) * (size_t)n);
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, 0, n));
        CHECK_OK(MPI_Allgather(mine, m, MPI_INT, all, m, MPI_INT, comm));
        for (j = 0; j < p; ++j) CHECK_EQ(0, wrong(all + j * m, j, round, 0, m));
        memset(all, 0, sizeof(int) * (size_t)(p * m));
        memcpy(all + r * m, mine, sizeof(int) * (size_t)m);
        CHECK_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, all, m, MPI_INT, comm));
        for (j = 0; j < p; ++j) CHECK_EQ(0, wrong(all + j * m, j, round, 0, m));
        CHECK_OK(MPI_Alltoall(mine, m, MPI_INT, all, m, MPI_INT, comm));
        for (j = 0; j < p; ++j) CHECK_EQ(0, wrong(all + j * m, j, round, r * m, m));
        CHECK_OK(MPI_Reduce_scatter_block(mine, all, m, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, r * m, m));
        memcpy(all, mine, sizeof(int) * (size_t)(p * m));
        CHECK_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, all, m, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, r * m, m));
    }
}

/* Blocks of unequal lengths, none among them; the first is the shortest, so that in place results
 * begin amid others' blocks. */
static void unequal(MPI_Comm comm) {
    int* lengths = malloc(sizeof(int) * (size_t)check_size);
    int* offsets = malloc(sizeof(int) * (size_t)check_size);
    int round, j, total = 0;
    for (round = 0; round < 4; ++round) {
        context("unequal, round %d", round);
        total = 0;
        for (j = 0; j < check_size; ++j) {
            lengths[j] = round == 1 && j % 2 ? 0 : j == 0 ? 3 : 20000 * (round + 1) / (j + 1);
            offsets[j] = total, total += lengths[j];
        }
        fill(mine, check_rank, round, total);
        CHECK_OK(MPI_Reduce_scatter(mine, all, lengths, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, offsets[check_rank], lengths[check_rank]));
        memcpy(all, mine, sizeof(int) * (size_t)total);
        CHECK_OK(MPI_Reduce_scatter(MPI_IN_PLACE, all, lengths, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(0, wrong_sum(all, round, offsets[check_rank], lengths[check_rank]));
        CHECK_OK(MPI_Allgatherv(mine, lengths[check_rank], MPI_INT, all, lengths, offsets, MPI_INT,
                                comm));
        for (j = 0; j < check_size; ++j)
            CHECK_EQ(0, wrong(all + offsets[j], j, round, 0, lengths[j]));
    }
    free(lengths);
    free(offsets);
}

/* x o y = (x1 y1, x2 y1 + y2): affine maps one after the other, which do not commute. */
static void compose(void* left, void* inout, int* length, MPI_Datatype* type) {
    unsigned *x = left, *y = inout;
    int i;
    (void)type;
    for (i = 0; i < *length; ++i) {
        unsigned one = x[2 * i] * y[2 * i], two = x[2 * i + 1] * y[2 * i] + y[2 * i + 1];
        y[2 * i] = one, y[2 * i + 1] = two;
    }
}

static void in_order(MPI_Comm comm) {
    MPI_Datatype pair;
    MPI_Op op;
    unsigned *in = (unsigned*)mine, *out = (unsigned*)all, *expected = (unsigned*)other, *next;
    int n = 50000, r, i, one, bad = 0;
    context("in order");
    CHECK_OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    next = malloc(sizeof(unsigned) * 2 * (size_t)n);
    for (r = 0; r < check_size; ++r) {
        for (i = 0; i < n; ++i) next[2 * i] = 2u * (unsigned)(i + r) + 1, next[2 * i + 1] = (unsigned)(i * 3 + r);
        if (r == check_rank) memcpy(in, next, sizeof(unsigned) * 2 * (size_t)n);
        if (r) {
            /* expected o next, with the result in next */
            one = n;
            compose(expected, next, &one, &pair);
        }
        memcpy(expected, next, sizeof(unsigned) * 2 * (size_t)n);
    }
    CHECK_OK(MPI_Allreduce(in, out, n, pair, op, comm));
    for (i = 0; i < 2 * n; ++i) bad += out[i] != expected[i];
    CHECK_EQ(0, bad);
    free(next);
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&pair));
}

/* Large and small ones under way, waited for in another order at each rank. */
static void under_way(MPI_Comm comm) {
    enum { many = 24, n = 40000 };
    static int small[many];
    MPI_Request requests[many];
    int round, i;
    for (round = 0; round < 3; ++round) {
        context("under way, round %d", round);
        for (i = 0; i < many; ++i) {
            int* in = mine + i * n;
            if (i % 4 == 0) {
                fill(in, check_rank, i, n);
                CHECK_OK(MPI_Iallreduce(in, all + i * n, n, MPI_INT, MPI_SUM, comm, &requests[i]));
            } else if (i % 4 == 1) {
                small[i] = i;
                CHECK_OK(MPI_Iallreduce(MPI_IN_PLACE, &small[i], 1, MPI_INT, MPI_SUM, comm,
                                        &requests[i]));
            } else if (i % 4 == 2) {
                if (check_rank == i % check_size) fill(all + i * n, check_rank, i, n);
                CHECK_OK(MPI_Ibcast(all + i * n, n, MPI_INT, i % check_size, comm, &requests[i]));
            } else {
                fill(in, check_rank, i, n);
                CHECK_OK(MPI_Iallgather(in, n / check_size, MPI_INT, all + i * n, n / check_size,
                                        MPI_INT, comm, &requests[i]));
            }
        }
        slow(round);
        for (i = 0; i < many; ++i) {
            int k = (i * 7 + check_rank * 11) % many, j;
            CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
            if (k % 4 == 0) CHECK_EQ(0, wrong_sum(all + k * n, k, 0, n));
            if (k % 4 == 1) CHECK_EQ(k * check_size, small[k]);
            if (k % 4 == 2) CHECK_EQ(0, wrong(all + k * n, k % check_size, k, 0, n));
            for (j = 0; k % 4 == 3 && j < check_size; ++j)
                CHECK_EQ(0, wrong(all + k * n + j * (n / check_size), j, k, 0, n / check_size));
        }
    }
}

/* Vectors of other lengths meet: told, never a hang, and the others go on. By messages alone, of
 * one rank on each machine, it may be only the rank with more to receive that sees it. */
static void lengths(void) {
    MPI_Comm comm;
    int round, error, told, n, together = ranks_here();
    CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    for (round = 0; round < 3; ++round) {
        context("other lengths, round %d", round);
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        CHECK_OK(MPI_Barrier(comm));
        n = check_rank ? 100000 : round == 0 ? 50000 : round == 1 ? 200000 : 10;
        error = MPI_Allreduce(mine, all, n, MPI_INT, MPI_SUM, comm);
        told = error != MPI_SUCCESS;
        CHECK(told || together == 1);
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &told, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
        CHECK(told);
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

/* What a root shows counts once, and what another rank reads. */
static void bytes_shown(const char* counter, int reads, int one) {
    unsigned long long before = 0, after;
    counter_start(counter);
    CHECK_OK(MPI_T_pvar_read(counter_session, counter_handle, &before));
    CHECK_OK(MPI_Bcast(mine, longest, MPI_INT, 0, MPI_COMM_WORLD));
    after = counter_end();
    CHECK(after - before <= longest * sizeof(int));
    CHECK((after > before) == (reads == (check_rank != 0)) || !one);
}

int main(int argc, char** argv) {
    unsigned long long shown;
    start(&argc, &argv);
    mine = malloc(sizeof(int) * 2 * longest);
    all = malloc(sizeof(int) * 2 * longest);
    other = malloc(sizeof(int) * 2 * longest);
    counter_start("board_chunks");
    ahead(MPI_COMM_WORLD); /* before and after there is a board */
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    ahead(MPI_COMM_WORLD);
    every_kind(MPI_COMM_WORLD);
    unequal(MPI_COMM_WORLD);
    in_order(MPI_COMM_WORLD);
    under_way(MPI_COMM_WORLD);
    shown = counter_end();
    if (check_size > 1 && !getenv("POMONA_TRANSPORTS") && !getenv("POMONA_SHM_BOARD")) {
        int one = one_machine();
        CHECK(shown > 100 || !one);
        bytes_shown("board_bytes", 0, one);
        bytes_shown("board_bytes_read", 1, one);
        lengths();
    }
    free(mine);
    free(all);
    free(other);
    return finish();
}
