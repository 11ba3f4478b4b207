/* tests/bench/rdma_cut.c: how long nothing arrives when a fake RDMA cable is pulled (tests/verbs):
 * two ranks exchange 8 bytes without end; each time rank 0 pulls the cable, and plugs it in again.
 * For rdma.py. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CUTS 20

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void* library = dlopen(getenv("POMONA_VERBS"), RTLD_NOW);
    int (*control)(const char*) = library ? (int (*)(const char*))dlsym(library, "fake_control") : NULL;
    if (!control) MPI_Abort(MPI_COMM_WORLD, 1);
    double begin = MPI_Wtime();
    for (int cut = 0; cut < CUTS;) {
        /* 0.6 s with RDMA, and then the cut; after 0.3 s the cable is back. */
        double pulled = 0, gap = 0, before = MPI_Wtime(), usual = 0;
        long stop = 0;
        while (!stop) {
            double now = MPI_Wtime();
            if (rank == 0 && pulled == 0 && now - begin > 0.6) {
                control("pull * *");
                pulled = before = now = MPI_Wtime();
            }
            stop = pulled != 0 && now - pulled > 0.3;
            if (rank == 0) {
                MPI_Send(&stop, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(&stop, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(&stop, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(&stop, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
            }
            now = MPI_Wtime();
            if (pulled == 0 && now - before > usual) usual = now - before;
            if (pulled != 0 && now - before > gap) gap = now - before;
            before = now;
        }
        if (rank == 0) {
            printf("gap_ms %.3f before %.3f\n", gap * 1e3, usual * 1e3);
            control("plug * *");
        }
        begin = MPI_Wtime();
        ++cut;
    }
    MPI_Finalize();
    return 0;
}
