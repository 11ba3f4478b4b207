/* Goal: non-blocking and persistent collectives use shared memory in programs that never call a
 * blocking one; persistent ones start in an order of each rank's own (MPI-5.0 section 6.13), more
 * of them than there are boards, are freed before or while their boards are made, and tell of
 * lengths that differ. Method: results are compared; a performance variable tells that boards were
 * used.
 */
#include "check.h"
#include "counter.h"

#include <unistd.h>

enum { many = 40, longest = 60000 }; /* ints: posts, and pieces of 128 KiB */

static int length_of(int i) { return i % 5 == 4 ? longest : i % 5 * 300 + 1; }

/* The first operations of a communicator, at ranks that come at different times. */
static void nonblocking(MPI_Comm comm, const char* name) {
    static int in[many][longest], out[many][longest];
    MPI_Request requests[many];
    int i, round;
    for (round = 0; round < 3; ++round) {
        context("non-blocking, %s, round %d", name, round);
        for (i = 0; i < many; ++i) {
            int n = length_of(i);
            in[i][0] = check_rank + i, in[i][n - 1] = check_rank + i + round;
            out[i][n - 1] = -1;
            if (i == check_rank) usleep(2000);
            if (i % 4 == 0) CHECK_OK(MPI_Ibarrier(comm, &requests[i]));
            else if (i % 4 == 1)
                CHECK_OK(MPI_Ibcast(in[i], n, MPI_INT, i % check_size, comm, &requests[i]));
            else
                CHECK_OK(MPI_Iallreduce(in[i], out[i], n, MPI_INT, MPI_SUM, comm, &requests[i]));
        }
        for (i = 0; i < many; ++i) {
            int k = (i * 7 + check_rank * 11) % many, n = length_of(k), p = check_size;
            CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
            if (k % 4 == 1) CHECK_EQ(k % p + k + round, in[k][n - 1]);
            if (k % 4 > 1) CHECK_EQ(p * (p - 1) / 2 + p * (k + round), out[k][n - 1]);
        }
    }
}

static void persistent(MPI_Comm comm, int number) {
    static int in[many][longest], out[many][longest];
    MPI_Request requests[many];
    int i, round, p = check_size;
    for (i = 0; i < number; ++i) {
        int n = length_of(i);
        if (i % 3 == 0)
            CHECK_OK(MPI_Allreduce_init(in[i], out[i], n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                        &requests[i]));
        else if (i % 3 == 1)
            CHECK_OK(MPI_Bcast_init(in[i], n, MPI_INT, i % p, comm, MPI_INFO_NULL, &requests[i]));
        else
            CHECK_OK(MPI_Reduce_init(in[i], out[i], n, MPI_INT, MPI_SUM, i % p, comm, MPI_INFO_NULL,
                                     &requests[i]));
    }
    for (round = 0; round < 70; ++round) { /* more than a board has cells */
        context("%d persistent, round %d", number, round);
        for (i = 0; i < number; ++i) {
            int k = (i + check_rank * 5 + round) % number, n = length_of(k);
            in[k][0] = check_rank + k, in[k][n - 1] = check_rank + k + round;
            out[k][n - 1] = -1;
            CHECK_OK(MPI_Start(&requests[k])); /* each rank in its own order */
        }
        CHECK_OK(MPI_Waitall(number, requests, MPI_STATUSES_IGNORE));
        for (i = 0; i < number; ++i) {
            int n = length_of(i), sum = p * (p - 1) / 2 + p * (i + round);
            if (i % 3 == 1) CHECK_EQ(i % p + i + round, in[i][n - 1]);
            else if (i % 3 == 0 || i % p == check_rank) CHECK_EQ(sum, out[i][n - 1]);
        }
    }
    for (i = 0; i < number; ++i) CHECK_OK(MPI_Request_free(&requests[i]));
}

/* Never started, and their communicator gone before all know of a board. */
static void unused(void) {
    MPI_Comm comm;
    MPI_Request request;
    int i, one = 1, sum;
    context("unused");
    for (i = 0; i < 100; ++i) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
        CHECK_OK(MPI_Request_free(&request));
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

/* A short post meets a long vector in chunks. */
static void lengths(void) {
    static int data[longest];
    MPI_Comm comm;
    MPI_Request request;
    int error, length;
    char text[MPI_MAX_ERROR_STRING];
    context("lengths");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Bcast_init(data, check_rank ? longest : 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Start(&request));
    error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (check_rank) {
        CHECK(error != MPI_SUCCESS);
        CHECK_OK(MPI_Error_string(error, text, &length));
    }
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Comm_free(&comm));
}

int main(int argc, char** argv) {
    unsigned long long posted, shown;
    int one, boards = !getenv("POMONA_TRANSPORTS") && !getenv("POMONA_SHM_BOARD");
    MPI_Comm comm;
    start(&argc, &argv);
    one = check_size > 1 && one_machine() && boards;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    counter_start("board_posts");
    nonblocking(comm, "posts");
    posted = counter_end();
    CHECK(posted > 0 || !one);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    counter_start("board_chunks");
    nonblocking(comm, "chunks");
    shown = counter_end();
    CHECK(shown > 0 || !one || check_size == 2); /* one copy by the kernel may be cheaper for two */
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    counter_start("board_posts");
    persistent(comm, 3);
    posted = counter_end();
    CHECK(posted > 0 || !one);
    if (one) lengths();
    counter_start("board_chunks");
    persistent(comm, 10);
    shown = counter_end();
    CHECK(shown > 0 || !one || check_size == 2);
    unused();
    persistent(comm, many);
    unused();
    CHECK_OK(MPI_Comm_free(&comm));
    return finish();
}
