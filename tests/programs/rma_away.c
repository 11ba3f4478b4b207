/* Goal: of windows within one machine a target need not be in MPI for locks, nor for MPI_Get and
 * MPI_Put of memory that the program brought (MPI_Win_create), where the system lets its processes
 * reach each other's memory. The standard does not ask for that (MPI-5.0 section 12.7.3). Method:
 * rank 0 looks at words in shared memory, outside MPI, until all others have done their accesses;
 * meanwhile these exclude each other by locks.
 */
#include "check.h"

#include <unistd.h>
#if defined(__linux__)
#include <sys/uio.h>
#endif

enum { rounds = 50, longs = 5000, patience = 60000 };

/* Whether this process may read and write a long of another. */
static int may_reach(long long pid, long long address) {
#if defined(__linux__)
    long found = 0;
    struct iovec to = {&found, sizeof found};
    struct iovec from = {(void*)(intptr_t)address, sizeof found};
    return process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof found &&
           process_vm_writev((pid_t)pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof found;
#else
    return pid < 0 && address < 0;
#endif
}

/* Accesses of all but rank 0 to rank 0's memory, whose last long counts them. `sum`, in memory that
 * all share, does too. */
static void work(MPI_Win win, volatile long* sum, int reaches) {
    static long got[longs];
    long one = -1;
    int i, k, wrong;
    for (i = 0; i < rounds; ++i) {
        long before;
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        before = *sum;
        if (reaches) {
            CHECK_OK(MPI_Get(&one, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win));
            CHECK_OK(MPI_Win_flush(0, win));
            CHECK_EQ((long)10007, one);
            memset(got, 0, sizeof got);
            CHECK_OK(MPI_Get(got, longs, MPI_LONG, 0, 0, longs, MPI_LONG, win));
            CHECK_OK(MPI_Win_flush_local(0, win));
            for (wrong = k = 0; k < longs - 1; ++k) wrong += got[k] != 10000 + k;
            CHECK_EQ(0, wrong);
            CHECK_EQ(i == 0 && before == 0 ? 10000L + longs - 1 : before, got[longs - 1]);
            one = before + 1;
            CHECK_OK(MPI_Put(&one, 1, MPI_LONG, 0, longs - 1, 1, MPI_LONG, win));
        }
        *sum = before + 1;
        CHECK_OK(MPI_Win_unlock(0, win));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        CHECK(*sum >= i + 1);
        CHECK_OK(MPI_Win_unlock(0, win));
    }
}

int main(int argc, char** argv) {
    static long memory[longs];
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    const char* shared = getenv("POMONA_RMA_SHARED");
    volatile long *sum, *done;
    long long where[2];
    MPI_Win win, words;
    MPI_Aint bytes;
    int i, unit, looks, reaches, all, over;
    start(&argc, &argv);
    CHECK_OK(MPI_Get_library_version(library, &i));
    if (!strstr(library, "Pomona") || (shared && strcmp(shared, "no") == 0)) return finish();
    for (i = 0; i < longs; ++i) memory[i] = 10000 * (check_rank + 1) + i;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_allocate_shared(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                                     (void*)&done, &words));
    CHECK_OK(MPI_Win_shared_query(words, 0, &bytes, &unit, (void*)&sum));
    done[0] = done[1] = 0;
    where[0] = getpid(), where[1] = (intptr_t)memory;
    CHECK_OK(MPI_Bcast(where, 2, MPI_LONG_LONG, 0, MPI_COMM_WORLD));
    reaches = check_rank == 0 || may_reach(where[0], where[1]);
    CHECK_OK(MPI_Allreduce(&reaches, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock_all(0, words));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    context(all ? "locks and accesses" : "locks");
    if (check_rank > 0) {
        work(win, sum, all);
        CHECK_OK(MPI_Win_sync(words));
        done[1] = 1;
    } else {
        for (looks = 0; looks < patience; ++looks) {
            for (over = 0, i = 1; i < check_size; ++i) {
                volatile long* theirs;
                /* Local: it asks nobody. */
                CHECK_OK(MPI_Win_shared_query(words, i, &bytes, &unit, (void*)&theirs));
                over += theirs[1] == 1;
            }
            if (over == check_size - 1) break;
            usleep(1000);
        }
        CHECK_EQ(check_size - 1, over);
        CHECK_EQ((long)rounds * (check_size - 1), *sum);
    }
    CHECK_OK(MPI_Win_unlock_all(words));
    CHECK_OK(MPI_Win_free(&words));
    CHECK_OK(MPI_Win_free(&win));
    return finish();
}
