/* Goal: MPI_Abort ends ranks wherever they are, with its code (MPI-5.0 section 11.4): in MPI, or
 * busy outside. Method: all have exchanged messages; then the last aborts with 7, rank 0 waits for
 * a message, and the others compute for ever.
 */
#include "check.h"

#include "errors_busy.h"

int main(int argc, char** argv) {
    start(&argc, &argv);
    exchange();
    if (check_rank == check_size - 1) MPI_Abort(MPI_COMM_WORLD, 7);
    wait_or_compute((check_rank + 1) % check_size);
    if (!known_limit("MPICH")) printf("not reached: past the abort\n");
    MPI_Finalize();
    return 0;
}
