/* tests/launch/respawn.c [HOST]: when rank 1 is gone, rank 0 spawns a process (on HOST, the info
 * key "host") that takes its place and tells where it runs; for test_hosts.py. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
    int rank, nothing, length, error;
    char text[MPI_MAX_ERROR_STRING], name[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm parent, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Get_processor_name(name, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (parent != MPI_COMM_NULL) {
        printf("spawned on %s\n", name);
    } else {
        printf("rank %d\n", rank);
        fflush(stdout);
        MPI_Recv(&nothing, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (parent == MPI_COMM_NULL && rank == 0) {
        MPI_Info info;
        MPI_Info_create(&info);
        if (argc > 1) MPI_Info_set(info, "host", argv[1]);
        error = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, info, 0, MPI_COMM_SELF, &inter,
                               MPI_ERRCODES_IGNORE);
        MPI_Error_string(error, text, &length);
        if (error) printf("not spawned: %s\n", text);
        MPI_Info_free(&info);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
