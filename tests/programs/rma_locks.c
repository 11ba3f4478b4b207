/* Goal: passive targets. Locks exclude each other, flushes complete, lock_all lets everybody work,
 * atomic operations lose nothing, requests complete. Method: counters that every member increments
 * in each of the ways; the sums are known.
 */
#include "check.h"

#include <unistd.h>

enum { rounds = 200 };

static void exclusive(MPI_Win win, long* memory) {
    int i, target = check_size - 1;
    long value, sum;
    context("exclusive");
    for (i = 0; i < rounds; ++i) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
        CHECK_OK(MPI_Get(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, win));
        CHECK_OK(MPI_Win_flush(target, win));
        ++value;
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, target, 0, 1, MPI_LONG, win));
        CHECK_OK(MPI_Win_unlock(target, win));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    CHECK_OK(MPI_Get(&sum, 1, MPI_LONG, target, 0, 1, MPI_LONG, win));
    CHECK_OK(MPI_Win_unlock(target, win));
    CHECK_EQ((long)rounds * check_size, sum);
    (void)memory;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void atomics(MPI_Win win) {
    long one = 1, old = -1, sum = 0, seen = 0, expected;
    int i;
    context("fetch and op");
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (i = 0; i < rounds; ++i) {
        CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, i % check_size, 1, MPI_SUM, win));
        CHECK_OK(MPI_Win_flush(i % check_size, win));
        CHECK(old >= 0 && old < (long)rounds * check_size);
    }
    CHECK_OK(MPI_Win_flush_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (i = 0; i < check_size; ++i) {
        CHECK_OK(MPI_Fetch_and_op(NULL, &seen, MPI_LONG, i, 1, MPI_NO_OP, win));
        CHECK_OK(MPI_Win_flush_local(i, win));
        sum += seen;
    }
    CHECK_EQ((long)rounds * check_size, sum);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    /* A counter by compare and swap. */
    context("compare and swap");
    for (i = 0; i < rounds; ++i) {
        expected = 0;
        for (;;) {
            long wanted = expected + 1;
            CHECK_OK(MPI_Compare_and_swap(&wanted, &expected, &old, MPI_LONG, 0, 2, win));
            CHECK_OK(MPI_Win_flush(0, win));
            if (old == expected) break;
            expected = old;
        }
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, &seen, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_NO_OP,
                                win));
    CHECK_OK(MPI_Win_flush(0, win));
    CHECK_EQ((long)rounds * check_size, seen);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_unlock_all(win));
}

/* Long accumulations are atomic element by element, and fetch what was before. */
static void long_accumulations(MPI_Win win, long* memory, int offset) {
    enum { n = 50000 };
    static long out[n], old[n], in[n];
    int i, round, bad = 0;
    context("long accumulations");
    for (i = 0; i < n; ++i) out[i] = i, memory[offset + i] = 0;
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Win_sync(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (round = 0; round < 3; ++round) {
        CHECK_OK(MPI_Get_accumulate(out, n, MPI_LONG, old, n, MPI_LONG, 0, offset, n, MPI_LONG,
                                    MPI_SUM, win));
        CHECK_OK(MPI_Win_flush_all(win));
        for (i = 1; i < n; ++i) bad += old[i] % i != 0 || old[i] >= 3L * check_size * i;
    }
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Get(in, n, MPI_LONG, 0, offset, n, MPI_LONG, win));
    CHECK_OK(MPI_Win_flush_local_all(win));
    CHECK_OK(MPI_Win_unlock_all(win));
    for (i = 0; i < n; ++i) bad += in[i] != 3L * check_size * i;
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void requests(MPI_Win win) {
    MPI_Request request[4];
    long mine = check_rank + 10, one = 1, got = -1, old = -1;
    int target = (check_rank + 1) % check_size;
    context("requests");
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Rput(&mine, 1, MPI_LONG, target, 3, 1, MPI_LONG, win, &request[0]));
    CHECK_OK(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    CHECK(request[0] == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK_OK(MPI_Rget(&got, 1, MPI_LONG, target, 3, 1, MPI_LONG, win, &request[0]));
    CHECK_OK(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    CHECK_EQ(check_rank + 10, got);
    CHECK_OK(MPI_Raccumulate(&one, 1, MPI_LONG, target, 3, 1, MPI_LONG, MPI_SUM, win, &request[0]));
    CHECK_OK(MPI_Rget_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, target, 3, 1, MPI_LONG,
                                 MPI_SUM, win, &request[1]));
    CHECK_OK(MPI_Rput(&one, 1, MPI_LONG, MPI_PROC_NULL, 3, 1, MPI_LONG, win, &request[2]));
    CHECK_OK(MPI_Rget(&got, 0, MPI_LONG, target, 3, 0, MPI_LONG, win, &request[3]));
    CHECK_OK(MPI_Waitall(4, request, MPI_STATUSES_IGNORE));
    CHECK_EQ(check_rank + 11, old);
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The target is not in MPI: memory that it shares needs nobody else for a lock, puts and sums. The
 * standard does not ask for that (MPI-5.0 section 12.7.3), and MPICH 5.0.2 waits for the target. */
static void away(void) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm node;
    MPI_Win win;
    int node_rank, node_size, looks, i, enough;
    volatile long* memory;
    long one = 1;
    enum { sums = 50 };
    context("away");
    CHECK_OK(MPI_Get_library_version(library, &looks));
    if (!strstr(library, "Pomona")) return;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    CHECK_OK(MPI_Comm_rank(node, &node_rank));
    CHECK_OK(MPI_Comm_size(node, &node_size));
    CHECK_OK(MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, node, &memory, &win));
    *memory = 0;
    CHECK_OK(MPI_Barrier(node));
    if (node_rank == 0) {
        enough = sums * (node_size - 1);
        for (looks = 0; looks < 60000 && *memory != enough; ++looks) usleep(1000);
        CHECK_EQ((long)enough, *memory);
    } else {
        for (i = 0; i < sums; ++i) {
            CHECK_OK(MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, win));
            CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
            CHECK_OK(MPI_Win_unlock(0, win));
        }
    }
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&node));
}

int main(int argc, char** argv) {
    enum { longs = 60000 };
    MPI_Win win;
    long* memory;
    int kind;
    start(&argc, &argv);
    for (kind = 0; kind < 2; ++kind) {
        if (kind == 0) {
            memory = calloc(longs, sizeof(long));
            CHECK_OK(MPI_Win_create(memory, longs * sizeof(long), sizeof(long), MPI_INFO_NULL,
                                    MPI_COMM_WORLD, &win));
        } else {
            CHECK_OK(MPI_Win_allocate(longs * sizeof(long), sizeof(long), MPI_INFO_NULL,
                                      MPI_COMM_WORLD, &memory, &win));
            memset(memory, 0, longs * sizeof(long));
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        exclusive(win, memory);
        atomics(win);
        long_accumulations(win, memory, 100);
        requests(win);
        CHECK_OK(MPI_Win_free(&win));
        if (kind == 0) free(memory);
    }
    away();
    return finish();
}
