/* Goal: MPI_Abort ends all ranks with its code (MPI-5.0 section 11.4). Method: rank 0 aborts with 7
 * while the others wait for a message.
 */
#include "check.h"

int main(int argc, char** argv) {
    int value = 0;
    start(&argc, &argv);
    if (check_rank == 0) {
        MPI_Abort(MPI_COMM_WORLD, 7);
    } else {
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    /* In MPICH 5 a receive may return while the job is being ended. */
    if (!known_limit("MPICH")) printf("not reached: past the abort\n");
    MPI_Finalize();
    return 0;
}
