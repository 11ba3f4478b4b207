/* tests/kill/survivor.c: what the survivors of a death can do (mpix.h, docs/failures.md).
 * Goal: each function keeps what it promises, on every rank. Method: argument 1 names the scenario
 * (without arguments: lists them); rank 1 kills itself where the scenario says so; each survivor
 * that found all as expected prints "survived RANK". survive.py reads that. */
#include "survived.h"

#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#define LARGE (1 << 20)

static int size;
static MPI_Comm world;

static void die(void) { raise(SIGKILL); }

/* Point to point with the dead one fails; among the living it goes on. */
static void named(void) {
    int value = rank, other = -1, next = rank == 0 ? 2 : 0, length = 0;
    char text[MPI_MAX_ERROR_STRING];
    if (rank == 1) die();
    if (rank > 2) return;
    int code = MPI_Recv(&value, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS);
    CHECK(strstr(text, "MPIX_ERR_PROC_FAILED") && strstr(text, "peer 1"));
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 1, 0, world)) == MPIX_ERR_PROC_FAILED);
    value = rank;
    code = MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &other, 1, MPI_INT, next, 1, world,
                        MPI_STATUS_IGNORE);
    CHECK(code == MPI_SUCCESS && other == next);
    int flag = 7;
    CHECK(class_of(MPI_Probe(1, 0, world, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Iprobe(1, 0, world, &flag, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
}

static void check_group(MPI_Group group, int members) {
    MPI_Group all;
    int count = -1, one = 0, there = -1;
    MPI_Comm_group(world, &all);
    MPI_Group_size(group, &count);
    CHECK(count == members);
    if (members) {
        MPI_Group_translate_ranks(group, 1, &one, all, &there);
        CHECK(there == 1);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&group);
}

static void wait_for_failure(void) {
    int value;
    MPI_Group group;
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, 1, 999, world, MPI_STATUS_IGNORE)) ==
          MPIX_ERR_PROC_FAILED);
    CHECK(MPIX_Comm_get_failed(world, &group) == MPI_SUCCESS);
    check_group(group, 1);
}

/* A receive of any source is stalled, and goes on when the failure is acknowledged. */
static void any_source(void) {
    int value = -1, acked = -1, flag = -1;
    MPI_Group group;
    MPI_Status status;
    MPI_Request request, both[2];
    if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
        die();
    }
    if (rank != 0) {
        MPI_Recv(&value, 1, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, 0, 4, world);
        return;
    }
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, world, &request);
    MPI_Send(&value, 1, MPI_INT, 1, 5, world);
    CHECK(class_of(MPI_Wait(&request, &status)) == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL);
    CHECK(class_of(MPI_Test(&request, &flag, &status)) == MPIX_ERR_PROC_FAILED_PENDING);
    both[0] = request, both[1] = MPI_REQUEST_NULL;
    MPI_Status statuses[2];
    CHECK(MPI_Waitall(2, both, statuses) == MPI_ERR_IN_STATUS);
    CHECK(class_of(statuses[0].MPI_ERROR) == MPIX_ERR_PROC_FAILED_PENDING && both[0] == request);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 6, world, &status)) ==
          MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Probe(MPI_ANY_SOURCE, 6, world, &status)) == MPIX_ERR_PROC_FAILED);
    CHECK(MPIX_Comm_failure_get_acked(world, &group) == MPI_SUCCESS);
    check_group(group, 0);
    CHECK(class_of(MPIX_Comm_ack_failed(world, -1, &acked)) == MPI_ERR_ARG);
    CHECK(MPIX_Comm_ack_failed(world, 0, &acked) == MPI_SUCCESS && acked == 0);
    CHECK(MPIX_Comm_ack_failed(world, size, &acked) == MPI_SUCCESS && acked == 1);
    CHECK(MPIX_Comm_failure_get_acked(world, &group) == MPI_SUCCESS);
    check_group(group, 1);
    CHECK(MPI_Test(&request, &flag, &status) == MPI_SUCCESS && !flag);
    for (int other = 2; other < size; ++other) MPI_Send(&value, 1, MPI_INT, other, 5, world);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS && value == status.MPI_SOURCE);
    for (int other = 3; other < size; ++other)
        CHECK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, world, &status) == MPI_SUCCESS);
}

