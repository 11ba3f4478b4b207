/* Goal: a rank that ends by exit() without MPI_Finalize ends the job with its code (MPI-5.0
 * section 11.2.3 asks for MPI_Finalize; launchers end such jobs), wherever the others are: in MPI,
 * or busy outside. Method: all have exchanged messages; then the last exits with 3, rank 0 waits
 * for a message, and the others compute for ever.
 */
#include "check.h"

int main(int argc, char** argv) {
    static char out[9000], in[9000];
    volatile unsigned long sum = 0;
    int turn, right, left, value = 0;
    start(&argc, &argv);
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    for (turn = 0; turn < 200; turn++)
        MPI_Sendrecv(out, sizeof out, MPI_CHAR, right, 0, in, sizeof in, MPI_CHAR, left, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (check_rank == check_size - 1) exit(3);
    if (check_rank == 0)
        MPI_Recv(&value, 1, MPI_INT, check_size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        while (1) sum += 1;
    MPI_Finalize();
    return 0;
}
