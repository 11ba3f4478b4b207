/* Goal: waiting for buffered sends (MPI-5.0 section 3.6) keeps nobody else up: MPI_Buffer_iflush
 * returns at once, its request completes when what was sent before it has left, and buffered sends
 * go on while another thread is in MPI_Buffer_flush. Method: messages too long to leave by
 * themselves, which rank 1 receives only when rank 0 has done what would hang if flushing kept a
 * lock.
 */
#include "check.h"

#if MPI_AT_LEAST(4, 1)
#include <pthread.h>
#include <time.h>

enum { ints = 1 << 20, room = ints * 4 + MPI_BSEND_OVERHEAD };
static int data[ints], in[ints];

static void go(int tag) {
    char word = 1;
    CHECK_OK(MPI_Send(&word, 1, MPI_CHAR, 1, tag, MPI_COMM_WORLD));
}
static void wait_for_go(int tag) {
    char word;
    CHECK_OK(MPI_Recv(&word, 1, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}
static void take(int tag) {
    CHECK_OK(MPI_Recv(in, ints, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(tag, in[0]);
    CHECK_EQ(tag, in[ints - 1]);
}
static void give(int tag, int count) {
    data[0] = data[ints - 1] = tag;
    CHECK_OK(MPI_Bsend(data, count, MPI_INT, 1, tag, MPI_COMM_WORLD));
}

/* Two requests: each for what was sent before it. */
static void requests(void) {
    MPI_Request first, second, none;
    int flag = -1;
    context("iflush");
    if (check_rank == 1) {
        wait_for_go(1);
        take(2);
        wait_for_go(3);
        take(4);
        return;
    }
    CHECK_OK(MPI_Buffer_iflush(&none));
    CHECK_OK(MPI_Wait(&none, MPI_STATUS_IGNORE));
    give(2, ints);
    CHECK_OK(MPI_Buffer_iflush(&first));
    give(4, ints);
    CHECK_OK(MPI_Buffer_iflush(&second));
    CHECK_OK(MPI_Test(&first, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(0, flag);
    go(1);
    CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Test(&second, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(0, flag);
    go(3);
    CHECK_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
}

static void* flush(void* reached) {
    (void)reached;
    CHECK_OK(MPI_Buffer_flush());
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    int i;
    context("a thread that flushes");
    if (check_rank == 1) {
        for (i = 0; i < 20; ++i) {
            CHECK_OK(MPI_Recv(in, ints, MPI_INT, 0, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(100 + i, in[0]);
        }
        wait_for_go(5);
        take(6);
        return;
    }
    give(6, ints);
    CHECK_EQ(0, pthread_create(&thread, NULL, flush, NULL));
    for (i = 0; i < 20; ++i) {
        struct timespec pause = {0, 2000000};
        give(100 + i, 1);
        nanosleep(&pause, NULL); /* the other thread gets there */
    }
    go(5);
    CHECK_EQ(0, pthread_join(thread, NULL));
}
#endif

int main(int argc, char** argv) {
    int provided = 0;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    begin_program();
    if (provided != MPI_THREAD_MULTIPLE) return skip("no MPI_THREAD_MULTIPLE");
#if MPI_AT_LEAST(4, 1)
    {
        static char buffer[2 * room + 21 * (4 + MPI_BSEND_OVERHEAD)];
        void* back;
        int size;
        CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
        requests();
        threads();
        CHECK_OK(MPI_Buffer_detach(&back, &size));
        CHECK_EQ(sizeof buffer, size);
    }
#endif
    return finish();
}
