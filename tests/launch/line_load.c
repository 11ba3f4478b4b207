/* tests/launch/line_load.c: each rank of the lower half sends so many MiB to one of the upper half,
 * up to eight at once, and ends with a code: line_load MEBIBYTES [CODE]. Rank 0 prints the
 * seconds. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { kRow = 8, kBytes = 1 << 20 };

int main(int count, char** words) {
    MPI_Init(NULL, NULL);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mebibytes = count > 1 ? atoi(words[1]) : kRow;
    int many = mebibytes < kRow ? mebibytes : kRow, rows = (mebibytes + kRow - 1) / kRow;
    int half = size / 2, sends = rank < half;
    char* data = calloc(kRow, kBytes);
    double begin = MPI_Wtime();
    for (int row = 0; row < rows; ++row) {
        MPI_Request requests[kRow];
        for (int i = 0; i < many; ++i) {
            char* part = data + (size_t)i * kBytes;
            if (sends) part[kBytes - 1] = (char)(row + i);
            int peer = sends ? rank + half : rank - half;
            if (sends) MPI_Isend(part, kBytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
            else MPI_Irecv(part, kBytes, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < many; ++i)
            if (data[(size_t)(i + 1) * kBytes - 1] != (char)(row + i)) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%.3f\n", MPI_Wtime() - begin);
    free(data);
    MPI_Finalize();
    return count > 2 ? atoi(words[2]) : 0;
}
