/* Goal: MPI_ERRORS_ARE_FATAL, the default handler, ends the whole job with a failure when one rank
 * makes an error, while the others wait. Method: the last rank sends to a rank that does not exist.
 */
#include "check.h"

int main(int argc, char** argv) {
    int value = 1;
    start(&argc, &argv);
    if (check_rank == check_size - 1) {
        MPI_Send(&value, 1, MPI_INT, check_size + 5, 0, MPI_COMM_WORLD);
        printf("not reached: the send returned\n");
    } else {
        MPI_Recv(&value, 1, MPI_INT, check_size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("not reached: the receive returned\n");
    }
    return 0;
}
