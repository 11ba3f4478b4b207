/* Goal: MPI_Init_thread grants a level in order with what was asked, MPI_Query_thread agrees, and a
 * wait in one thread does not keep another from finishing it (MPI-5.0 section 11.6.2). Method: the
 * level is the argument's; one thread blocks in receive, probe and wait for a message that another
 * thread of the same process sends later.
 */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static int got[3];

static void* receiver(void* unused) {
    MPI_Request r;
    (void)unused;
    MPI_Recv(&got[0], 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Probe(check_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&got[2], 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static int level_of(const char* name) {
    if (strcmp(name, "single") == 0) return MPI_THREAD_SINGLE;
    if (strcmp(name, "funneled") == 0) return MPI_THREAD_FUNNELED;
    if (strcmp(name, "serialized") == 0) return MPI_THREAD_SERIALIZED;
    return MPI_THREAD_MULTIPLE;
}

int main(int argc, char** argv) {
    int wanted = level_of(argc > 1 ? argv[1] : "multiple"), provided = -1, found = -1, i;
    pthread_t thread;
    if (MPI_Init_thread(&argc, &argv, wanted, &provided) != MPI_SUCCESS) return 1;
    begin_program();
    CHECK(provided == MPI_THREAD_SINGLE || provided == MPI_THREAD_FUNNELED ||
          provided == MPI_THREAD_SERIALIZED || provided == MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Query_thread(&found));
    CHECK_EQ(provided, found);
    if (provided == MPI_THREAD_MULTIPLE) {
        CHECK_EQ(0, pthread_create(&thread, NULL, receiver, NULL));
        for (i = 1; i <= 3; ++i) {
            int value = 10 * i;
            usleep(20000);
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, i, MPI_COMM_WORLD));
        }
        CHECK_EQ(0, pthread_join(thread, NULL));
        for (i = 0; i < 3; ++i) CHECK_EQ(10 * (i + 1), got[i]);
    }
    return finish();
}
