/* Goal: a sender that floods a receiver that looks away must neither fail nor exhaust memory.
 * Method: all ranks send many small messages to rank 0, which sleeps first and then receives; the
 * growth of its resident memory is bounded (Linux only, where /proc tells it).
 */
#include "check.h"
#include <unistd.h>

enum { payload = 16 };

static long resident_kib(void) {
    long pages = 0, total = 0;
    FILE* f = fopen("/proc/self/statm", "r");
    if (!f) return -1;
    if (fscanf(f, "%ld %ld", &total, &pages) != 2) pages = -1;
    fclose(f);
    return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char** argv) {
    int messages = argc > 1 ? atoi(argv[1]) : 100000, i, r;
    int data[payload] = {0};
    long before, after;
    start(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        int* next = calloc((size_t)check_size, sizeof(int));
        int bad = 0;
        before = resident_kib();
        usleep(300000);
        for (i = 0; i < messages * (check_size - 1); ++i) {
            MPI_Status s;
            MPI_Recv(data, payload, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &s);
            bad += data[0] != next[s.MPI_SOURCE]++ || data[payload - 1] != s.MPI_SOURCE;
        }
        after = resident_kib();
        CHECK_EQ(0, bad);
        for (r = 1; r < check_size; ++r) CHECK_EQ(messages, next[r]);
        if (before > 0 && after > 0) CHECK(after - before < 400 * 1024);
        free(next);
    } else {
        data[payload - 1] = check_rank;
        for (i = 0; i < messages; ++i) {
            data[0] = i;
            if (MPI_Send(data, payload, MPI_INT, 0, 1, MPI_COMM_WORLD) != MPI_SUCCESS) break;
        }
        CHECK_EQ(messages, i);
    }
    return finish();
}
