/* flow.c SECONDS BYTES [FILE]: rank 0 sends messages of BYTES to rank 1 for SECONDS. Rank 1 prints bytes,
 * seconds, and the longest time between two arrivals, as JSON. FILE appears when messages have been
 * arriving for half a second: whoever measures a cut cuts then. For paths.py. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double seconds = atof(argv[1]), begin = 0, last = 0, longest = 0, sum = 0;
    int bytes = atoi(argv[2]), wrong = 0, told = 0;
    char* data = malloc(bytes);
    for (unsigned number = 0;; ++number) {
        if (rank == 0) {
            if (begin == 0) begin = MPI_Wtime();
            int over = MPI_Wtime() - begin > seconds;
            memset(data, (int)(number % 251), bytes);
            MPI_Send(data, over ? 0 : bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            if (over) break;
        } else {
            int count;
            MPI_Status status;
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            if (count == 0) break;
            double now = MPI_Wtime();
            if (begin == 0) begin = now;
            if (last != 0 && now - last > longest) longest = now - last;
            last = now;
            sum += count;
            wrong |= data[0] != (char)(number % 251) || data[count - 1] != (char)(number % 251);
            if (argc > 3 && !told && now - begin > 0.5) {
                FILE* file = fopen(argv[3], "w");
                if (file) fclose(file);
                told = 1;
            }
        }
    }
    if (rank == 1)
        printf("{\"bytes\": %.0f, \"seconds\": %.6f, \"longest_gap_ms\": %.3f, \"wrong\": %d}\n", sum,
               last - begin, longest * 1e3, wrong);
    free(data);
    MPI_Finalize();
    return wrong;
}
