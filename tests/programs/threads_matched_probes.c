/* Goal: messages that many threads take by MPI_Improbe and MPI_Imrecv arrive once, whole, in order.
 * Method: thread t of each rank sends to thread t of the next by the tag t, by standard and
 * synchronous sends of several lengths, and receives what its own tag brings.
 */
#include "check.h"

#include <pthread.h>

enum { kThreads = 8, kMessages = 20, kMost = 20000 };
static const int lengths[] = {0, 1, 10, 500, 5000, kMost};
static int faults[kThreads];

static int length_of(int thread, int number) { return lengths[(thread * 5 + number * 7) % 6]; }

static void send_next(int thread, int number, int* data, MPI_Request* sent) {
    int i, n = length_of(thread, number), to = (check_rank + 1) % check_size;
    for (i = 0; i < n; ++i) data[i] = number + i;
    if (number % 2) MPI_Issend(data, n, MPI_INT, to, thread, MPI_COMM_WORLD, sent);
    else MPI_Isend(data, n, MPI_INT, to, thread, MPI_COMM_WORLD, sent);
}

/* One more, if it is there. */
static int receive_next(int thread, int number, int* data) {
    int i, n, found, over = 0;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    MPI_Improbe(MPI_ANY_SOURCE, thread, MPI_COMM_WORLD, &found, &message, &status);
    if (!found) return 0;
    MPI_Get_count(&status, MPI_INT, &n);
    MPI_Imrecv(data, n, MPI_INT, &message, &request);
    if (number % 3 == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    else while (!over) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    faults[thread] += n != length_of(thread, number);
    for (i = 0; i < n; ++i)
        if (data[i] != number + i) ++faults[thread];
    return 1;
}

static void* run(void* argument) {
    int thread = (int)(intptr_t)argument, sent = 0, received = 0, over;
    int *out = malloc(kMost * sizeof(int)), *in = malloc(kMost * sizeof(int));
    MPI_Request request = MPI_REQUEST_NULL;
    while (sent < kMessages || received < kMessages || request != MPI_REQUEST_NULL) {
        if (sent < kMessages && request == MPI_REQUEST_NULL) send_next(thread, sent++, out, &request);
        if (request != MPI_REQUEST_NULL) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
        if (received < kMessages) received += receive_next(thread, received, in);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char** argv) {
    int provided, i;
    pthread_t threads[kThreads];
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return 1;
    begin_program();
    CHECK_EQ(MPI_THREAD_MULTIPLE, provided);
    for (i = 0; i < kThreads; ++i)
        CHECK(pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i) == 0);
    for (i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    for (i = 0; i < kThreads; ++i) CHECK_EQ(0, faults[i]);
    return finish();
}
