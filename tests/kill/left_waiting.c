/* tests/kill/left_waiting.c: operations that need a process which dies.
 * Goal: each ends at all survivors with MPIX_ERR_PROC_FAILED, though nobody revokes anything: those
 * who see the error first leave, and do not call the others out. Method: argument 1 names the
 * operation (without arguments: lists them); all repeat it until it fails, rank 1 kills itself
 * before one of the rounds. Who found the error prints "survived RANK"; survive.py reads that. */
#include "survived.h"

#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ranks_most = 8, longest = 200000, last_round = 12 };

static int size;
static MPI_Comm world, used;
static MPI_Win window;
static MPI_Request persistent;
static double in[longest * ranks_most], out[longest * ranks_most];

static int wait_for(int code, MPI_Request *request) {
    return code ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static int barrier(void) { return MPI_Barrier(world); }
static int bcast(void) { return MPI_Bcast(in, 8, MPI_DOUBLE, 0, world); }
static int bcast_of_dead(void) { return MPI_Bcast(in, 8, MPI_DOUBLE, 1, world); }
static int bcast_long(void) { return MPI_Bcast(in, longest, MPI_DOUBLE, 0, world); }
static int reduce(void) { return MPI_Reduce(in, out, 8, MPI_DOUBLE, MPI_SUM, 0, world); }
static int allreduce(void) { return MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, world); }
static int allreduce_long(void) {
    return MPI_Allreduce(in, out, longest, MPI_DOUBLE, MPI_SUM, world);
}
static int allgather(void) {
    return MPI_Allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, world);
}
static int allgather_long(void) {
    return MPI_Allgather(in, longest, MPI_DOUBLE, out, longest, MPI_DOUBLE, world);
}
static int alltoall(void) {
    return MPI_Alltoall(in, 20000, MPI_DOUBLE, out, 20000, MPI_DOUBLE, world);
}
static int gather(void) { return MPI_Gather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, 0, world); }
static int scatter(void) {
    return MPI_Scatter(in, longest, MPI_DOUBLE, out, longest, MPI_DOUBLE, 0, world);
}
static int scan(void) { return MPI_Scan(in, out, 8, MPI_DOUBLE, MPI_SUM, world); }
static int reduce_scatter(void) {
    return MPI_Reduce_scatter_block(in, out, 5000, MPI_DOUBLE, MPI_SUM, world);
}
static int ibarrier(void) {
    MPI_Request request;
    return wait_for(MPI_Ibarrier(world, &request), &request);
}
/* Two at once, of which the later one is waited for first. */
static int iallreduce(void) {
    MPI_Request first, second;
    int code = MPI_Iallreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, world, &first);
    if (code) return code;
    code = MPI_Iallreduce(in, out + 8, longest, MPI_DOUBLE, MPI_SUM, world, &second);
    int later = wait_for(code, &second), earlier = MPI_Wait(&first, MPI_STATUS_IGNORE);
    return later ? later : earlier;
}
static int started(void) {
    if (persistent == MPI_REQUEST_NULL) {
        int code = MPI_Allreduce_init(in, out, 1000, MPI_DOUBLE, MPI_SUM, world, MPI_INFO_NULL,
                                      &persistent);
        if (code) return code;
    }
    return wait_for(MPI_Start(&persistent), &persistent);
}
/* A communicator of each round: its board is in the making when rank 1 dies. */
static int fresh(void) {
    int code = MPI_Comm_dup(world, &used);
    if (!code) code = MPI_Barrier(used);
    if (!code) code = MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, used);
    return code;
}
static int split(void) {
    int code = MPI_Comm_split(world, rank % 2, 0, &used);
    if (!code) code = MPI_Barrier(world);
    return code;
}
static int merge(void) {
    MPI_Comm half, both;
    static MPI_Comm between = MPI_COMM_NULL;
    if (between == MPI_COMM_NULL) {
        int code = MPI_Comm_split(world, rank % 2, 0, &half);
        if (!code) code = MPI_Intercomm_create(half, 0, world, 1 - rank % 2, 3, &between);
        if (code) return code;
    }
    int code = MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, between);
    return code ? code : MPI_Intercomm_merge(between, rank % 2, &both);
}
static int make_window(void) {
    void *base;
    MPI_Win made;
    return MPI_Win_allocate(4096, 8, MPI_INFO_NULL, world, &base, &made);
}

