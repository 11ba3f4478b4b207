/* tests/bench/rdma_counts.c: what can be counted of paths by RDMA between two ranks, for rdma.py.
 * Each case begins when messages take such a path.
 *   sends N     rank 1 sends N messages of 8 bytes, some at a time (callgrind counts inside MPI_Send)
 *   copies B N  rank 0 sends N messages of B bytes; each rank tells what it copied (rdma_copied.c, preloaded)
 *   sums B N    both ranks add up N vectors of B bytes (MPI_Allreduce); the same, by bytes of the vector
 *   work B N    N times, rank 0 sends four messages of B bytes at once; GB for a second of each rank's processor
 *   death       rank 1 is killed while rank 0 waits for its message; rank 0 tells after how long that failed
 *   idle S      rank 1 waits S seconds for rank 0, which is outside MPI, then for rank 0 in MPI, which waits for
 *               rank 2 outside MPI; it tells what part of a core that took */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int rank;
static MPI_Comm world;

static int goes_by_rdma(void) {
    static char text[1 << 16];
    int length = sizeof text;
    if (MPIX_Link_paths(world, 1 - rank, text, &length) != MPI_SUCCESS) return 0;
    const char* line = strstr(text, "rdma\tup\tfirst");
    return line != NULL;
}

/* Until both have such a path, and then as many more, so that nothing is new any more. */
static void warm_up(void) {
    int ready[2] = {0, 0};
    for (int more = 0; more < 300;) {
        ready[0] = goes_by_rdma();
        MPI_Sendrecv(&ready[0], 1, MPI_INT, 1 - rank, 9, &ready[1], 1, MPI_INT, 1 - rank, 9, world,
                     MPI_STATUS_IGNORE);
        more = ready[0] && ready[1] ? more + 1 : 0;
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void sends(int number) {
    enum { BATCH = 10 };
    double value = 1;
    for (int i = 0; i < number; i += BATCH) {
        for (int j = 0; j < BATCH; ++j) {
            if (rank == 1) MPI_Send(&value, 1, MPI_DOUBLE, 0, 1, world);
            else MPI_Recv(&value, 1, MPI_DOUBLE, 1, 1, world, MPI_STATUS_IGNORE);
        }
        if (rank == 0) MPI_Send(&value, 1, MPI_DOUBLE, 1, 2, world);
        else MPI_Recv(&value, 1, MPI_DOUBLE, 0, 2, world, MPI_STATUS_IGNORE);
    }
}

static void copies(int bytes, int number) {
    unsigned long long (*copied)(void) = (unsigned long long (*)(void))dlsym(RTLD_DEFAULT, "copied_bytes");
    char* buffer = calloc(1, (size_t)bytes);
    if (!copied || !buffer) MPI_Abort(world, 3);
    unsigned long long before = copied();
    for (int i = 0; i < number; ++i) {
        if (rank == 0) MPI_Ssend(buffer, bytes, MPI_BYTE, 1, 1, world);
        else MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, world, MPI_STATUS_IGNORE);
    }
    printf("copies %s %d %.4f\n", rank == 0 ? "send" : "recv", bytes,
           (double)(copied() - before) / ((double)bytes * number));
    free(buffer);
}

static void sums(int bytes, int number) {
    unsigned long long (*copied)(void) = (unsigned long long (*)(void))dlsym(RTLD_DEFAULT, "copied_bytes");
    int count = bytes / (int)sizeof(float);
    float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
    if (!copied || !in || !out) MPI_Abort(world, 3);
    for (int i = 0; i < count; ++i) in[i] = (float)(i % 4096);
    unsigned long long before = 0;
    /* The first one prepares. */
    for (int i = -1; i < number; ++i) {
        if (i == 0) before = copied();
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, world);
    }
    for (int i = 0; i < count; ++i)
        if (out[i] != (float)(i % 4096) * 2) MPI_Abort(world, 5);
    printf("sums %s %d %.4f\n", rank == 0 ? "first" : "second", bytes,
           (double)(copied() - before) / ((double)bytes * number));
    free(in);
    free(out);
}

