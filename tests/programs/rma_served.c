/* Goal: a target that computes and flushes now and then serves others at each of these flushes,
 * also where they have nothing to wait for: so work that is shared out by a counter at one rank
 * goes on at all ranks. Method: rank 0 sleeps between flushes of its own memory and counts them,
 * while the others add to a word there, waiting for each addition.
 */
#include "check.h"

#include <time.h>

/* Each addition is a few commands, each of which may find rank 0 asleep. */
enum { additions = 30, flushes_most = 250 };

static void sleep_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

int main(int argc, char** argv) {
    static int memory[2];
    int one = 1, flushes = 0, i;
    MPI_Win win;
    start(&argc, &argv);
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        int done = 0;
        for (; done < additions * (check_size - 1); ++flushes) {
            int nothing = 0;
            sleep_ms(4);
            CHECK_OK(MPI_Fetch_and_op(&nothing, &done, MPI_INT, 0, 0, MPI_NO_OP, win));
            CHECK_OK(MPI_Win_flush(0, win));
        }
        CHECK(flushes <= flushes_most);
    } else {
        for (i = 0; i < additions; ++i) {
            int old[2];
            CHECK_OK(MPI_Fetch_and_op(&one, &old[0], MPI_INT, 0, 0, MPI_SUM, win));
            CHECK_OK(MPI_Win_flush(0, win));
        }
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_free(&win));
    return finish();
}
