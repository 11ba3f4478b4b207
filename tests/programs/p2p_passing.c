/* Goal: a long message that a rank has posted a receive for comes in while the rank computes and
 * makes short calls now and then that wait for nothing. The standard does not ask for that
 * (MPI-5.0 section 3.5, Progress). Method: rank 0 looks at the message's memory between calls, and
 * sleeps in place of computing; the calls are counted.
 */
#include "check.h"

#include <time.h>

enum { length = 4 << 20, calls_most = 600 };

static void sleep_ms(long ms) {
    struct timespec pause = {0, ms * 1000000};
    nanosleep(&pause, NULL);
}

/* All of `memory` is there: it comes in pieces, in any order. */
static int is_there(const volatile char* memory, char value) {
    int i;
    for (i = 0; i < length; i += 4096)
        if (memory[i] != value) return 0;
    return memory[length - 1] == value;
}

enum Call { send, bcast, calls };

static int compute(enum Call which, const char* memory, char value) {
    int made, over = 0;
    for (made = 0; !over; ++made) {
        sleep_ms(2);
        over = made == calls_most || is_there(memory, value);
        if (which == send)
            CHECK_OK(MPI_Send(&over, 1, MPI_INT, check_size - 1, 1, MPI_COMM_WORLD));
        if (which == bcast) CHECK_OK(MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    return made;
}

static void listen(enum Call which) {
    int over = 0;
    while (!over) {
        if (which == bcast) CHECK_OK(MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD));
        else CHECK_OK(MPI_Recv(&over, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char** argv) {
    static char memory[length];
    int which, made;
    start(&argc, &argv);
    for (which = 0; which < calls; ++which) {
        char value = (char)(which + 1);
        MPI_Request request = MPI_REQUEST_NULL;
        context("call %d", which);
        memset(memory, check_rank == 1 ? value : 0, length);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 1)
            CHECK_OK(MPI_Isend(memory, length, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request));
        if (check_rank == 0) {
            CHECK_OK(MPI_Irecv(memory, length, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request));
            made = compute((enum Call)which, memory, value);
            CHECK(made < calls_most);
        } else if (check_rank == check_size - 1 || which == bcast) {
            listen((enum Call)which);
        }
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(check_rank != 0 || is_there(memory, value));
    }
    return finish();
}