/* Nobody dies: what is blocked anywhere ends when one process revokes. */
static void revoked(void) {
    static char large[LARGE];
    MPI_Comm twin;
    MPI_Request request;
    int flag = -1, value = 0, code = MPI_SUCCESS;
    MPI_Comm_dup(world, &twin);
    MPI_Barrier(twin);
    MPIX_Comm_is_revoked(twin, &flag);
    CHECK(flag == 0);
    switch (rank) {
    case 0:
        usleep(200000);
        CHECK(MPIX_Comm_revoke(twin) == MPI_SUCCESS);
        code = MPI_Barrier(twin);
        break;
    case 1: code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, twin, MPI_STATUS_IGNORE); break;
    case 2: code = MPI_Send(large, LARGE, MPI_CHAR, 0, 0, twin); break;
    case 3: code = MPI_Ssend(&value, 1, MPI_INT, 0, 0, twin); break;
    case 4: code = MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, twin); break;
    default:
        MPI_Irecv(large, LARGE, MPI_CHAR, 0, 3, twin, &request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    CHECK(class_of(code) == MPIX_ERR_REVOKED);
    CHECK(MPIX_Comm_is_revoked(twin, &flag) == MPI_SUCCESS && flag);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, 0, twin)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, twin)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, twin)) ==
          MPIX_ERR_REVOKED);
    MPI_Comm none;
    CHECK(class_of(MPI_Comm_dup(twin, &none)) == MPIX_ERR_REVOKED);
    int all = 6 | rank;
    CHECK(MPIX_Comm_agree(twin, &all) == MPI_SUCCESS && all == 6);
    MPI_Comm again;
    CHECK(MPIX_Comm_shrink(twin, &again) == MPI_SUCCESS);
    int sum = 1;
    CHECK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, again) == MPI_SUCCESS);
    CHECK(sum == size);
    MPI_Comm_free(&again);
    MPI_Comm_free(&twin);
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
}

/* All get the AND, and all the error until all have acknowledged. */
static void agree(void) {
    int flag = ~(1 << rank);
    MPI_Request request;
    if (rank == 1) die();
    wait_for_failure();
    CHECK(class_of(MPIX_Comm_agree(world, &flag)) == MPIX_ERR_PROC_FAILED);
    CHECK((flag & ~2) == ~((1 << size) - 1));
    CHECK(MPIX_Comm_failure_ack(world) == MPI_SUCCESS);
    flag = rank ? 12 : 10;
    CHECK(MPIX_Comm_agree(world, &flag) == MPI_SUCCESS && flag == 8);
    flag = rank ? 6 : 3;
    CHECK(MPIX_Comm_iagree(world, &flag, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 2);
}

/* It dies while others are in the agreement. */
static void agree_waiting(void) {
    int flag = 5;
    if (rank == 1) usleep(200000), die();
    CHECK(class_of(MPIX_Comm_agree(world, &flag)) == MPIX_ERR_PROC_FAILED && flag == 5);
}

static void check_shrunk(MPI_Comm made) {
    int count = 0, place = -1, sum = 1;
    MPI_Comm twin;
    MPI_Comm_size(made, &count);
    MPI_Comm_rank(made, &place);
    CHECK(count == size - 1 && place == (rank > 1 ? rank - 1 : rank));
    CHECK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, made) == MPI_SUCCESS);
    CHECK(sum == count);
    CHECK(MPI_Comm_dup(made, &twin) == MPI_SUCCESS);
    CHECK(MPI_Bcast(&sum, 1, MPI_INT, 0, twin) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&twin) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&made) == MPI_SUCCESS);
}

