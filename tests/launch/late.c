/* tests/launch/late.c: with MPIX_Init_timeout MPI_Init names the ranks that have not come, and may
 * be called again; for test_hosts_programs.py. Rank LATE of a job comes when all others have made a
 * file in FOLDER, once their first MPI_Init has failed. Those print what they were told.
 *     late FOLDER LATE */
#include <mpix.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
    int self = atoi(getenv("POMONA_JOB_RANK")), late = atoi(argc > 2 ? argv[2] : "0"), rank, size, sum, code, length;
    int others = atoi(getenv("POMONA_JOB_SIZE"));
    char path[4096], text[MPI_MAX_ERROR_STRING];
    if (self == late) {
        for (int other = 0; other < others; ++other) {
            snprintf(path, sizeof path, "%s/%d", argv[1], other);
            while (other != late && access(path, F_OK) != 0) usleep(10000);
        }
    } else {
        MPIX_Init_timeout(0.5);
        code = MPI_Init(&argc, &argv);
        if (code == MPI_SUCCESS) return 3;
        MPI_Error_string(code, text, &length);
        printf("%s\n", text);
        fflush(stdout);
        snprintf(path, sizeof path, "%s/%d", argv[1], self);
        fclose(fopen(path, "w"));
        sleep(1); /* who comes meanwhile starts all the same */
        MPIX_Init_timeout(0);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank != self || sum != size * (size - 1) / 2) return 4;
    MPI_Finalize();
    return 0;
}
