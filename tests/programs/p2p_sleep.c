/* Goal: every blocking call that has waited so long that the rank sleeps wakes up and takes exactly
 * one message. Method: the sender rests before each message, longer than a waiting rank spins; the
 * receiver uses each blocking form in turn; numbers tell lost and doubled messages.
 */
#include "check.h"
#include <unistd.h>

enum { rest_us = 60000, forms = 10 };

static void receive(int form, int from) {
    int value = -1, other = -1, indx = -1, count = -1, list[2];
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status s[2];
    MPI_Message m;
    MPI_Comm comm = MPI_COMM_WORLD;
    context("form %d", form);
    if (form >= 4) CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, from, 1, comm, &r[0]));
    switch (form) {
        case 0: CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, 1, comm, s)); break;
        case 1:
            CHECK_OK(MPI_Probe(from, 1, comm, s));
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, 1, comm, s));
            break;
        case 2:
            CHECK_OK(MPI_Mprobe(MPI_ANY_SOURCE, 1, comm, &m, s));
            CHECK_OK(MPI_Mrecv(&value, 1, MPI_INT, &m, s));
            break;
        case 3:
            CHECK_OK(MPI_Mprobe(from, MPI_ANY_TAG, comm, &m, s));
            CHECK_OK(MPI_Imrecv(&value, 1, MPI_INT, &m, r));
            CHECK_OK(MPI_Wait(r, s));
            break;
        case 4: CHECK_OK(MPI_Wait(r, s)); break;
        case 5: CHECK_OK(MPI_Waitall(2, r, s)); break;
        case 6:
            CHECK_OK(MPI_Waitany(2, r, &indx, s));
            CHECK_EQ(0, indx);
            break;
        case 7:
            CHECK_OK(MPI_Waitsome(2, r, &count, list, s));
            CHECK_EQ(1, count);
            break;
        case 8:
            while (count != 1) CHECK_OK(MPI_Test(r, &count, s));
            break;
        default:
            CHECK_OK(MPI_Sendrecv(&form, 1, MPI_INT, check_rank, 2, &other, 1, MPI_INT, check_rank, 2,
                                  comm, s));
            CHECK_EQ(form, other);
            CHECK_OK(MPI_Wait(r, s));
            break;
    }
    CHECK_EQ(100 + form, value);
}

int main(int argc, char** argv) {
    int form, sum = 0, one = 1, value;
    start(&argc, &argv);
    for (form = 0; form < forms; ++form) {
        if (check_rank == 0) {
            usleep(rest_us);
            for (int r = 1; r < check_size; ++r) {
                value = 100 + form;
                CHECK_OK(MPI_Send(&value, 1, MPI_INT, r, 1, MPI_COMM_WORLD));
            }
        } else {
            receive(form, 0);
        }
    }
    context("collectives");
    if (check_rank == check_size - 1) usleep(rest_us);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) usleep(rest_us);
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(check_size, sum);
    if (check_rank == 0) usleep(rest_us);
    value = check_rank == 0 ? 5 : 0;
    CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CHECK_EQ(5, value);
    context("a long message to a sleeper");
    {
        enum { n = 2000000 };
        char* data = malloc(n);
        memset(data, check_rank == 0 ? 7 : 0, n);
        if (check_rank == 0) {
            usleep(rest_us);
            for (int r = 1; r < check_size; ++r) {
                CHECK_OK(MPI_Ssend(data, n, MPI_CHAR, r, 3, MPI_COMM_WORLD));
            }
        } else {
            CHECK_OK(MPI_Recv(data, n, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (value = 0; value < n && data[value] == 7; ++value) {
            }
            CHECK_EQ(n, value);
        }
        free(data);
    }
    return finish();
}
