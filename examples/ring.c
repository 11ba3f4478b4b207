/* examples/ring.c: a token goes around all ranks; each adds its number. The sum at the end must be
 * laps * (0 + 1 + ... + (size-1)), and the time of a step is the latency between neighbours.
 *
 *   mpicc ring.c -o ring
 *   mpirun -n 4 ./ring
 */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    const int laps = 1000;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    long token = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int lap = 0; lap < laps; ++lap) {
        /* Rank 0 starts each lap and ends it; the others pass the token on. With one rank the
         * message goes to itself, so the send must not block: MPI_Sendrecv does both at once. */
        if (rank == 0) {
            MPI_Sendrecv_replace(&token, 1, MPI_LONG, next, 0, before, 0, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_LONG, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank;
            MPI_Send(&token, 1, MPI_LONG, next, 0, MPI_COMM_WORLD);
        }
    }
    double seconds = MPI_Wtime() - begin;
    long expected = (long)laps * size * (size - 1) / 2;
    int wrong = rank == 0 && token != expected;
    if (rank == 0) {
        printf("%d laps around %d ranks: sum %ld, expected %ld, %.2f us a step\n", laps, size, token,
               expected, seconds / laps / size * 1e6);
    }
    MPI_Finalize();
    return wrong;
}