static void death(void) {
    double at = 0;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (rank == 1) {
        at = now();
        MPI_Ssend(&at, 1, MPI_DOUBLE, 0, 1, world);
        raise(SIGKILL);
    }
    MPI_Recv(&at, 1, MPI_DOUBLE, 1, 1, world, MPI_STATUS_IGNORE);
    double value;
    int code = MPI_Recv(&value, 1, MPI_DOUBLE, 1, 2, world, MPI_STATUS_IGNORE);
    double ended = now();
    if (code == MPI_SUCCESS) MPI_Abort(world, 4);
    printf("death_ms %.3f\n", (ended - at) * 1e3);
    fflush(stdout);
    _Exit(0);
}

static double processor(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void work(int bytes, int number) {
    enum { WINDOW = 4 };
    char* buffer = calloc(WINDOW, (size_t)bytes);
    if (!buffer) MPI_Abort(world, 3);
    double before = 0;
    /* The first two prepare. */
    for (int i = -2; i < number; ++i) {
        MPI_Request requests[WINDOW];
        int over = 0;
        if (i == 0) before = processor();
        for (int j = 0; j < WINDOW; ++j) {
            char* at = buffer + (size_t)j * (size_t)bytes;
            if (rank == 0) MPI_Isend(at, bytes, MPI_BYTE, 1, 1, world, &requests[j]);
            else MPI_Irecv(at, bytes, MPI_BYTE, 0, 1, world, &requests[j]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) MPI_Recv(&over, 1, MPI_INT, 1, 2, world, MPI_STATUS_IGNORE);
        else MPI_Send(&over, 1, MPI_INT, 0, 2, world);
    }
    printf("work %s %d %.3f\n", rank == 0 ? "send" : "recv", bytes,
           (double)bytes * WINDOW * number / (processor() - before) * 1e-9);
    free(buffer);
}

static void idle(int seconds) {
    char byte = 0;
    MPI_Barrier(world);
    double before = processor();
    if (rank == 0) {
        sleep((unsigned)seconds);
        MPI_Send(&byte, 1, MPI_CHAR, 1, 1, world);
    } else if (rank == 1) {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 1, world, MPI_STATUS_IGNORE);
        printf("idle outside %.3f\n", (processor() - before) / seconds * 100);
    }
    MPI_Barrier(world);
    before = processor();
    if (rank == 2) {
        sleep((unsigned)seconds);
        MPI_Send(&byte, 1, MPI_CHAR, 0, 2, world);
    } else if (rank == 0) {
        MPI_Recv(&byte, 1, MPI_CHAR, 2, 2, world, MPI_STATUS_IGNORE);
        MPI_Send(&byte, 1, MPI_CHAR, 1, 2, world);
    } else {
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 2, world, MPI_STATUS_IGNORE);
        printf("idle inside %.3f\n", (processor() - before) / seconds * 100);
    }
    MPI_Barrier(world);
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    if (rank < 2) warm_up();
    if (argc > 2 && strcmp(argv[1], "sends") == 0) sends(atoi(argv[2]));
    if (argc > 3 && strcmp(argv[1], "copies") == 0) copies(atoi(argv[2]), atoi(argv[3]));
    if (argc > 3 && strcmp(argv[1], "sums") == 0) sums(atoi(argv[2]), atoi(argv[3]));
    if (argc > 1 && strcmp(argv[1], "death") == 0) death();
    if (argc > 3 && strcmp(argv[1], "work") == 0) work(atoi(argv[2]), atoi(argv[3]));
    if (argc > 2 && strcmp(argv[1], "idle") == 0) idle(atoi(argv[2]));
    MPI_Comm_free(&world);
    MPI_Finalize();
    return 0;
}
