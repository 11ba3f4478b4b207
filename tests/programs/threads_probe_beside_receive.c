/* Goal: a thread that probes in a loop for what never comes, tests, or sends to itself, keeps no
 * other one from the library, also where they share a core. Method: it does so while another thread
 * of each rank exchanges messages with a neighbour; where it kept the library, each took many turns
 * of the system's scheduler.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

/* Who sends to itself never waits, so it keeps its core for a turn at each message. */
enum { kRounds = 2000, kBesideSender = 600 };
static atomic_int over;

static void* probe(void* argument) {
    int found = 0;
    while (!atomic_load(&over) && !found)
        MPI_Iprobe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    *(int*)argument = found;
    return NULL;
}

static void* test(void* argument) {
    int value, found = 0;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request);
    while (!atomic_load(&over) && !found) MPI_Test(&request, &found, MPI_STATUS_IGNORE);
    *(int*)argument = found;
    if (found) return NULL;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return NULL;
}

static void* speak(void* argument) {
    int value = 0, heard = 0;
    MPI_Request request;
    while (!atomic_load(&over)) {
        MPI_Irecv(&heard, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &request);
        MPI_Send(&value, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    *(int*)argument = heard;
    return NULL;
}

static void exchange_beside(void* (*looks)(void*), int rounds) {
    const int peer = check_rank ^ 1;
    int i, value = -1, found = 1;
    pthread_t thread;
    atomic_store(&over, 0);
    CHECK(pthread_create(&thread, NULL, looks, &found) == 0);
    for (i = 0; i < rounds && peer < check_size; ++i) {
        if (i % 2 == check_rank % 2) {
            MPI_Send(&i, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQ(i, value);
        }
    }
    atomic_store(&over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(0, found);
}

int main(int argc, char** argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    begin_program();
    if (provided == MPI_THREAD_MULTIPLE) {
        exchange_beside(probe, kRounds);
        exchange_beside(test, kRounds);
        exchange_beside(speak, kBesideSender);
    }
    return finish();
}
