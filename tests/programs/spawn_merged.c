/* Goal: ranks of several worlds choose the same algorithms. Method: a process alone, and two that
 * it spawns, reduce vectors of 4 B to 1 MiB together. Pomona's ranks are told to leave out shared
 * memory, so that one that is alone and two that are not have different transports.
 */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

int main(int argc, char** argv) {
    enum { count_max = 1 << 18 };
    static int out[count_max], in[count_max];
    MPI_Comm parent, inter, all;
    int rank, size, count, i, wrong;
    setenv("POMONA_TRANSPORTS", "self,tcp", 1);
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL)
        CHECK_OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                                MPI_ERRCODES_IGNORE));
    else inter = parent;
    CHECK_OK(MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &all));
    CHECK_OK(MPI_Comm_rank(all, &rank));
    CHECK_OK(MPI_Comm_size(all, &size));
    CHECK_EQ(3, size);
    for (count = 1; count <= count_max; count *= 2) {
        context("%d elements", count);
        for (i = 0; i < count; ++i) out[i] = rank + i;
        CHECK_OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, all));
        for (i = wrong = 0; i < count; ++i) wrong += in[i] != 3 * i + 3;
        CHECK_EQ(0, wrong);
        for (i = 0; i < count && rank == 0; ++i) out[i] = 7 * i;
        CHECK_OK(MPI_Bcast(out, count, MPI_INT, 0, all));
        for (i = wrong = 0; i < count; ++i) wrong += out[i] != 7 * i;
        CHECK_EQ(0, wrong);
    }
    CHECK_OK(MPI_Comm_free(&all));
    CHECK_OK(MPI_Comm_disconnect(&inter));
    if (parent == MPI_COMM_NULL) return finish();
    MPI_Finalize();
    return check_failures != 0;
}
