/* Goal: MPI_THREAD_MULTIPLE: threads send, receive, probe and run collectives at the same time
 * (MPI-5.0 section 11.6). Method: each thread has its own tag and its own communicator; a ring of
 * messages with growing sizes, wildcard receives, matched probes, and collectives on the thread's
 * communicator; every value is checked.
 */
#include "check.h"
#include <pthread.h>

enum { threads = 4, rounds = 150, ints_max = 6000 };
struct task { int id; MPI_Comm comm; int errors; };

static int ring(struct task* t, int round, int* out, int* in) {
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    int n = 1 + (round * 37 + t->id * 911) % (ints_max - 1), i, errors = 0, count = -1;
    MPI_Request r[2];
    MPI_Status s;
    for (i = 0; i < n; ++i) out[i] = check_rank * 31 + t->id * 7 + round + i;
    if (round % 3 == 0) {
        MPI_Irecv(in, ints_max, MPI_INT, from, t->id, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, n, MPI_INT, to, t->id, MPI_COMM_WORLD, &r[1]);
        MPI_Wait(&r[0], &s);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    } else if (round % 3 == 1) {
        MPI_Isend(out, n, MPI_INT, to, t->id, t->comm, &r[0]);
        MPI_Recv(in, ints_max, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, t->comm, &s);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Message m;
        MPI_Isend(out, n, MPI_INT, to, t->id, MPI_COMM_WORLD, &r[0]);
        MPI_Mprobe(from, t->id, MPI_COMM_WORLD, &m, &s);
        MPI_Mrecv(in, ints_max, MPI_INT, &m, &s);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    }
    MPI_Get_count(&s, MPI_INT, &count);
    errors += count != n || s.MPI_SOURCE != from || s.MPI_TAG != t->id;
    for (i = 0; i < n; ++i) errors += in[i] != from * 31 + t->id * 7 + round + i;
    return errors;
}

static int collectives(struct task* t, int round) {
    int errors = 0, mine = check_rank + round + t->id, sum = 0, expected = 0, r, root;
    int value = -1;
    for (r = 0; r < check_size; ++r) expected += r + round + t->id;
    if (round % 2) {
        MPI_Request q;
        MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, t->comm, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
    } else {
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, t->comm);
    }
    errors += sum != expected;
    root = round % check_size;
    if (check_rank == root) value = round * 3 + t->id;
    MPI_Bcast(&value, 1, MPI_INT, root, t->comm);
    errors += value != round * 3 + t->id;
    return errors;
}

static void* work(void* argument) {
    struct task* t = argument;
    int *out = malloc(ints_max * sizeof(int)), *in = malloc(ints_max * sizeof(int)), round, flag;
    MPI_Comm twin;
    MPI_Is_thread_main(&flag);
    t->errors += flag != (t->id == 0);
    for (round = 0; round < rounds; ++round) {
        t->errors += ring(t, round, out, in);
        t->errors += collectives(t, round);
        if (round % 50 == 7) {
            MPI_Comm_dup(t->comm, &twin);
            MPI_Barrier(twin);
            MPI_Comm_free(&twin);
        }
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char** argv) {
    int provided = -1, level = -1, i;
    pthread_t ids[threads];
    struct task tasks[threads];
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return 1;
    begin_program();
    if (provided < MPI_THREAD_MULTIPLE) return skip("no MPI_THREAD_MULTIPLE");
    CHECK_OK(MPI_Query_thread(&level));
    CHECK_EQ(MPI_THREAD_MULTIPLE, level);
    for (i = 0; i < threads; ++i) {
        tasks[i].id = i;
        tasks[i].errors = 0;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &tasks[i].comm));
    }
    for (i = 1; i < threads; ++i) CHECK_EQ(0, pthread_create(&ids[i], NULL, work, &tasks[i]));
    work(&tasks[0]);
    for (i = 1; i < threads; ++i) CHECK_EQ(0, pthread_join(ids[i], NULL));
    for (i = 0; i < threads; ++i) {
        context("thread %d", i);
        CHECK_EQ(0, tasks[i].errors);
        CHECK_OK(MPI_Comm_free(&tasks[i].comm));
    }
    return finish();
}
