/* Goal: MPI_Cancel (MPI-5.0 section 3.8.4): a receive that has no message is cancelled and tells
 * so; one that was matched completes normally; persistent receives can be cancelled and started
 * again. A send whose message nobody has received yet is cancelled too; each is cancelled or
 * received, never both.
 * Method: receives for tags that nobody sends, and for tags that are sent first. Rank 0 cancels
 * sends to rank 1, which has no receive for them, or posts one at about that time.
 */
#include "check.h"

enum { kMost = 50000 };
static int data[kMost];

static int cancel_and_wait(MPI_Request* r) {
    MPI_Status status;
    int flag = -1;
    CHECK_OK(MPI_Cancel(r));
    CHECK_OK(MPI_Wait(r, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    return flag;
}

/* Tells rank 1 whether the send was cancelled. */
static void cancel_send(int round, int length, int synchronous, int meets) {
    int i, flag;
    MPI_Request r;
    for (i = 0; i < length; ++i) data[i] = round + i;
    if (synchronous) CHECK_OK(MPI_Issend(data, length, MPI_INT, 1, 60, MPI_COMM_WORLD, &r));
    else CHECK_OK(MPI_Isend(data, length, MPI_INT, 1, 60, MPI_COMM_WORLD, &r));
    flag = cancel_and_wait(&r);
    for (i = 0; i < length; ++i) data[i] = -1; /* nobody may read it any more */
    if (!meets && synchronous) CHECK(flag);
    CHECK_OK(MPI_Ssend(&flag, 1, MPI_INT, 1, 61, MPI_COMM_WORLD));
    CHECK_OK(MPI_Recv(&flag, 1, MPI_INT, 1, 62, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void receive_unless_cancelled(int round, int length, int meets) {
    int i, flag;
    MPI_Request r = MPI_REQUEST_NULL;
    for (i = 0; i < length; ++i) data[i] = -2;
    if (meets) CHECK_OK(MPI_Irecv(data, length, MPI_INT, 0, 60, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Recv(&flag, 1, MPI_INT, 0, 61, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!flag && !meets) CHECK_OK(MPI_Irecv(data, length, MPI_INT, 0, 60, MPI_COMM_WORLD, &r));
    if (flag && meets) CHECK(cancel_and_wait(&r));
    else CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    for (i = 0; i < length; ++i) CHECK_EQ(flag ? -2 : round + i, data[i]);
    CHECK_OK(MPI_Iprobe(0, 60, MPI_COMM_WORLD, &i, MPI_STATUS_IGNORE));
    CHECK(!i);
    CHECK_OK(MPI_Send(&flag, 1, MPI_INT, 0, 62, MPI_COMM_WORLD));
}

static void cancel_sends(int length, int synchronous) {
    int round;
    for (round = 0; round < 20; ++round) {
        int meets = round % 2; /* rank 1 has a receive for it */
        if (check_rank == 0) cancel_send(round, length, synchronous, meets);
        else receive_unless_cancelled(round, length, meets);
    }
}

int main(int argc, char** argv) {
    int value = -1, sent = 8, flag = -1, i, values[10];
    MPI_Request r, s, many[10];
    MPI_Status status;
    start(&argc, &argv);
    context("receive without a message");
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Cancel(&r));
    CHECK_OK(MPI_Wait(&r, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    CHECK(r == MPI_REQUEST_NULL);
    CHECK_EQ(-1, value);
    context("a later message goes to the next receive");
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 99, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Isend(&sent, 1, MPI_INT, check_rank, 99, MPI_COMM_WORLD, &s));
    CHECK_OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&r, &status));
    CHECK_EQ(8, value);
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK(!flag);
    context("every second of ten");
    for (i = 0; i < 10; ++i) {
        values[i] = -1;
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, check_rank, 50, MPI_COMM_WORLD, &many[i]));
    }
    for (i = 0; i < 10; i += 2) CHECK_OK(MPI_Cancel(&many[i]));
    for (i = 0; i < 5; ++i) CHECK_OK(MPI_Send(&i, 1, MPI_INT, check_rank, 50, MPI_COMM_WORLD));
    for (i = 0; i < 10; ++i) {
        CHECK_OK(MPI_Wait(&many[i], &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(i % 2 == 0, flag != 0);
    }
    for (i = 0; i < 10; ++i) CHECK_EQ(i % 2 == 0 ? -1 : i / 2, values[i]);
    context("after completion");
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Send(&sent, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD));
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Cancel(&r));
    CHECK_OK(MPI_Wait(&r, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK(!flag);
    CHECK_EQ(8, value);
    context("persistent");
    CHECK_OK(MPI_Recv_init(&value, 1, MPI_INT, check_rank, 4, MPI_COMM_WORLD, &r));
    for (i = 0; i < 3; ++i) {
        CHECK_OK(MPI_Start(&r));
        CHECK_OK(MPI_Cancel(&r));
        CHECK_OK(MPI_Wait(&r, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag);
        CHECK_OK(MPI_Start(&r));
        CHECK_OK(MPI_Send(&i, 1, MPI_INT, check_rank, 4, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&r, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK(!flag);
        CHECK_EQ(i, value);
    }
    CHECK_OK(MPI_Request_free(&r));
    if (check_size >= 2 && check_rank < 2) {
        context("sends");
        cancel_sends(4, 0);
        cancel_sends(4, 1);
        cancel_sends(kMost, 0);
        cancel_sends(kMost, 1);
    }
    return finish();
}
