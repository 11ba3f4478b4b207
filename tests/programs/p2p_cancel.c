/* Goal: MPI_Cancel (MPI-5.0 section 3.8.4): a receive that has no message is cancelled and tells so; one
 * that was matched completes normally; persistent receives can be cancelled and started again.
 * Method: receives for tags that nobody sends, and for tags that are sent first.
 */
#include "check.h"

int main(int argc, char** argv) {
    int value = -1, sent = 8, flag = -1, i;
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
        CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 50, MPI_COMM_WORLD, &many[i]));
    }
    for (i = 0; i < 10; i += 2) CHECK_OK(MPI_Cancel(&many[i]));
    for (i = 0; i < 5; ++i) CHECK_OK(MPI_Send(&i, 1, MPI_INT, check_rank, 50, MPI_COMM_WORLD));
    for (i = 0; i < 10; ++i) {
        CHECK_OK(MPI_Wait(&many[i], &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(i % 2 == 0, flag != 0);
    }
    CHECK_EQ(4, value);
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
    return finish();
}
