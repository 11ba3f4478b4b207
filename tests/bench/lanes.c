/* tests/bench/lanes.c: for lanes.py, unlike.py and islands.py: "lanes COLLECTIVE BYTES ROUNDS
 * ORDER" does allgather, reduce_scatter, allreduce or bcast of a vector of BYTES in each round,
 * checks it, and prints the seconds that a round took (of the slowest rank), one line each. ORDER:
 * block, the ranks of a host one after the other, or cyclic, the hosts in turn. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char** words) {
    int rank, size, near, round, key;
    MPI_Comm comm, host;
    MPI_Init(&count, &words);
    if (count != 5) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &near);
    key = strcmp(words[4], "cyclic") ? rank : rank % near * (size / near) + rank / near;
    MPI_Comm_split(MPI_COMM_WORLD, 0, key, &comm);
    MPI_Comm_rank(comm, &rank);
    int gathers = !strcmp(words[1], "allgather"), reduces = !strcmp(words[1], "allreduce");
    int bcasts = !strcmp(words[1], "bcast");
    int n = (int)(atol(words[2]) / (long)sizeof(float) / size), i;
    float* all = malloc((size_t)n * (size_t)size * sizeof *all);
    float* mine = malloc((size_t)n * sizeof *mine);
    for (round = 0; round <= atoi(words[3]); ++round) {
        double took, most;
        for (i = 0; i < n; ++i) mine[i] = (float)(rank + i % 7);
        for (i = 0; i < n * size; ++i) all[i] = (float)(rank + i % 5);
        MPI_Barrier(comm);
        took = MPI_Wtime();
        if (bcasts) MPI_Bcast(all, n * size, MPI_FLOAT, 0, comm);
        else if (reduces) MPI_Allreduce(MPI_IN_PLACE, all, n * size, MPI_FLOAT, MPI_SUM, comm);
        else if (gathers) MPI_Allgather(mine, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
        else MPI_Reduce_scatter_block(all, mine, n, MPI_FLOAT, MPI_SUM, comm);
        took = MPI_Wtime() - took;
        MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
        for (i = 0; i < n * size && gathers; ++i)
            if (all[i] != (float)(i / n + i % n % 7)) MPI_Abort(MPI_COMM_WORLD, 9);
        for (i = 0; i < n * size && reduces; ++i)
            if (all[i] != (float)(size * (size - 1) / 2 + size * (i % 5)))
                MPI_Abort(MPI_COMM_WORLD, 9);
        for (i = 0; i < n * size && bcasts; ++i)
            if (all[i] != (float)(i % 5)) MPI_Abort(MPI_COMM_WORLD, 9);
        for (i = 0; i < n && !gathers && !reduces && !bcasts; ++i)
            if (mine[i] != (float)(size * (size - 1) / 2 + size * ((rank * n + i) % 5)))
                MPI_Abort(MPI_COMM_WORLD, 9);
        /* The first one warms up. */
        if (rank == 0 && round > 0) printf("%.9f\n", most), fflush(stdout);
    }
    free(all);
    free(mine);
    MPI_Finalize();
    return 0;
}
