/* dead_host.c waits|talks|sends FOLDER: rank 1's host is about to vanish; rank 0 tells when it is
 * told. waits: rank 0 is in MPI_Recv, and nothing is on its way. talks: the two exchange 8 bytes
 * all the time. sends: rank 0 sends messages of 1 MiB. Rank 1 writes its process number to
 * FOLDER/pid, rank 0 makes FOLDER/begun when the host may vanish. Rank 0 prints as JSON when MPI
 * returned an error (seconds of the system's monotonic clock), and its class. For dead_host.py. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kLarge = 1 << 20 };

static void write_file(const char* folder, const char* name, long value) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.new", folder, name);
    FILE* file = fopen(path, "w");
    if (!file) MPI_Abort(MPI_COMM_WORLD, 2);
    fprintf(file, "%ld\n", value);
    fclose(file);
    char last[4096];
    snprintf(last, sizeof last, "%s/%s", folder, name);
    rename(path, last);
}

int main(int argc, char** argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    int sends = !strcmp(argv[1], "sends"), waits = !strcmp(argv[1], "waits");
    char* data = calloc(1, kLarge);
    int bytes = sends ? kLarge : 8, error = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) write_file(argv[2], "pid", (long)getpid());
    double begin = MPI_Wtime();
    for (int begun = 0; error == MPI_SUCCESS;) {
        int now = !begun && MPI_Wtime() - begin > 0.5;
        if (rank == 0 && now) write_file(argv[2], "begun", 1);
        begun |= now;
        if (rank == 0) {
            if (!begun || !waits) error = MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            if (error == MPI_SUCCESS && !sends)
                error = MPI_Recv(data, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            error = MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (error == MPI_SUCCESS && !sends)
                error = MPI_Send(data, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int class = 0;
    MPI_Error_class(error, &class);
    if (rank == 0) {
        printf("{\"told_at\": %.6f, \"failed\": %s}\n", (double)time.tv_sec + 1e-9 * (double)time.tv_nsec,
               class == MPIX_ERR_PROC_FAILED ? "true" : "false");
        fflush(stdout);
    }
    MPI_Abort(MPI_COMM_WORLD, 3);
    return 0;
}
