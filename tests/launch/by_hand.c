/* tests/launch/by_hand.c: a rank that test_by_hand.py starts without any launcher. WHAT is
 * sum: all add their numbers up, say so, and end;
 * die, abort: rank 1 ends so in the middle, while the others wait for a message of it. */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "sum";
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: %d\n", rank, size, sum);
    fflush(stdout);
    if (strcmp(what, "sum") != 0) {
        if (rank == 1 && strcmp(what, "die") == 0) raise(SIGKILL);
        if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
        MPI_Recv(&sum, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
