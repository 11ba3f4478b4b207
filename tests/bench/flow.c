/* flow.c SECONDS BYTES WINDOW [FILE]: rank 0 sends messages of BYTES to rank 1 for SECONDS, with
 * WINDOW of them on their way. Rank 1 prints bytes and seconds between the first arrival and the
 * last one, and the longest time between two arrivals, as JSON. FILE appears when messages have
 * been arriving for half a second: whoever measures a cut cuts then. For paths.py. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 16 };

static int send_all(double seconds, int bytes, int window) {
    char* data[kMost];
    MPI_Request requests[kMost];
    for (int i = 0; i < window; ++i) {
        data[i] = malloc(bytes);
        requests[i] = MPI_REQUEST_NULL;
    }
    double begin = MPI_Wtime();
    for (unsigned number = 0, over = 0; !over; ++number) {
        int i = (int)(number % (unsigned)window);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        over = MPI_Wtime() - begin > seconds;
        memset(data[i], (int)(number % 251), bytes);
        MPI_Isend(data[i], over ? 0 : bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < window; ++i) free(data[i]);
    return 0;
}

static int receive_all(int bytes, int window, const char* begun) {
    char* data[kMost];
    MPI_Request requests[kMost];
    for (int i = 0; i < window; ++i) {
        data[i] = malloc(bytes);
        MPI_Irecv(data[i], bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
    }
    double begin = 0, last = 0, longest = 0, sum = 0;
    int wrong = 0;
    for (unsigned number = 0;; ++number) {
        int i = (int)(number % (unsigned)window), count;
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        if (count == 0) break;
        double now = MPI_Wtime();
        if (begin == 0) begin = now;
        if (last != 0 && now - last > longest) longest = now - last;
        if (last != 0) sum += count;
        last = now;
        char expected = (char)(number % 251);
        wrong |= data[i][0] != expected || data[i][count - 1] != expected;
        MPI_Irecv(data[i], bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
        if (begun && now - begin > 0.5) {
            FILE* file = fopen(begun, "w");
            if (file) fclose(file);
            begun = NULL;
        }
    }
    for (int i = 0; i < window; ++i) {
        if (requests[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    printf("{\"bytes\": %.0f, \"seconds\": %.6f, \"longest_gap_ms\": %.3f, \"wrong\": %d}\n", sum,
           last - begin, longest * 1e3, wrong);
    for (int i = 0; i < window; ++i) free(data[i]);
    return wrong;
}

int main(int argc, char** argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int bytes = atoi(argv[2]), window = atoi(argv[3]);
    if (window < 1 || window > kMost) MPI_Abort(MPI_COMM_WORLD, 2);
    int wrong = rank == 0 ? send_all(atof(argv[1]), bytes, window)
                          : receive_all(bytes, window, argc > 4 ? argv[4] : NULL);
    MPI_Finalize();
    return wrong;
}
