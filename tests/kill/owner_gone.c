/* tests/kill/owner_gone.c: ranks that go by another rank's queue pairs (docs/thunderbolt.md) lose
 * it.
 * Goal: when the owner is killed, or stands still, in mid-job, the messages of the others arrive by
 * TCP, all bytes right; who needs the dead one itself gets an error that names it; and who stood
 * still is used again. Method: argument 1 names the scenario (without arguments: lists them); four
 * ranks on each of two "machines" (machine.sh), of which 0 and 4 own queue pairs for the three
 * pairs that exchange messages here: that these go by them a counter tells, of which both ends
 * know. Who found all as expected prints "survived RANK"; survive.py reads that. */
#include "survived.h"

#include <mpi.h>
#include <mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH 150000

enum { owner = 0, far_owner = 4, ranks = 8, last = 300, before = 301, quiet_rounds = 10 };

static int partner;
static MPI_Comm world;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;
static unsigned char in[LENGTH], out[LENGTH];

static unsigned long long carried(void) {
    unsigned long long value = 0;
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    return value;
}

/* One message each way, with a short one before it. What both say is so: does this rank say so? */
static int exchange(int said) {
    static int round;
    int theirs = -1;
    CHECK(MPI_Sendrecv(&said, 1, MPI_INT, partner, 1, &theirs, 1, MPI_INT, partner, 1, world,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ++round;
    for (int i = 0; i < LENGTH; ++i) out[i] = (unsigned char)(rank + round * 7 + i * (i >> 7));
    CHECK(MPI_Sendrecv(out, LENGTH, MPI_BYTE, partner, 2, in, LENGTH, MPI_BYTE, partner, 2, world,
                       MPI_STATUS_IGNORE) == MPI_SUCCESS);
    for (int i = 0; i < LENGTH; ++i)
        CHECK(in[i] == (unsigned char)(partner + round * 7 + i * (i >> 7)));
    return said && theirs;
}

/* Until what both send goes by the owners' queue pairs. */
static void exchange_by_owner(void) {
    for (int by_owner = 0; !exchange(by_owner);) {
        unsigned long long begin = carried();
        exchange(0);
        by_owner = carried() - begin >= LENGTH;
    }
}

/* Until nothing of either does for some rounds, which are the messages that TCP carries. */
static void exchange_by_tcp(void) {
    for (int by_tcp = 0; !exchange(by_tcp);) {
        unsigned long long begin = carried();
        for (int i = 0; i < quiet_rounds; ++i) exchange(0);
        by_tcp = carried() == begin;
    }
}

/* It dies while all others exchange messages. */
static void killed(void) {
    int word = 0, length = 0;
    char text[MPI_MAX_ERROR_STRING];
    if (partner) exchange_by_owner();
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
    if (rank == owner) {
        MPI_Recv(&word, 1, MPI_INT, 1, before, world, MPI_STATUS_IGNORE);
        raise(SIGKILL);
    }
    if (partner) {
        exchange(0);
        if (rank == 1) CHECK(MPI_Send(&word, 1, MPI_INT, owner, before, world) == MPI_SUCCESS);
        exchange_by_tcp();
    }
    int code = MPI_Recv(&word, 1, MPI_INT, owner, last, world, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && strstr(text, "peer 0"));
    if (partner) exchange_by_tcp();
}

/* It is stopped until the others have gone on without it, and then used again. */
static void stopped(void) {
    int process = (int)getpid(), word = 0;
    CHECK(MPI_Bcast(&process, 1, MPI_INT, owner, world) == MPI_SUCCESS);
    if (partner) exchange_by_owner();
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
    if (!partner) return; /* to the barrier of MPI_Finalize */
    if (rank == 1) CHECK(kill(process, SIGSTOP) == 0);
    exchange_by_tcp();
    if (rank != 1) {
        CHECK(MPI_Send(&word, 1, MPI_INT, 1, last, world) == MPI_SUCCESS);
    } else {
        for (int other = 2; other < ranks; ++other)
            if (other != far_owner)
                CHECK(MPI_Recv(&word, 1, MPI_INT, other, last, world, MPI_STATUS_IGNORE) ==
                      MPI_SUCCESS);
        CHECK(kill(process, SIGCONT) == 0);
    }
    exchange_by_owner();
}

static void tell_cables(const char *command) {
    char line[4096];
    snprintf(line, sizeof line, "\"$build/tests/fake_verbs\" \"$fabric\" '%s * *'", command);
    CHECK(system(line) == 0);
}

/* Its cable is pulled until all have gone on without it, and then used again. */
static void unplugged(void) {
    if (partner) exchange_by_owner();
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
    if (rank == 1) tell_cables("pull");
    if (partner) exchange_by_tcp();
    CHECK(MPI_Barrier(world) == MPI_SUCCESS);
    if (rank == 1) tell_cables("plug");
    if (partner) exchange_by_owner();
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"killed", killed}, {"stopped", stopped}, {"unplugged", unplugged}};

int main(int argc, char **argv) {
    static const int partners[ranks] = {0, 6, 7, 5, 0, 3, 1, 2};
    const int count = (int)(sizeof scenarios / sizeof *scenarios);
    int provided, size, index, values;
    for (int i = 0; argc < 2 && i < count; ++i) puts(scenarios[i].name);
    if (argc < 2) return 0;
    MPI_Init(&argc, &argv);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    CHECK(size == ranks);
    partner = partners[rank];
    CHECK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN) == MPI_SUCCESS);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("carried_bytes", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &values) == MPI_SUCCESS);
    MPI_Barrier(world);
    for (int i = 0; i < count; ++i)
        if (!strcmp(scenarios[i].name, argv[1])) scenarios[i].run();
    MPI_T_finalize();
    MPI_Finalize();
    printf("survived %d\n", rank);
    return 0;
}
