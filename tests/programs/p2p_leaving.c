/* Goal: a send whose receive is complete completes too, though its receiver does not call MPI again
 * (MPI-5.0 section 3.5), what was sent arrives though its sender does not, and members of a
 * collective that are through with it keep nobody waiting.
 * Method: rows of messages from rank 0 to rank 1, and collectives; who is through with them stays
 * outside MPI until all others are, which memory of all tells.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kRow = 5, kPatience = 2000, kSteps = 256, kBuffer = 16 << 20 };
enum { by_waitall, by_wait, by_testall, by_test, by_waitany, by_waitsome, by_recv, kWays };
static const char* names[] = {"Waitall", "Wait", "Testall", "Test", "Waitany", "Waitsome", "Recv"};
static const int lengths[] = {100, 3000, 12000, 20000, 100000, 700000}; /* of int */
enum { kLengths = sizeof lengths / sizeof *lengths, kMost = 700000 };
static int* through; /* in memory of all: ranks that are through with step i */
static int step;

static void share(void) {
    char file[] = "/tmp/pomona-leaving-XXXXXX";
    int descriptor = -1;
    if (check_rank == 0) {
        descriptor = mkstemp(file);
        CHECK(descriptor >= 0 && ftruncate(descriptor, kSteps * sizeof *through) == 0);
    }
    CHECK_OK(MPI_Bcast(file, sizeof file, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank != 0) descriptor = open(file, O_RDWR);
    through = mmap(NULL, kSteps * sizeof *through, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    CHECK(through != MAP_FAILED);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) unlink(file);
}

/* Outside MPI until so many ranks are through with this step. */
static void leave_until(int ranks) {
    int tries;
    __sync_fetch_and_add(&through[step], 1);
    for (tries = 0; tries < kPatience && __sync_fetch_and_add(&through[step], 0) < ranks; ++tries)
        usleep(10000);
    CHECK(tries < kPatience);
    ++step;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void end_row(int way, int row, MPI_Request* r) {
    int i, flag = 0, which, done = 0, some[kRow];
    if (way == by_waitall) CHECK_OK(MPI_Waitall(row, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < row && way == by_wait; ++i) CHECK_OK(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
    while (!flag && way == by_testall) CHECK_OK(MPI_Testall(row, r, &flag, MPI_STATUSES_IGNORE));
    for (i = 0; i < row && way == by_test; ++i)
        for (flag = 0; !flag;) CHECK_OK(MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE));
    for (i = 0; i < row && way == by_waitany; ++i)
        CHECK_OK(MPI_Waitany(row, r, &which, MPI_STATUS_IGNORE));
    while (done < row && way == by_waitsome) {
        CHECK_OK(MPI_Waitsome(row, r, &which, some, MPI_STATUSES_IGNORE));
        done += which;
    }
}

static void send_row(int way, int row, int n, int* data) {
    MPI_Request r[kRow];
    int i;
    context("%d messages of %d ints, received by MPI_%s", row, n, names[way]);
    for (i = 0; i < row && check_rank == 0; ++i)
        CHECK_OK(MPI_Isend(data + i * n, n, MPI_INT, 1, i, MPI_COMM_WORLD, &r[i]));
    for (i = 0; i < row && check_rank == 1 && way != by_recv; ++i)
        CHECK_OK(MPI_Irecv(data + i * n, n, MPI_INT, 0, i, MPI_COMM_WORLD, &r[i]));
    if (check_rank == 0) CHECK_OK(MPI_Waitall(row, r, MPI_STATUSES_IGNORE));
    if (check_rank == 1 && way != by_recv) end_row(way, row, r);
    for (i = 0; i < row && check_rank == 1 && way == by_recv; ++i)
        CHECK_OK(MPI_Recv(data + i * n, n, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (check_rank < 2) leave_until(2);
    else ++step, CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The receiver is late, so that not all messages have left when they are over for their sender. */
static void send_ahead(int number, int n, int* data) {
    MPI_Request r;
    int i, flag;
    context("%d messages of %d ints, sent before they are received", number, n);
    if (check_rank == 1) usleep(100000);
    for (i = 0; i < number && check_rank == 0; ++i) {
        if (i % 4 == 0) CHECK_OK(MPI_Send(data, n, MPI_INT, 1, i, MPI_COMM_WORLD));
        else if (i % 4 == 2) CHECK_OK(MPI_Bsend(data, n, MPI_INT, 1, i, MPI_COMM_WORLD));
        else CHECK_OK(MPI_Isend(data, n, MPI_INT, 1, i, MPI_COMM_WORLD, &r));
        if (i % 4 == 1) CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        for (flag = 0; !flag && i % 4 == 3;) CHECK_OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
    }
    for (i = 0; i < number && check_rank == 1; ++i)
        CHECK_OK(MPI_Recv(data, n, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (check_rank < 2) leave_until(2);
    else ++step, CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void collectives(int n, int* data) {
    int i, *out = malloc((size_t)(n * check_size) * sizeof *out);
    MPI_Request request;
    for (i = 0; i < 6; ++i) {
        context("collective %d of %d ints", i, n);
        if (i == 0) CHECK_OK(MPI_Allreduce(data, out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        if (i == 1)
            CHECK_OK(MPI_Reduce_scatter_block(data, out, n / check_size, MPI_INT, MPI_SUM,
                                              MPI_COMM_WORLD));
        if (i == 2) CHECK_OK(MPI_Allgather(data, n, MPI_INT, out, n, MPI_INT, MPI_COMM_WORLD));
        if (i == 3)
            CHECK_OK(MPI_Alltoall(data, n / check_size, MPI_INT, out, n / check_size, MPI_INT,
                                  MPI_COMM_WORLD));
        if (i == 4) {
            CHECK_OK(MPI_Iallreduce(data, out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (i == 5) CHECK_OK(MPI_Reduce(data, out, n, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
        leave_until(check_size);
    }
    free(out);
}

int main(int argc, char** argv) {
    int way, i;
    int* data = calloc(kRow * kMost, sizeof *data);
    void* buffer = malloc(kBuffer);
    start(&argc, &argv);
    share();
    CHECK_OK(MPI_Buffer_attach(buffer, kBuffer));
    for (i = 0; i < kLengths; ++i)
        for (way = 0; way < kWays && check_size > 1; ++way) {
            send_row(way, 1, lengths[i], data);
            send_row(way, kRow, lengths[i], data);
        }
    for (i = 0; i < 4 && check_size > 1; ++i)
        send_ahead(2000000 / lengths[i] / 4, lengths[i], data);
    if (check_size > 1) send_ahead(20000, 2, data);
    for (i = 0; i < kLengths; ++i) collectives(lengths[i], data);
    collectives(kRow * kMost, data);
    CHECK_OK(MPI_Buffer_detach(&buffer, &i));
    free(buffer);
    free(data);
    return finish();
}
