/* Goal: buffered sends (MPI-5.0 section 3.6): attach, detach that waits for delivery, exhaustion,
 * reuse of room, automatic buffering and flush where the library has MPI 4.1. Method: messages that
 * no one receives yet; the receiver checks them after the sender detached and overwrote its
 * buffers.
 */
#include "check.h"

#include <unistd.h>

enum { messages = 20, n = 500 };

static void detach_delivers(void) {
    int bytes = messages * (n * 4 + MPI_BSEND_OVERHEAD), i, k, size = 0, data[n], in[n];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    void *buffer = malloc((size_t)bytes), *back = NULL;
    MPI_Request r[messages];
    int got[messages][n];
    context("detach delivers");
    CHECK_OK(MPI_Buffer_attach(buffer, bytes));
    for (i = 0; i < messages; ++i) {
        for (k = 0; k < n; ++k) data[k] = check_rank * 100000 + i * 1000 + k;
        CHECK_OK(MPI_Bsend(data, n, MPI_INT, to, i, MPI_COMM_WORLD));
        memset(data, 0, sizeof data);
    }
    /* Detach blocks until delivery, so the receives are posted first. */
    for (i = 0; i < messages; ++i) {
        CHECK_OK(MPI_Irecv(got[i], n, MPI_INT, from, i, MPI_COMM_WORLD, &r[i]));
    }
    CHECK_OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    CHECK_EQ(bytes, size);
    memset(buffer, 0xff, (size_t)bytes);
    CHECK_OK(MPI_Waitall(messages, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < messages; ++i) {
        for (k = 0; k < n; ++k) in[k] = from * 100000 + i * 1000 + k;
        CHECK_MEM(in, got[i], sizeof in);
    }
    free(buffer);
}

static void exhausted(void) {
    int bytes = 2 * (n * 4 + MPI_BSEND_OVERHEAD), size, value[n] = {1}, in[n], k;
    void *buffer = malloc((size_t)bytes), *back;
    MPI_Comm twin;
    context("buffer exhausted");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Buffer_attach(buffer, bytes));
    CHECK(MPI_Buffer_attach(buffer, bytes) != MPI_SUCCESS);
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bsend(buffer, bytes + 1, MPI_CHAR, check_rank, 1, twin));
    for (k = 0; k < 50; ++k) {
        CHECK_OK(MPI_Bsend(value, n, MPI_INT, check_rank, 1, twin));
        CHECK_OK(MPI_Recv(in, n, MPI_INT, check_rank, 1, twin, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Buffer_detach(&back, &size));
    CHECK_EQ(bytes, size);
    CHECK_CLASS(MPI_ERR_BUFFER, MPI_Bsend(value, n, MPI_INT, check_rank, 1, twin));
    CHECK_OK(MPI_Comm_free(&twin));
    free(buffer);
}

/* What rank 0 knows from rank 2 has been received has left the buffer, though rank 1 is outside MPI
 * since. */
static void received_elsewhere(void) {
    enum { length = 150001, rounds = 40 };
    int bytes = length + MPI_BSEND_OVERHEAD, size, i, token = 0;
    char *data = calloc(1, length), *buffer = malloc((size_t)bytes);
    void* back;
    context("received elsewhere");
    if (check_rank == 0) CHECK_OK(MPI_Buffer_attach(buffer, bytes));
    for (i = 0; i < rounds; ++i) {
        if (check_rank == 0) {
            int code = MPI_Bsend(data, length, MPI_CHAR, 1, i, MPI_COMM_WORLD);
            CHECK_EQ(MPI_SUCCESS, code);
            if (code) CHECK_OK(MPI_Send(data, length, MPI_CHAR, 1, i, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(&token, 1, MPI_INT, 2, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (check_rank == 1) {
            CHECK_OK(MPI_Recv(data, length, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Send(&token, 1, MPI_INT, 2, i, MPI_COMM_WORLD));
            usleep(5000);
        } else if (check_rank == 2) {
            CHECK_OK(MPI_Recv(&token, 1, MPI_INT, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Send(&token, 1, MPI_INT, 0, i, MPI_COMM_WORLD));
        }
    }
    if (check_rank == 0) CHECK_OK(MPI_Buffer_detach(&back, &size));
    free(data);
    free(buffer);
}

#if MPI_AT_LEAST(4, 1)
static void automatic(void) {
    int value = 7, got = 0, size = -1;
    void* back = NULL;
    MPI_Comm twin;
    MPI_Request r;
    char room[4096];
    context("automatic buffering");
    CHECK_OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    CHECK_OK(MPI_Bsend(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    value = 0;
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(7, got);
    CHECK_OK(MPI_Buffer_flush());
    CHECK_OK(MPI_Buffer_iflush(&r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    context("buffer of a communicator");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_attach_buffer(twin, room, sizeof room));
    value = 9;
    CHECK_OK(MPI_Bsend(&value, 1, MPI_INT, check_rank, 1, twin));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, check_rank, 1, twin, MPI_STATUS_IGNORE));
    CHECK_EQ(9, got);
    CHECK_OK(MPI_Comm_flush_buffer(twin));
    CHECK_OK(MPI_Comm_iflush_buffer(twin, &r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_detach_buffer(twin, &back, &size));
    CHECK(back == (void*)room);
    CHECK_EQ(sizeof room, size);
    CHECK_OK(MPI_Comm_free(&twin));
}
#endif

int main(int argc, char** argv) {
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    detach_delivers();
    MPI_Barrier(MPI_COMM_WORLD);
    exhausted();
    if (check_size > 2) received_elsewhere();
#if MPI_AT_LEAST(4, 1)
    automatic();
#endif
    return finish();
}
