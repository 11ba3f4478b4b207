/* Goal: spawning a program that is no MPI program ends the job with an error instead of waiting for
 * ever.
 * Method: spawns true, which leaves without MPI_Init.
 */
#include "check.h"

int main(int argc, char** argv) {
    char command[] = "true";
    MPI_Comm inter;
    start(&argc, &argv);
    MPI_Comm_spawn(command, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    return finish();
}