/* One-sided: the window is made in the first round. */
static int open_window(void) {
    void *base;
    if (window != MPI_WIN_NULL) return MPI_SUCCESS;
    int code = MPI_Win_allocate(longest * 8, 8, MPI_INFO_NULL, world, &base, &window);
    return code ? code : MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
}
static int win_fence(void) {
    int code = open_window();
    if (!code) code = MPI_Win_fence(0, window);
    if (!code) code = MPI_Put(in, 8, MPI_DOUBLE, (rank + 1) % size, 0, 8, MPI_DOUBLE, window);
    int last = code ? code : MPI_Win_fence(0, window);
    return last;
}
/* Everybody exposes its memory to its neighbour above: 2 starts at 1, and 0 waits for 1. */
static int win_start(void) {
    MPI_Group all, above, below;
    int up = (rank + 1) % size, down = (rank + size - 1) % size;
    int code = open_window();
    if (code) return code;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &up, &above);
    MPI_Group_incl(all, 1, &down, &below);
    code = MPI_Win_post(above, 0, window);
    if (!code) code = MPI_Win_start(below, 0, window);
    if (!code) code = MPI_Win_complete(window);
    if (!code) code = MPI_Win_wait(window);
    return code ? code : MPI_Barrier(world);
}
/* The dead one holds the lock of rank 0's memory, as the others ask for it. */
static int win_lock(void) {
    static int round = 0;
    int code = open_window();
    if (!code) code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    if (code) return code;
    double one = 1;
    code = MPI_Accumulate(&one, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_SUM, window);
    if (rank == 1 && ++round == 3) raise(SIGKILL);
    if (!code) code = MPI_Win_unlock(0, window);
    return code ? code : MPI_Barrier(world);
}
static int win_flush(void) {
    int code = open_window();
    if (!code) code = MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window);
    if (!code) code = MPI_Get(in, longest, MPI_DOUBLE, 1, 0, longest, MPI_DOUBLE, window);
    if (!code) code = MPI_Win_flush(1, window);
    if (!code) code = MPI_Win_unlock(1, window);
    return code ? code : MPI_Barrier(world);
}

