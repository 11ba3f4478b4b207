/* Goal: a blocking receive that waits already gets the message it asked for, whatever comes before
 * it and however it comes; a message too long is told and writes nothing behind the buffer. Method:
 * rank 0 waits in MPI_Recv while rank 1 sleeps and then sends; room of every size around the places
 * where ways change.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

enum { longest = 200000, tag = 5 };
static char data[longest + 1];

static void sleep_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

static void fill(int n, int seed) {
    int i;
    for (i = 0; i < n; ++i) data[i] = (char)(seed * 31 + i * 7 + i / 251);
}

/* The first byte that is not as fill() makes it, or n. */
static int right_until(const char* found, int n, int seed) {
    int i;
    for (i = 0; i < n && found[i] == (char)(seed * 31 + i * 7 + i / 251); ++i) {
    }
    return i;
}

static void receive(MPI_Comm comm, int room, int source, int with, int sent, int seed) {
    int count = -1, error, length = sent < room ? sent : room;
    MPI_Status status;
    memset(data, '!', sizeof data);
    error = MPI_Recv(data, room, MPI_CHAR, source, with, comm, &status);
    if (sent > room) {
        int class = 0;
        MPI_Error_class(error, &class);
        CHECK_EQ(MPI_ERR_TRUNCATE, class);
    } else {
        CHECK_EQ(MPI_SUCCESS, error);
        CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(sent, count);
        CHECK_EQ(length, right_until(data, length, seed));
    }
    CHECK_EQ(1, status.MPI_SOURCE);
    CHECK_EQ(tag, status.MPI_TAG);
    CHECK_EQ('!', data[room]);
}

/* Plain, synchronous, and from a buffer with gaps. */
static void send(MPI_Comm comm, int mode, int n, int seed) {
    sleep_ms(seed % 3);
    fill(n, seed);
    if (mode == 0) CHECK_OK(MPI_Send(data, n, MPI_CHAR, 0, tag, comm));
    else if (mode == 1) CHECK_OK(MPI_Ssend(data, n, MPI_CHAR, 0, tag, comm));
    else {
        char* wide = malloc(2 * (size_t)n + 1);
        MPI_Datatype gaps;
        int i;
        for (i = 0; i < n; ++i) wide[2 * i] = data[i];
        CHECK_OK(MPI_Type_vector(n, 1, 2, MPI_CHAR, &gaps));
        CHECK_OK(MPI_Type_commit(&gaps));
        CHECK_OK(MPI_Send(wide, 1, gaps, 0, tag, comm));
        CHECK_OK(MPI_Type_free(&gaps));
        free(wide);
    }
}

static void sizes(MPI_Comm comm) {
    static const int all[] = {0, 1, 8, 80, 81, 8191, 8192, 8193, 16384, longest};
    enum { many = sizeof all / sizeof all[0] };
    int i, j, mode, seed = 0;
    for (mode = 0; mode < 3; ++mode)
        for (i = 0; i < many; ++i)
            for (j = 0; j < many; ++j, ++seed) {
                context("mode %d, room for %d, sent %d", mode, all[i], all[j]);
                if (check_rank == 0)
                    receive(comm, all[i], seed % 2 ? 1 : MPI_ANY_SOURCE, seed % 5 ? tag : MPI_ANY_TAG, all[j], seed);
                else if (check_rank == 1) send(comm, mode, all[j], seed);
            }
}

/* What is for others comes first: another tag, another communicator, from another rank. */
static void others(MPI_Comm comm, MPI_Comm second) {
    int round, value = 0, flag;
    MPI_Request early;
    for (round = 0; round < 20; ++round) {
        context("others first, round %d", round);
        if (check_rank == 0) {
            CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 1, tag + 2, second, &early));
            receive(comm, 64, 1, tag, 40, round);
            CHECK_OK(MPI_Recv(&flag, 1, MPI_INT, 1, tag + 1, comm, MPI_STATUS_IGNORE));
            CHECK_EQ(round, flag);
            CHECK_OK(MPI_Wait(&early, MPI_STATUS_IGNORE));
            CHECK_EQ(round + 1, value);
            CHECK_OK(MPI_Recv(&flag, 1, MPI_INT, check_size - 1, tag + 3, comm, MPI_STATUS_IGNORE));
            CHECK_EQ(round + 2, flag);
        }
        if (check_rank == check_size - 1) {
            flag = round + 2;
            CHECK_OK(MPI_Send(&flag, 1, MPI_INT, 0, tag + 3, comm));
        }
        if (check_rank == 1) {
            flag = round, value = round + 1;
            CHECK_OK(MPI_Send(&flag, 1, MPI_INT, 0, tag + 1, comm));
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, tag + 2, second));
            send(comm, round % 3, 40, round);
        }
    }
}

/* Messages of one envelope stay in order over receives that were posted before and blocking
 * ones. */
static void order(MPI_Comm comm) {
    int round, i, values[6];
    MPI_Request posted[3];
    for (round = 0; round < 20; ++round) {
        context("order, round %d", round);
        for (i = 0; i < 6; ++i) values[i] = check_rank == 1 ? 10 * round + i : -1;
        if (check_rank == 1)
            for (i = 0; i < 6; ++i) CHECK_OK(MPI_Send(&values[i], 1, MPI_INT, 0, tag, comm));
        if (check_rank != 0) continue;
        for (i = 0; i < 3; ++i)
            CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, i % 2 ? 1 : MPI_ANY_SOURCE, tag, comm, &posted[i]));
        for (i = 3; i < 6; ++i) CHECK_OK(MPI_Recv(&values[i], 1, MPI_INT, 1, tag, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Waitall(3, posted, MPI_STATUSES_IGNORE));
        for (i = 0; i < 6; ++i) CHECK_EQ(10 * round + i, values[i]);
    }
}

int main(int argc, char** argv) {
    MPI_Comm comm, second;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    sizes(comm);
    CHECK_OK(MPI_Barrier(comm)); /* receives of any source or tag are over */
    others(comm, second);
    CHECK_OK(MPI_Barrier(comm));
    order(comm);
    CHECK_OK(MPI_Comm_free(&second));
    CHECK_OK(MPI_Comm_free(&comm));
    return finish();
}
