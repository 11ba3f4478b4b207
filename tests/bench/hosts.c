/* tests/bench/hosts.c: for hosts.py: "hosts sum BYTES ROUNDS" sums BYTES over all ranks in each
 * round and prints the seconds that a round took (of the slowest rank), one line each; "hosts
 * stream BYTES ROUNDS" does so for a message of BYTES from rank 0 to rank 1, as eight in a row take
 * it, two of them on their way; "hosts ring BYTES ROUNDS" for MPI_Sendrecv of BYTES to the next
 * rank and from the one before, as eight in a row take it; without arguments only begins and
 * ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { in_a_row = 8 };

static void stream(int rank, char* data, int n, int rounds) {
    int round, i;
    for (round = 0; round <= rounds; ++round) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        double took;
        MPI_Barrier(MPI_COMM_WORLD);
        took = MPI_Wtime();
        for (i = 0; i < in_a_row; ++i) {
            MPI_Wait(&requests[i % 2], MPI_STATUS_IGNORE);
            if (rank == 0) MPI_Isend(data, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i % 2]);
            if (rank == 1)
                MPI_Irecv(data + (size_t)n * (size_t)(i % 2), n, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                          &requests[i % 2]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        if (rank == 0 && round > 0) printf("%.9f\n", (MPI_Wtime() - took) / in_a_row), fflush(stdout);
    }
}

/* `data`: room for two messages. */
static void ring(int rank, int size, char* data, int n, int rounds) {
    int round, i;
    for (round = 0; round <= rounds; ++round) {
        double took, most;
        MPI_Barrier(MPI_COMM_WORLD);
        took = MPI_Wtime();
        for (i = 0; i < in_a_row; ++i)
            MPI_Sendrecv(data, n, MPI_BYTE, (rank + 1) % size, 0, data + n, n, MPI_BYTE,
                         (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        took = (MPI_Wtime() - took) / in_a_row;
        MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && round > 0) printf("%.9f\n", most), fflush(stdout);
    }
}

int main(int count, char** words) {
    int rank, size, round;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count == 4 && !strcmp(words[1], "stream")) {
        size_t bytes = (size_t)atol(words[2]);
        char* data = calloc(2, bytes);
        stream(rank, data, (int)bytes, atoi(words[3]));
        free(data);
    } else if (count == 4 && !strcmp(words[1], "ring")) {
        size_t bytes = (size_t)atol(words[2]);
        char* data = calloc(2, bytes);
        ring(rank, size, data, (int)bytes, atoi(words[3]));
        free(data);
    } else if (count == 4) {
        int n = (int)(atol(words[2]) / (long)sizeof(float)), i;
        float* mine = malloc((size_t)n * sizeof *mine);
        float* sum = malloc((size_t)n * sizeof *sum);
        for (round = 0; round <= atoi(words[3]); ++round) {
            double took, most;
            for (i = 0; i < n; ++i) mine[i] = (float)(rank + i % 7);
            MPI_Barrier(MPI_COMM_WORLD);
            took = MPI_Wtime();
            MPI_Allreduce(mine, sum, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            took = MPI_Wtime() - took;
            MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            for (i = 0; i < n; ++i)
                if (sum[i] != (float)(size * (size - 1) / 2 + size * (i % 7)))
                    MPI_Abort(MPI_COMM_WORLD, 9);
            /* The first one warms up. */
            if (rank == 0 && round > 0) printf("%.9f\n", most), fflush(stdout);
        }
        free(mine);
        free(sum);
    }
    MPI_Finalize();
    return 0;
}
