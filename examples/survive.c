/* examples/survive.c: a computation that loses a rank and goes on without it.
 * All ranks add up the sum of 1/n^2 in pieces, and meet after each round. In the third round the
 * last rank is killed. Those who notice call the others out of the meeting (revoke), all agree who
 * is left (shrink), and the round is done again: what each had is whole, since it is added only
 * once all have said that the round went well (agree).
 *
 *   mpicc survive.c -o survive -lm
 *   mpirun -n 4 --on-death continue ./survive
 *
 * The exit code of mpirun is that of the rank that died: 137, killed by SIGKILL.
 */
#include <math.h>
#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>

enum { rounds = 5, terms = 1000000 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int rank, size, first;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    first = size;

    double sum = 0;
    for (int round = 0; round < rounds;) {
        if (round == 2 && size == first && size > 1 && rank == size - 1) raise(SIGKILL);
        double mine = 0, all = 0;
        for (long n = 1 + rank; n <= terms; n += size) {
            double term = (double)(n + (long)round * terms);
            mine += 1 / (term * term);
        }
        int code = MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
        if (code != MPI_SUCCESS) MPIX_Comm_revoke(comm);
        int well = code == MPI_SUCCESS;
        code = MPIX_Comm_agree(comm, &well);
        if (well && code == MPI_SUCCESS) {
            sum += all;
            ++round;
            continue;
        }
        MPI_Comm left;
        MPIX_Comm_shrink(comm, &left);
        MPI_Comm_free(&comm);
        comm = left;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        if (rank == 0) printf("round %d again, with %d ranks\n", round + 1, size);
    }
    double pi = sqrt(6 * (sum + 1.0 / ((double)rounds * terms)));  /* and the rest of the series */
    if (rank == 0) printf("pi is %.9f, says a job of %d ranks, of which %d are left\n", pi, first, size);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return fabs(pi - 3.141592653589793) > 1e-6;
}
