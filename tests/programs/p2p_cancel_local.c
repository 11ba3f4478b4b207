/* Goal: MPI_Wait for a send marked for cancellation returns whatever other processes do (MPI-5.0
 * section 3.8.4), and each such send is cancelled or received, never both.
 * Method: rank 1 has posted receives, or none, or has met the messages and goes on with none; then
 * it is outside MPI until a file tells it that rank 0 has waited for all sends that it cancelled,
 * of every length and mode. It hears which of them were cancelled, and receives the others.
 */
#include "check.h"

#include <unistd.h>

enum { kMost = 1 << 20, kSends = 24 };
enum { nothing_posted, posted, met, kCases };
static const int lengths[] = {0, 1, 30, 600, 3000, 50000, 200000, kMost};
static int* data[kSends];
static char files[3][200]; /* rank 0 has begun, rank 1 has looked, rank 0 is done */

static int length_of(int i) { return lengths[i % 8]; }
static int value(int i, int k) { return 1000 * i + k; }

static void signal_by(const char* file) {
    FILE* out = fopen(file, "w");
    CHECK(out && fclose(out) == 0);
}

static void wait_outside(const char* file) {
    int tries;
    for (tries = 0; tries < 2000 && access(file, F_OK) != 0; ++tries) usleep(10000);
    CHECK(tries < 2000);
}

static void begin(int i, MPI_Request* r) {
    int k, n = length_of(i);
    for (k = 0; k < n; ++k) data[i][k] = value(i, k);
    if (i % 3 == 0) CHECK_OK(MPI_Isend(data[i], n, MPI_INT, 1, i, MPI_COMM_WORLD, r));
    else if (i % 3 == 1) CHECK_OK(MPI_Issend(data[i], n, MPI_INT, 1, i, MPI_COMM_WORLD, r));
    else CHECK_OK(MPI_Ssend_init(data[i], n, MPI_INT, 1, i, MPI_COMM_WORLD, r));
    if (i % 3 == 2) CHECK_OK(MPI_Start(r));
}

/* True when the send was cancelled. */
static int end_by_cancelling(int i, MPI_Request* r) {
    int k, flag;
    MPI_Status status;
    CHECK_OK(MPI_Cancel(r));
    CHECK_OK(MPI_Wait(r, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    for (k = 0; k < length_of(i); ++k) data[i][k] = -1; /* nobody may read it any more */
    if (i % 3 == 2) CHECK_OK(MPI_Request_free(r));
    return flag;
}

static void send_and_cancel(int how) {
    int i, cancelled[kSends];
    MPI_Request r[kSends];
    for (i = 0; i < kSends; ++i) {
        begin(i, &r[i]);
        if (how != met) cancelled[i] = end_by_cancelling(i, &r[i]);
    }
    if (how == met) {
        signal_by(files[0]);
        wait_outside(files[1]);
        for (i = 0; i < kSends; ++i) cancelled[i] = end_by_cancelling(i, &r[i]);
    }
    if (how == nothing_posted)
        for (i = 0; i < kSends; ++i) CHECK(i % 3 == 0 || cancelled[i]);
    signal_by(files[2]);
    CHECK_OK(MPI_Send(cancelled, kSends, MPI_INT, 1, 99, MPI_COMM_WORLD));
}

static void receive_others(int how) {
    int i, k, flag, cancelled[kSends];
    MPI_Request r[kSends];
    MPI_Status status;
    for (i = 0; i < kSends && how != nothing_posted; ++i)
        CHECK_OK(MPI_Irecv(data[i], length_of(i), MPI_INT, 0, i, MPI_COMM_WORLD, &r[i]));
    if (how == met) {
        wait_outside(files[0]);
        for (i = 0; i < 30; ++i) CHECK_OK(MPI_Request_get_status(r[7], &flag, &status));
        signal_by(files[1]);
    }
    wait_outside(files[2]);
    CHECK_OK(MPI_Recv(cancelled, kSends, MPI_INT, 0, 99, MPI_COMM_WORLD, &status));
    for (i = 0; i < kSends; ++i) {
        context("case %d, send %d, %s", how, i, cancelled[i] ? "cancelled" : "sent");
        if (cancelled[i]) {
            if (how != nothing_posted) CHECK_OK(MPI_Cancel(&r[i]));
            if (how != nothing_posted) CHECK_OK(MPI_Wait(&r[i], &status));
            if (how != nothing_posted) CHECK_OK(MPI_Test_cancelled(&status, &flag));
            if (how != nothing_posted) CHECK(flag);
            CHECK_OK(MPI_Iprobe(0, i, MPI_COMM_WORLD, &flag, &status));
            CHECK(!flag);
            continue;
        }
        if (how == nothing_posted)
            CHECK_OK(MPI_Irecv(data[i], length_of(i), MPI_INT, 0, i, MPI_COMM_WORLD, &r[i]));
        CHECK_OK(MPI_Wait(&r[i], &status));
        CHECK_OK(MPI_Get_count(&status, MPI_INT, &k));
        CHECK_EQ(length_of(i), k);
        for (k = 0; k < length_of(i); ++k)
            if (data[i][k] != value(i, k)) break;
        CHECK_EQ(length_of(i), k);
    }
}

/* To oneself, where nobody else can be asked. `probed`: the message has been found before. */
static void to_oneself(int probed) {
    int i, flag;
    for (i = 0; i < kSends; ++i) {
        MPI_Request r;
        MPI_Status status;
        CHECK_OK(MPI_Issend(data[i], length_of(i), MPI_INT, check_rank, i, MPI_COMM_WORLD, &r));
        if (probed) CHECK_OK(MPI_Probe(check_rank, i, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Cancel(&r));
        CHECK_OK(MPI_Wait(&r, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag);
        CHECK_OK(MPI_Iprobe(check_rank, i, MPI_COMM_WORLD, &flag, &status));
        CHECK(!flag);
    }
}

int main(int argc, char** argv) {
    int i, how;
    start(&argc, &argv);
    for (i = 0; i < kSends; ++i) {
        data[i] = calloc(kMost, sizeof(int));
        if (!data[i]) return 1;
    }
    context("to oneself");
    to_oneself(0);
    to_oneself(1);
    for (how = 0; how < kCases && check_size >= 2; ++how) {
        int key = (int)getpid();
        context("case %d", how);
        CHECK_OK(MPI_Bcast(&key, 1, MPI_INT, 0, MPI_COMM_WORLD));
        for (i = 0; i < 3; ++i)
            snprintf(files[i], sizeof files[i], "/tmp/p2p_cancel_local.%d.%d.%d", key, how, i);
        if (check_rank == 0) send_and_cancel(how);
        if (check_rank == 1) receive_others(how);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (i = 0; i < 3 && check_rank == 0; ++i) remove(files[i]);
    }
    for (i = 0; i < kSends; ++i) free(data[i]);
    return finish();
}
