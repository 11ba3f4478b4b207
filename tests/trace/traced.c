/* traced.c: what tests of the trace record: messages of every kind, collectives, and ranks that
 * come late. Rank 0 prints how many messages there were from rank to rank, of how many bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 1 << 20, LATE_US = 60000 };
static int rank, size, messages, bytes;
static char *out, *in;

static void count(int length) { ++messages, bytes += length; }

static void each_kind(MPI_Comm comm) {
    int next = (rank + 1) % size, last = (rank + size - 1) % size, flag = 0;
    MPI_Request requests[4];
    MPI_Status status;
    MPI_Message message;
    for (int i = 0; i < 10; ++i) {
        MPI_Irecv(in, 100, MPI_CHAR, last, 1, comm, requests);
        MPI_Irecv(in + 100, 100, MPI_CHAR, MPI_ANY_SOURCE, 2, comm, requests + 1);
        MPI_Isend(out, 10 + i, MPI_CHAR, next, 1, comm, requests + 2), count(10 + i);
        MPI_Issend(out, 20, MPI_CHAR, next, 2, comm, requests + 3), count(20);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Sendrecv(out, 5, MPI_INT, next, 3, in, 5, MPI_INT, last, 3, comm, MPI_STATUS_IGNORE), count(20);
    MPI_Sendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 3, in, 5, MPI_INT, MPI_PROC_NULL, 3, comm, &status);
    MPI_Send_init(out, 7, MPI_CHAR, next, 4, comm, requests);
    MPI_Recv_init(in, 7, MPI_CHAR, last, 4, comm, requests + 1);
    for (int i = 0; i < 3; ++i) {
        MPI_Startall(2, requests), count(7);
        while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        flag = 0;
    }
    MPI_Request_free(requests), MPI_Request_free(requests + 1);
    MPI_Isend(out, 9, MPI_CHAR, next, 5, comm, requests), count(9);
    MPI_Mprobe(last, 5, comm, &message, &status);
    MPI_Mrecv(in, 9, MPI_CHAR, &message, &status);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 9, MPI_CHAR, last, 99, comm, requests); /* nobody sends it */
    MPI_Cancel(requests);
    MPI_Wait(requests, &status);
}

/* Each in another call, and none of them returns. A test in vain before is over. */
static void hang(MPI_Comm comm) {
    MPI_Request request;
    int flag;
    if (rank == 0) MPI_Recv(in, 8, MPI_CHAR, 1, 44, comm, MPI_STATUS_IGNORE);
    if (rank == 1) {
        MPI_Irecv(in, 8, MPI_CHAR, 0, 45, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == 2) MPI_Barrier(comm);
    if (rank == 3) {
        MPI_Iprobe(0, 46, comm, &flag, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, 46, comm, &flag, MPI_STATUS_IGNORE);
        pause();
    }
    if (rank == 4) MPI_Finalize();
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = calloc(1, LARGE), in = calloc(1, LARGE);
    each_kind(MPI_COMM_WORLD);
    MPI_Comm ring, pairs;
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    MPI_Comm_set_name(ring, "the \"ring\"");
    each_kind(ring);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pairs);
    MPI_Allreduce(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, pairs);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Rank 0 sends late, receives late, comes late to a bcast and to a barrier. */
    if (rank == 0) usleep(LATE_US), MPI_Send(out, 8, MPI_CHAR, 1, 6, MPI_COMM_WORLD), count(8);
    if (rank == 1) MPI_Recv(in, 8, MPI_CHAR, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Send(out, LARGE, MPI_CHAR, 0, 7, MPI_COMM_WORLD), count(LARGE);
    if (rank == 0) usleep(LATE_US), MPI_Recv(in, LARGE, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) usleep(LATE_US);
    MPI_Bcast(in, 100, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Request request;
    if (rank == 0) usleep(LATE_US);
    MPI_Ibarrier(ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (argc > 1 && argv[1][0] == 'h') hang(ring);
    if (argc > 1 && rank == 0) abort();
    if (argc > 1) MPI_Barrier(ring);
    MPI_Comm_free(&ring), MPI_Comm_free(&pairs);
    int sums[2] = {messages, bytes}, all[2];
    MPI_Reduce(sums, all, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d %d\n", all[0], all[1]);
    MPI_Finalize();
    return 0;
}
