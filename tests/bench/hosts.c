/* tests/bench/hosts.c: for hosts.py: "hosts BYTES ROUNDS" sums BYTES over all ranks in each round and prints the
 * seconds that a round took (of the slowest rank), one line each; without arguments only begins and ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** words) {
    int rank, size, round;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count == 3) {
        int n = (int)(atol(words[1]) / (long)sizeof(float)), i;
        float* mine = malloc((size_t)n * sizeof *mine);
        float* sum = malloc((size_t)n * sizeof *sum);
        for (round = 0; round <= atoi(words[2]); ++round) {
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
