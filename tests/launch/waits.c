// tests/launch/waits.c: ranks that wait for each other in the ways that test_waits.py looks for.
// Usage: waits HOW FILE. Whoever is to come late does something else than MPI until FILE exists; ranks of a
// deadlock wait until somebody ends the job.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static const char* file;

static void stay_away(void) {
    while (access(file, F_OK) != 0) usleep(1000);
}

static void compute(void) {
    volatile double sum = 0;
    for (long i = 0; access(file, F_OK) != 0; ++i)
        for (int k = 0; k < 1000; ++k) sum += 1.0 / (1 + i + k);
}

static void receive(int source, int tag) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int to, int tag) { MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD); }

// The window of the ways that need one.
static void one_sided(const char* how) {
    int* memory;
    MPI_Win window;
    MPI_Group world, others;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int other = 1 - rank;
    MPI_Group_incl(world, 1, &other, &others);
    if (strcmp(how, "win_fence") == 0) {
        if (rank == 1) stay_away();
        MPI_Win_fence(0, window);
        MPI_Win_fence(0, window);
    } else if (rank == 0) {
        MPI_Win_start(others, 0, window);
        MPI_Win_complete(window);
    } else {
        stay_away();
        MPI_Win_post(others, 0, window);
        MPI_Win_wait(window);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&others);
    MPI_Win_free(&window);
}

int main(int count, char** words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char* how = words[1];
    file = words[2];
    int last = size - 1, next = (rank + 1) % size, value = 0, sum;
    MPI_Request requests[2];
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(other);
    if (strcmp(how, "barrier") == 0) {
        if (rank == last) stay_away();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(how, "allreduce") == 0) {
        if (rank == last) compute();
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
    } else if (strcmp(how, "iallreduce") == 0) {
        if (rank == last) stay_away();
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, requests);
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "recv") == 0) {
        if (rank == 0) receive(1, 5);
        if (rank == 1) stay_away(), send(0, 5);
    } else if (strcmp(how, "ssend") == 0) {
        if (rank == 0) MPI_Ssend(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
        if (rank == 1) stay_away(), receive(0, 6);
    } else if (strcmp(how, "probe") == 0) {
        if (rank == 0) MPI_Probe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), receive(1, 7);
        if (rank == 1) stay_away(), send(0, 7);
    } else if (strcmp(how, "wait") == 0 || strcmp(how, "waitall") == 0 ||
               strcmp(how, "waitany") == 0) {
        int into[2], index;
        if (rank > 0) stay_away(), send(0, 8);
        for (int i = 1; rank == 0 && i <= 2; ++i)
            MPI_Irecv(&into[i - 1], 1, MPI_INT, i, 8, MPI_COMM_WORLD, &requests[i - 1]);
        if (rank == 0 && strcmp(how, "wait") == 0) MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        if (rank == 0 && strcmp(how, "waitany") == 0)
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        if (rank == 0) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (strcmp(how, "circle") == 0) {  // of two: each receives from the other
        receive(next, 9);
    } else if (strcmp(how, "mismatch") == 0) {  // in opposite orders
        MPI_Barrier(rank == 0 ? MPI_COMM_WORLD : other);
        MPI_Barrier(rank == 0 ? other : MPI_COMM_WORLD);
    } else if (strcmp(how, "absent") == 0) {  // rank 0 waits for what the last one would send after that
        if (rank == last) receive(0, 10);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) send(last, 10);
    } else if (strncmp(how, "win_", 4) == 0) {
        one_sided(how);
    } else if (strcmp(how, "finalize") == 0) {
        if (rank == last) stay_away();
    }
    MPI_Comm_free(&other);
    MPI_Finalize();
    if (rank == 0) puts("over");
    return 0;
}
