/* Goal: persistent requests of all modes, started again and again, alone and by MPI_Startall, with
 * the buffer changed in between (MPI-5.0 section 3.9). Method: rings and exchanges whose data
 * changes each round.
 */
#include "check.h"

int main(int argc, char** argv) {
    enum { n = 2500, rounds = 20, modes = 3 };
    static int out[modes][n], in[modes][n];
    MPI_Request r[2 * modes];
    MPI_Status s[2 * modes];
    int round, m, i, to, from, flag, bytes = 4 * (n * 4 + MPI_BSEND_OVERHEAD);
    void *buffer = malloc((size_t)bytes), *back;
    start(&argc, &argv);
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    CHECK_OK(MPI_Buffer_attach(buffer, bytes));
    CHECK_OK(MPI_Recv_init(in[0], n, MPI_INT, from, 0, MPI_COMM_WORLD, &r[0]));
    CHECK_OK(MPI_Recv_init(in[1], n, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &r[1]));
    CHECK_OK(MPI_Recv_init(in[2], n, MPI_INT, from, 2, MPI_COMM_WORLD, &r[2]));
    CHECK_OK(MPI_Send_init(out[0], n, MPI_INT, to, 0, MPI_COMM_WORLD, &r[3]));
    CHECK_OK(MPI_Ssend_init(out[1], 10, MPI_INT, to, 1, MPI_COMM_WORLD, &r[4]));
    CHECK_OK(MPI_Bsend_init(out[2], n, MPI_INT, to, 2, MPI_COMM_WORLD, &r[5]));
    for (round = 0; round < rounds; ++round) {
        context("round %d", round);
        for (m = 0; m < modes; ++m) {
            for (i = 0; i < n; ++i) {
                out[m][i] = round * 1000003 + m * 5003 + i * 17 + check_rank;
                in[m][i] = -1;
            }
        }
        if (round % 2) {
            CHECK_OK(MPI_Startall(2 * modes, r));
        } else {
            for (i = 0; i < 2 * modes; ++i) CHECK_OK(MPI_Start(&r[i]));
        }
        if (round % 3 == 0) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(2 * modes, r, &flag, s));
        } else {
            CHECK_OK(MPI_Waitall(2 * modes, r, s));
        }
        for (m = 0; m < modes; ++m) {
            int expected_n = m == 1 ? 10 : n, count = -1;
            CHECK_EQ(from, s[m].MPI_SOURCE);
            CHECK_EQ(m, s[m].MPI_TAG);
            CHECK_OK(MPI_Get_count(&s[m], MPI_INT, &count));
            CHECK_EQ(expected_n, count);
            for (i = 0; i < expected_n; ++i) {
                if (in[m][i] != round * 1000003 + m * 5003 + i * 17 + from) break;
            }
            CHECK_EQ(expected_n, i);
            CHECK(r[m] != MPI_REQUEST_NULL && r[m + modes] != MPI_REQUEST_NULL);
        }
        /* The buffered message's room is free again once its receiver has it. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (i = 0; i < 2 * modes; ++i) CHECK_OK(MPI_Request_free(&r[i]));
    CHECK_OK(MPI_Buffer_detach(&back, &bytes));
    free(back);
    context("to no process");
    CHECK_OK(MPI_Send_init(out[0], 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[0]));
    CHECK_OK(MPI_Recv_init(in[0], 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]));
    CHECK_OK(MPI_Startall(2, r));
    CHECK_OK(MPI_Waitall(2, r, s));
    /* MPICH gives an empty status here. */
    if (!known_limit("MPICH")) CHECK_EQ(MPI_PROC_NULL, s[1].MPI_SOURCE);
    CHECK_OK(MPI_Request_free(&r[0]));
    CHECK_OK(MPI_Request_free(&r[1]));
    return finish();
}
