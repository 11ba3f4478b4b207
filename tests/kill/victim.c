/* tests/kill/victim.c: all ranks repeat one operation without end; rank 1 kills itself in the middle.
 * Goal: nobody hangs. Method: argument 1 names the operation; every rank prints "alive" once it is
 * under way; rank 1 raises SIGKILL after some rounds. With "return" as argument 2 the others have
 * MPI_ERRORS_RETURN and end by MPI_Abort at the first error they see. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 50000

static int rank, size;
static double *in, *out;

static int one_round(const char *op) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, n = COUNT / size;
    MPI_Request requests[2];
    if (!strcmp(op, "sendrecv"))
        return MPI_Sendrecv(in, 10, MPI_DOUBLE, right, 0, out, 10, MPI_DOUBLE, left, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE);
    if (!strcmp(op, "rendezvous"))
        return MPI_Sendrecv(in, COUNT, MPI_DOUBLE, right, 0, out, COUNT, MPI_DOUBLE, left, 0,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(op, "ssend")) {
        int error = MPI_Irecv(out, 10, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, requests);
        if (!error) error = MPI_Ssend(in, 10, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
        return error ? error : MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    if (!strcmp(op, "any_source")) {
        int error = MPI_Send(in, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
        return error ? error : MPI_Recv(out, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                                        MPI_STATUS_IGNORE);
    }
    if (!strcmp(op, "probe")) {
        MPI_Status status;
        int error = MPI_Send(in, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
        if (!error) error = MPI_Probe(left, 0, MPI_COMM_WORLD, &status);
        return error ? error : MPI_Recv(out, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &status);
    }
    if (!strcmp(op, "waitany")) {
        int index, error;
        MPI_Irecv(out, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(in, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
        error = MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        return error ? error : MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    }
    if (!strcmp(op, "barrier")) return MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(op, "bcast")) return MPI_Bcast(out, COUNT, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    if (!strcmp(op, "reduce"))
        return MPI_Reduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!strcmp(op, "allreduce"))
        return MPI_Allreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(op, "allgather"))
        return MPI_Allgather(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD);
    if (!strcmp(op, "alltoall"))
        return MPI_Alltoall(in, n, MPI_DOUBLE, out, n, MPI_DOUBLE, MPI_COMM_WORLD);
    if (!strcmp(op, "scan"))
        return MPI_Scan(in, out, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(op, "iallreduce")) {
        int error = MPI_Iallreduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
        return error ? error : MPI_Wait(requests, MPI_STATUS_IGNORE);
    }
    if (!strcmp(op, "split")) {
        MPI_Comm made;
        int error = MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &made);
        return error ? error : MPI_Comm_free(&made);
    }
    if (!strcmp(op, "compute")) return usleep(1000), MPI_SUCCESS;
    fprintf(stderr, "unknown operation %s\n", op);
    exit(2);
}

int main(int argc, char **argv) {
    long round;
    const char *op = argc > 1 ? argv[1] : "allreduce";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2 && !strcmp(argv[2], "return"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    in = calloc(COUNT, sizeof *in);
    out = calloc(COUNT, sizeof *out);
    for (round = 0;; ++round) {
        int error;
        if (round == 20) {
            printf("alive %d\n", rank);
            fflush(stdout);
        }
        if (round == 100 && rank == 1) raise(SIGKILL);
        error = one_round(op);
        if (error) {
            fprintf(stderr, "rank %d saw error %d\n", rank, error);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
}
