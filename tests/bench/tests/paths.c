/* paths.c: one rank does one operation again and again with everything it needs already there.
 * Goal: count the instructions of the short paths (instructions.py runs rank 1 under callgrind).
 * Method: the ranks take turns by two named pipes, outside MPI: rank 1 begins when its peer's
 * message lies in its ring, so that it never polls in vain and no count depends on time. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int to_peer, from_peer;

static int open_pipe(const char* folder, int writer, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d", folder, writer);
    return open(path, flags);
}

/* Both ends open for reading and writing, so that neither waits for the other. */
static void open_pipes(const char* folder, int rank) {
    to_peer = open_pipe(folder, rank, O_RDWR);
    from_peer = open_pipe(folder, 1 - rank, O_RDWR);
    if (to_peer < 0 || from_peer < 0) {
        fprintf(stderr, "bench_paths: no pipes rank0 and rank1 in %s\n", folder);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void signal_peer(void) {
    char byte = 1;
    if (write(to_peer, &byte, 1) != 1) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void await_peer(void) {
    char byte;
    if (read(from_peer, &byte, 1) != 1) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void send_path(int rank) {
    double value = 1;
    if (rank == 1) {
        MPI_Send(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        await_peer();
    } else {
        MPI_Recv(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        signal_peer();
    }
}

static void isend_path(int rank) {
    double value = 1;
    MPI_Request request;
    if (rank == 1) {
        MPI_Isend(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        await_peer();
    } else {
        MPI_Recv(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        signal_peer();
    }
}

static void recv_path(int rank) {
    double value = 1;
    if (rank == 1) {
        await_peer();
        MPI_Recv(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        signal_peer();
    } else {
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        signal_peer();
        await_peer();
    }
}

/* Receives that are posted before their messages come; WINDOW of them count as one call. */
enum { WINDOW = 16 };
static void window_path(int rank) {
    double values[WINDOW] = {0};
    MPI_Request requests[WINDOW];
    int i;
    if (rank == 1) {
        for (i = 0; i < WINDOW; ++i)
            MPI_Irecv(&values[i], 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        signal_peer();
        await_peer();
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (values[WINDOW - 1] != 5) MPI_Abort(MPI_COMM_WORLD, 3);
    } else {
        double value = 5;
        await_peer();
        for (i = 0; i < WINDOW; ++i) MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        signal_peer();
    }
}

/* A blocking collective, called again with the same arguments. */
static void bcast_path(int rank) {
    double value = rank == 0 ? 3 : 0;
    if (rank == 1) await_peer();
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (value != 3) MPI_Abort(MPI_COMM_WORLD, 3);
    signal_peer();
    if (rank == 0) await_peer();
}

/* Rank 1 is the root, and has what its peer gives before it begins. */
static void reduce_path(int rank) {
    double value = 1, sum = 0;
    if (rank == 1) await_peer();
    MPI_Reduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
    if (rank == 1 && sum != 2) MPI_Abort(MPI_COMM_WORLD, 3);
    signal_peer();
    if (rank == 0) await_peer();
}

/* Those in which both need each other are non-blocking, because rank 0 must tell that it has begun;
 * the schedule is the blocking one's. */
enum Mutual { ALLREDUCE, ALLGATHER, BARRIER };
static void mutual_path(int rank, enum Mutual which) {
    double value = 1, sum = 0, both[2] = {0};
    MPI_Request request;
    if (rank == 1) await_peer();
    if (which == ALLREDUCE)
        MPI_Iallreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    else if (which == ALLGATHER)
        MPI_Iallgather(&value, 1, MPI_DOUBLE, both, 1, MPI_DOUBLE, MPI_COMM_WORLD, &request);
    else
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    if (rank == 0) signal_peer();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (which == ALLREDUCE && sum != 2) MPI_Abort(MPI_COMM_WORLD, 3);
    if (which == ALLGATHER && both[0] + both[1] != 2) MPI_Abort(MPI_COMM_WORLD, 3);
    if (rank == 1) signal_peer();
    else await_peer();
}

/* In a window of the other rank, which does nothing. */
static MPI_Win window;
static double* memory;
static void open_window(void) {
    MPI_Win_allocate(sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
}
static void access_path(int rank, int adds) {
    double value = 1;
    if (rank == 0) return;
    if (adds) MPI_Accumulate(&value, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_SUM, window);
    else MPI_Put(&value, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, window);
    MPI_Win_flush(0, window);
}
static void close_window(int rank, double expected) {
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && *memory != expected) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Win_free(&window);
}

int main(int argc, char** argv) {
    int rank, size, i, times = argc > 3 ? atoi(argv[2]) : 0;
    const char* path = argc > 3 ? argv[1] : "";
    const int adds = !strcmp(path, "accumulate"), accesses = adds || !strcmp(path, "put");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || times < 1) {
        fprintf(stderr,
                "usage: mpirun -n 2 bench_paths "
                "send|isend|recv|window|bcast|reduce|allreduce|allgather|barrier|put|accumulate "
                "TIMES FOLDER\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    open_pipes(argv[3], rank);
    MPI_Barrier(MPI_COMM_WORLD); /* with it small collectives begin to use the board */
    if (accesses) open_window();
    for (i = 0; i < times; ++i) {
        if (accesses) access_path(rank, adds);
        else if (!strcmp(path, "send")) send_path(rank);
        else if (!strcmp(path, "isend")) isend_path(rank);
        else if (!strcmp(path, "recv")) recv_path(rank);
        else if (!strcmp(path, "window")) window_path(rank);
        else if (!strcmp(path, "bcast")) bcast_path(rank);
        else if (!strcmp(path, "reduce")) reduce_path(rank);
        else if (!strcmp(path, "allgather")) mutual_path(rank, ALLGATHER);
        else if (!strcmp(path, "barrier")) mutual_path(rank, BARRIER);
        else mutual_path(rank, ALLREDUCE);
    }
    if (accesses) close_window(rank, adds ? times : 1);
    MPI_Finalize();
    return 0;
}
