// tests/launch/waits.c: ranks that wait for each other in the ways that test_waits.py looks for.
// Usage: waits HOW FILE. Whoever is to come late does something else than MPI until FILE exists; ranks of a
// deadlock wait until somebody ends the job.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static const char* file;

static void make_file(const char* ending) {
    char name[4096];
    snprintf(name, sizeof name, "%s%s", file, ending);
    fclose(fopen(name, "w"));
}

static void stay_away(void) {
    make_file(".away");
    while (access(file, F_OK) != 0) usleep(1000);
}

// Until the other rank has left MPI: what is sent before may come in while it still ends a call.
static void await_away(void) {
    char name[4096];
    snprintf(name, sizeof name, "%s.away", file);
    while (access(name, F_OK) != 0) usleep(1000);
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

// One test in vain after the other, in many forms; returns when what is tested is over.
static void test(const char* how, int source) {
    int into[2], index, outcount, indices[2], flag = 0;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Message message = MPI_MESSAGE_NULL;
    int probes = strstr(how, "probe") != NULL, two = strstr(how, "all") || strstr(how, "some");
    for (int i = 0; !probes && i <= two; ++i)
        MPI_Irecv(&into[i], 1, MPI_INT, source, 12 + i, MPI_COMM_WORLD, &requests[i]);
    while (!flag) {
        if (strcmp(how, "test") == 0) MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
        else if (strcmp(how, "test_rarely") == 0)
            usleep(20000), MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
        else if (strcmp(how, "testall") == 0)
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        else if (strcmp(how, "testany") == 0)
            MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
        else if (strcmp(how, "testsome") == 0)
            MPI_Testsome(2, requests, &outcount, indices, MPI_STATUSES_IGNORE), flag = outcount;
        else if (strcmp(how, "test_status") == 0)
            MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
        else if (strcmp(how, "iprobe") == 0)
            MPI_Iprobe(source, 12, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        else MPI_Improbe(source, 12, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    }
    if (message != MPI_MESSAGE_NULL) MPI_Mrecv(into, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    else if (probes) receive(source, 12);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (!two) receive(source, 13);
}

// Tests in vain for one message while it exchanges others: it is at work.
static void test_busily(int other) {
    int into, flag = 0, done = 0;
    MPI_Request request;
    MPI_Irecv(&into, 1, MPI_INT, other, 12, MPI_COMM_WORLD, &request);
    while (!done) {
        int gone = access(file, F_OK) == 0, theirs;
        MPI_Request step;
        MPI_Irecv(&theirs, 1, MPI_INT, other, 14, MPI_COMM_WORLD, &step);
        MPI_Send(&gone, 1, MPI_INT, other, 14, MPI_COMM_WORLD);
        do {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            MPI_Test(&step, &flag, MPI_STATUS_IGNORE);
        } while (!flag);
        done = gone && theirs;
        usleep(1000);
    }
    send(other, 12);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Rank 0 sends 64 KiB again and again, rank 1 takes them, and both add up 256 KiB.
static void exchange(int other) {
    static char text[1 << 16];
    static double some[1 << 15], sums[1 << 15];
    for (int gone = 0; !gone;) {
        if (rank == 0) {
            gone = access(file, F_OK) == 0;
            text[0] = (char)gone;
            MPI_Send(text, sizeof text, MPI_CHAR, other, 15, MPI_COMM_WORLD);
        } else {
            MPI_Recv(text, sizeof text, MPI_CHAR, other, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            gone = text[0];
        }
        MPI_Allreduce(some, sums, 1 << 15, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        usleep(1000);
    }
}

// Rank 0 accepts, or rank 1 connects, and the other one comes late.
static void at_a_port(int late) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == late) stay_away();
    if (rank == 0) MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    if (rank == 1) MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    MPI_Comm_disconnect(&other);
    if (rank == 0) MPI_Close_port(port);
}

// The window of the ways that need one.
static void one_sided(const char* how) {
    int* memory;
    MPI_Win window;
    MPI_Group world, others;
    int own = 0;
    if (strcmp(how, "win_flush") == 0 || strcmp(how, "win_lock_created") == 0)
        MPI_Win_create(&own, sizeof own, sizeof own, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    else
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int other = 1 - rank;
    MPI_Group_incl(world, 1, &other, &others);
    if (strcmp(how, "win_fence") == 0) {
        if (rank == 1) stay_away();
        MPI_Win_fence(0, window);
        MPI_Win_fence(0, window);
    } else if (strncmp(how, "win_lock", 8) == 0) {  // rank 1 holds it
        if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        if (rank == 1) MPI_Barrier(MPI_COMM_WORLD), stay_away();
        int value = 1;
        MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
        MPI_Win_unlock(1, window);
    } else if (strcmp(how, "win_flush") == 0) {  // needs rank 1 in MPI
        MPI_Win_lock_all(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) stay_away();
        else await_away();
        int value = 1, old;
        if (rank == 0) MPI_Fetch_and_op(&value, &old, MPI_INT, 1, 0, MPI_SUM, window);
        if (rank == 0) MPI_Win_flush(1, window);
        MPI_Win_unlock_all(window);
    } else if (strcmp(how, "win_wait") == 0 || strcmp(how, "win_test") == 0) {
        int over = 0;
        if (rank == 0) MPI_Win_post(others, 0, window);
        if (rank == 1) MPI_Win_start(others, 0, window), stay_away(), MPI_Win_complete(window);
        while (rank == 0 && how[4] == 't' && !over) MPI_Win_test(window, &over);
        if (rank == 0 && how[4] == 'w') MPI_Win_wait(window);
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

// What holds a lock that another one waits for never gives it back.
static void locks(const char* how) {
    int *memory[2], other = (rank + 1) % size;
    MPI_Win windows[2];
    for (int i = 0; i < 2; ++i) {
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[i], &windows[i]);
        MPI_Win_set_name(windows[i], i ? "the lower table" : "the upper table");
    }
    if (strcmp(how, "lock_orders") == 0) {  // two windows in opposite orders
        if (rank < 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[rank]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank < 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[1 - rank]);
    } else if (strcmp(how, "lock_all") == 0) {  // rank 1 has one part, and waits for rank 0
        if (rank == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, windows[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) MPI_Win_lock_all(0, windows[0]);
        else receive(0, 9);
    } else if (strcmp(how, "lock_line") == 0) {  // behind those that wait, too
        if (rank == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, windows[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) receive(2, 9);
        if (rank == 2) usleep(300000);
        MPI_Win_lock(rank == 1 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 1, 0, windows[0]);
    } else {  // "lock_late": nobody is stuck: the last one holds it and computes
        if (rank == size - 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1) compute();
        else MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[0]);
        MPI_Win_unlock(0, windows[0]);
        if (rank == size - 1) send(other, 9);
        if (rank == 0) receive(size - 1, 9);
    }
    for (int i = 0; i < 2; ++i) MPI_Win_free(&windows[i]);
}

static void* receive_beside(void* next) { return receive(*(int*)next, 10), NULL; }

static void* compute_beside(void* next) { return compute(), send(*(int*)next, 9), NULL; }

// Has called MPI before it computes.
static void* call_and_compute(void* next) {
    int flag;
    MPI_Iprobe(*(int*)next, 17, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return compute_beside(next);
}

// Each rank receives from the next one, and besides:
static void threads(const char* how, int next) {
    pthread_t thread;
    void* (*beside)(void*) = strcmp(how, "threads_two") == 0    ? receive_beside
                             : strcmp(how, "threads_idle") == 0 ? compute_beside
                                                                : call_and_compute;
    if (strcmp(how, "threads_one") != 0) pthread_create(&thread, NULL, beside, &next);
    receive(next, 9);
    if (strcmp(how, "threads_one") != 0) pthread_join(thread, NULL);
}

int main(int count, char** words) {
    alarm(300); /* its test may have been killed, and it may compute */
    int level = MPI_THREAD_SINGLE;
    if (strncmp(words[1], "threads", 7) == 0) level = MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&count, &words, level, &level);
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
    if (rank == 0) make_file(".begun");
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
    } else if (strncmp(how, "threads", 7) == 0) {
        threads(how, next);
    } else if (strcmp(how, "mismatch") == 0) {  // in opposite orders
        MPI_Barrier(rank == 0 ? MPI_COMM_WORLD : other);
        MPI_Barrier(rank == 0 ? other : MPI_COMM_WORLD);
    } else if (strcmp(how, "mismatch_long") == 0) {
        static double from[1 << 18], to[1 << 18];
        for (int i = 0; i < 2; ++i)
            if (i == rank)
                MPI_Allreduce(from, to, 1 << 18, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            else MPI_Bcast(from, 1 << 18, MPI_DOUBLE, 0, other);
    } else if (strcmp(how, "absent") == 0) {  // rank 0 waits for what the last one would send after that
        if (rank == last) receive(0, 10);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) send(last, 10);
    } else if (strncmp(how, "win_", 4) == 0) {
        one_sided(how);
    } else if (strncmp(how, "lock_", 5) == 0) {
        locks(how);
    } else if (strcmp(how, "test_circle") == 0) {  // all test
        test("test", next);
    } else if (strcmp(how, "improbe_quiet") == 0) {
        MPI_Info info;
        MPI_Comm quiet;
        MPI_Message message;
        int found = 0, from;
        MPI_Info_create(&info);
        MPI_Info_set(info, "pomona_quiet", "true");
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &quiet);
        MPI_Info_free(&info);
        if (rank > 0) stay_away(), MPI_Send(&rank, 1, MPI_INT, 0, 14, quiet);
        while (rank == 0 && !found)
            MPI_Improbe(MPI_ANY_SOURCE, 14, quiet, &found, &message, MPI_STATUS_IGNORE);
        if (rank == 0) MPI_Mrecv(&from, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        MPI_Comm_free(&quiet);
    } else if (strcmp(how, "test_mixture") == 0) {  // rank 0 waits, the others test
        if (rank == 0) receive(next, 9);
        else test(rank == 1 ? "iprobe" : "testall", next);
    } else if (strcmp(how, "exchange") == 0) {
        exchange(1 - rank);
    } else if (strcmp(how, "test_busily") == 0) {
        test_busily(1 - rank);
    } else if (strcmp(how, "test_then_compute") == 0) {  // rank 1 goes on by itself
        char tested[4096];
        snprintf(tested, sizeof tested, "%s.tested", file);
        while (rank == 1 && access(tested, F_OK) != 0) usleep(1000);
        if (rank == 1) send(0, 12), send(0, 13), stay_away(), send(0, 14);
        if (rank == 0) test("test", 1), compute(), receive(1, 14);
    } else if (strncmp(how, "test", 4) == 0 || strcmp(how, "iprobe") == 0 ||
               strcmp(how, "improbe") == 0) {
        if (rank == 0) test(how, 1);
        if (rank == 1) stay_away(), send(0, 12), send(0, 13);
    } else if (strcmp(how, "accept") == 0) {
        at_a_port(1);
    } else if (strcmp(how, "connect") == 0) {
        at_a_port(0);
    } else if (strcmp(how, "finalize") == 0) {
        if (rank == last) stay_away();
    }
    MPI_Comm_free(&other);
    MPI_Finalize();
    if (rank == 0) puts("over");
    return 0;
}
