/* tests/launch/spawn_hosts.c COUNT [HOST [ROUNDS]]: rank 0 spawns COUNT processes (on HOST, the
 * info key "host"; "-": any), all of both worlds are merged, and those that were spawned tell where
 * they run; for test_hosts.py. Sums and copies go through collectives of unlike nodes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { elements = 1 << 15 };

static void add_up(MPI_Comm all, int rank, int size) {
    static int out[elements], in[elements];
    int i, wrong = 0;
    for (i = 0; i < elements; ++i) out[i] = rank + i;
    MPI_Allreduce(out, in, elements, MPI_INT, MPI_SUM, all);
    for (i = 0; i < elements; ++i) wrong += in[i] != size * (size - 1) / 2 + size * i;
    MPI_Bcast(out, elements, MPI_INT, size - 1, all);
    for (i = 0; i < elements; ++i) wrong += out[i] != size - 1 + i;
    if (wrong) printf("%d wrong elements\n", wrong), fflush(stdout), MPI_Abort(all, 9);
}

int main(int argc, char** argv) {
    int rank, size, length, round, count = argc > 1 ? atoi(argv[1]) : 1;
    int rounds = argc > 3 ? atoi(argv[3]) : 1;
    char name[MPI_MAX_PROCESSOR_NAME], line[MPI_MAX_PROCESSOR_NAME + 128];
    MPI_Comm parent, inter, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    for (round = 0; round < (parent == MPI_COMM_NULL ? rounds : 1); ++round) {
        if (parent == MPI_COMM_NULL) {
            MPI_Info info;
            MPI_Info_create(&info);
            if (argc > 2 && strcmp(argv[2], "-") != 0) MPI_Info_set(info, "host", argv[2]);
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, count, info, 0, MPI_COMM_WORLD, &inter,
                           MPI_ERRCODES_IGNORE);
            MPI_Info_free(&info);
        } else {
            inter = parent;
        }
        MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &all);
        MPI_Comm_rank(all, &rank);
        MPI_Comm_size(all, &size);
        add_up(all, rank, size);
        if (parent != MPI_COMM_NULL) {
            MPI_Get_processor_name(name, &length);
            sprintf(line, "spawned on %s with %s at %.64s port %.8s\n", name, getenv("LOCAL_WORLD_SIZE"),
                    getenv("MASTER_ADDR"), getenv("MASTER_PORT"));
            fputs(line, stdout);
            fflush(stdout);
        }
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Finalize();
    return 0;
}
