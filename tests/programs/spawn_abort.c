/* Goal: a spawned process that ends the job ends all of it, with its code, also while its parents
 * wait for it in a receive. Method: the program spawns itself; the child aborts with 7.
 */
#include "check.h"

int main(int argc, char** argv) {
    MPI_Comm parent, inter;
    int word;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 7);
    CHECK_OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                            MPI_ERRCODES_IGNORE));
    MPI_Recv(&word, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    return finish();
}