static void shrink(void) {
    MPI_Comm made;
    MPI_Request request;
    if (rank == 1) die();
    CHECK(MPIX_Comm_shrink(world, &made) == MPI_SUCCESS);
    check_shrunk(made);
    CHECK(MPIX_Comm_ishrink(world, &made, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    check_shrunk(made);
}

/* Collectives until one fails; whoever sees it calls the others out, and all go on without it. */
static void go_on(void) {
    static double in[50000], out[50000];
    MPI_Comm made;
    int code = MPI_SUCCESS;
    for (int round = 0; code == MPI_SUCCESS; ++round) {
        if (rank == 1 && round == 20) die();
        code = MPI_Allreduce(in, out, round % 2 ? 50000 : 1, MPI_DOUBLE, MPI_SUM, world);
    }
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED);
    MPIX_Comm_revoke(world);
    CHECK(MPIX_Comm_shrink(world, &made) == MPI_SUCCESS);
    check_shrunk(made);
}

/* One after the other dies, until two are left. */
static void last_two(void) {
    MPI_Comm now = world, next;
    int count = size, place = rank, sum;
    while (count > 2) {
        if (place == 1 + count % 2) die();
        do sum = 1;
        while (MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, now) == MPI_SUCCESS);
        MPIX_Comm_revoke(now);
        CHECK(MPIX_Comm_shrink(now, &next) == MPI_SUCCESS);
        now = next;
        MPI_Comm_size(now, &count);
        MPI_Comm_rank(now, &place);
    }
    CHECK(MPI_Barrier(now) == MPI_SUCCESS);
}

/* It dies before MPI_Finalize, of which the others hear there. */
static void finalize(void) {
    if (rank == 1) usleep(100000), die();
}

/* As named(), but a child of the dead one keeps all that it had open, as children do that are made
 * without fork(3), until rank 0 ends: connections tell nothing, mpirun's word does. */
static void named_beside_child(void) {
    int first = (int)getpid(), made = 0;
    CHECK(MPI_Bcast(&first, 1, MPI_INT, 0, world) == MPI_SUCCESS);
    if (rank == 1) {
#ifdef __linux__
        made = (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
#else
        made = (int)fork();
#endif
        CHECK(made >= 0);
        if (made == 0) {
            for (int each = 0; each < 3; ++each) close(each);
            while (kill(first, 0) == 0) usleep(10000);
            _exit(0);
        }
    }
    named();
}

static void on_alarm(int number) {
    (void)number;
    die();
}

/* It dies while it waits at a port: who accepts there next meets one who lives. */
static void port(void) {
    char name[MPI_MAX_PORT_NAME] = "";
    int mine = rank, theirs = -1, nothing;
    MPI_Comm met;
    if (rank == 0) CHECK(MPI_Open_port(MPI_INFO_NULL, name) == MPI_SUCCESS);
    CHECK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, world) == MPI_SUCCESS);
    if (rank > 2) return;
    if (rank == 1) {
        signal(SIGALRM, on_alarm);
        ualarm(200000, 0);
        MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
    }
    CHECK(MPI_Recv(&nothing, 1, MPI_INT, 1, 0, world, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    usleep(300000); /* mpirun may hear of it after us */
    if (rank == 0) CHECK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met) == MPI_SUCCESS);
    else CHECK(MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met) == MPI_SUCCESS);
    CHECK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 0, &theirs, 1, MPI_INT, 0, 0, met,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(theirs == 2 - rank);
    CHECK(MPI_Comm_disconnect(&met) == MPI_SUCCESS);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"named", named},   {"any_source", any_source},       {"revoke", revoked},
                 {"agree", agree},   {"agree_waiting", agree_waiting}, {"shrink", shrink},
                 {"go_on", go_on},   {"last_two", last_two},           {"finalize", finalize},
                 {"named_beside_child", named_beside_child},           {"port", port}};

int main(int argc, char **argv) {
    const int count = (int)(sizeof scenarios / sizeof *scenarios);
    for (int i = 0; argc < 2 && i < count; ++i) puts(scenarios[i].name);
    if (argc < 2) return 0;
    MPI_Init(&argc, &argv);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    for (int other = 0, got = 0; other < size; ++other) /* all are connected */
        MPI_Sendrecv(&rank, 1, MPI_INT, other, 8, &got, 1, MPI_INT, other, 8, world,
                     MPI_STATUS_IGNORE);
    MPI_Barrier(world);
    for (int i = 0; i < count; ++i)
        if (!strcmp(scenarios[i].name, argv[1])) scenarios[i].run();
    MPI_Finalize();
    printf("survived %d\n", rank);
    return 0;
}