/* Point to point: all with rank 1, which serves each round. */
static int serve(int times) {
    MPI_Status status;
    for (int i = 0; i < times * (size - 1); ++i) {
        MPI_Recv(in, longest, MPI_DOUBLE, MPI_ANY_SOURCE, 7, world, &status);
        MPI_Send(in, 8, MPI_DOUBLE, status.MPI_SOURCE, 7, world);
    }
    return MPI_SUCCESS;
}
static int sendrecv(void) {
    if (rank == 1) return serve(1);
    return MPI_Sendrecv(in, 8, MPI_DOUBLE, 1, 7, out, 8, MPI_DOUBLE, 1, 7, world,
                        MPI_STATUS_IGNORE);
}
static int send_long(void) {
    if (rank == 1) return serve(1);
    int code = MPI_Send(in, longest, MPI_DOUBLE, 1, 7, world);
    return code ? code : MPI_Recv(out, 8, MPI_DOUBLE, 1, 7, world, MPI_STATUS_IGNORE);
}
static int ssend(void) {
    if (rank == 1) return serve(1);
    int code = MPI_Ssend(in, 8, MPI_DOUBLE, 1, 7, world);
    return code ? code : MPI_Recv(out, 8, MPI_DOUBLE, 1, 7, world, MPI_STATUS_IGNORE);
}
static int probe(void) {
    MPI_Message message;
    if (rank == 1) return serve(2);
    for (int matched = 0; matched < 2; ++matched) {
        int code = MPI_Send(in, 8, MPI_DOUBLE, 1, 7, world);
        if (!code)
            code = matched ? MPI_Mprobe(1, 7, world, &message, MPI_STATUS_IGNORE)
                           : MPI_Probe(1, 7, world, MPI_STATUS_IGNORE);
        if (!code)
            code = matched ? MPI_Mrecv(out, 8, MPI_DOUBLE, &message, MPI_STATUS_IGNORE)
                           : MPI_Recv(out, 8, MPI_DOUBLE, 1, 7, world, MPI_STATUS_IGNORE);
        if (code) return code;
    }
    return MPI_SUCCESS;
}
static int probe_any(void) {
    if (rank == 1) return serve(1);
    int code = MPI_Send(in, 8, MPI_DOUBLE, 1, 7, world);
    if (!code) code = MPI_Probe(MPI_ANY_SOURCE, 7, world, MPI_STATUS_IGNORE);
    return code ? code : MPI_Recv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 7, world, MPI_STATUS_IGNORE);
}
static int iprobe_any(void) {
    if (rank == 1) return serve(1);
    int code = MPI_Send(in, 8, MPI_DOUBLE, 1, 7, world);
    for (int flag = 0; !code && !flag;)
        code = MPI_Iprobe(MPI_ANY_SOURCE, 7, world, &flag, MPI_STATUS_IGNORE);
    return code ? code : MPI_Recv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 7, world, MPI_STATUS_IGNORE);
}
static int recv_any(void) {
    if (rank == 1) return serve(1);
    int code = MPI_Send(in, 8, MPI_DOUBLE, 1, 7, world);
    return code ? code : MPI_Recv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 7, world, MPI_STATUS_IGNORE);
}
/* The receive of any source is pending, which is an end of neither it nor the other one. */
static int waitany(void) {
    int index = -1;
    MPI_Request both[2];
    if (rank == 1) return serve(1);
    MPI_Irecv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 7, world, &both[0]);
    MPI_Irecv(out + 8, 8, MPI_DOUBLE, rank, 77, world, &both[1]);
    int code = MPI_Send(in, 8, MPI_DOUBLE, 1, 7, world);
    if (!code) code = MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
    if (class_of(code) == MPIX_ERR_PROC_FAILED_PENDING) {
        if (index != 0 || both[0] == MPI_REQUEST_NULL) return MPI_ERR_INTERN;
        code = MPIX_ERR_PROC_FAILED;
    }
    MPI_Cancel(&both[1]);
    MPI_Wait(&both[1], MPI_STATUS_IGNORE);
    if (both[0] == MPI_REQUEST_NULL) return code;
    MPI_Cancel(&both[0]);
    MPI_Wait(&both[0], MPI_STATUS_IGNORE);
    return code;
}

static const struct {
    const char *name;
    int (*once)(void);
} operations[] = {
    {"barrier", barrier},       {"bcast", bcast},
    {"bcast_of_dead", bcast_of_dead}, {"bcast_long", bcast_long},
    {"reduce", reduce},         {"allreduce", allreduce},
    {"allreduce_long", allreduce_long}, {"allgather", allgather},
    {"allgather_long", allgather_long}, {"alltoall", alltoall},
    {"gather", gather},         {"scatter", scatter},
    {"scan", scan},             {"reduce_scatter", reduce_scatter},
    {"ibarrier", ibarrier},     {"iallreduce", iallreduce},
    {"started", started},       {"fresh", fresh},
    {"split", split},           {"merge", merge},
    {"make_window", make_window}, {"win_fence", win_fence},
    {"win_start", win_start},   {"win_lock", win_lock},
    {"win_flush", win_flush},   {"sendrecv", sendrecv},
    {"send_long", send_long},   {"ssend", ssend},
    {"probe", probe},           {"probe_any", probe_any},
    {"iprobe_any", iprobe_any}, {"recv_any", recv_any},
    {"waitany", waitany},
};

int main(int argc, char **argv) {
    const int count = (int)(sizeof operations / sizeof *operations);
    for (int i = 0; argc < 2 && i < count; ++i) puts(operations[i].name);
    if (argc < 2) return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    window = MPI_WIN_NULL;
    persistent = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS, round = 0, chosen = -1;
    for (int i = 0; i < count; ++i)
        if (!strcmp(operations[i].name, argv[1])) chosen = i;
    if (chosen < 0 || size > ranks_most) return 4;
    for (; code == MPI_SUCCESS; ++round) {
        if (rank == 1 && round == last_round) raise(SIGKILL);
        code = operations[chosen].once();
    }
    if (class_of(code) != MPIX_ERR_PROC_FAILED) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d, round %d: %s\n", rank, round, text);
        _exit(3);
    }
    MPI_Finalize();
    printf("survived %d\n", rank);
    return 0;
}
