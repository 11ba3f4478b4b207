/* Goal: a rank that ends by exit() without MPI_Finalize ends the job with its code (MPI-5.0
 * section 11.2.3 asks for MPI_Finalize; launchers end such jobs), wherever the others are: in MPI,
 * or busy outside. Method: all have exchanged messages; then the last exits with 3, rank 0 waits
 * for a message, and the others compute for ever.
 */
#include "check.h"

#include "errors_busy.h"

int main(int argc, char** argv) {
    start(&argc, &argv);
    exchange();
    if (check_rank == check_size - 1) exit(3);
    wait_or_compute(check_size - 1);
    MPI_Finalize();
    return 0;
}
