/* Goal: messages around and far above the limit where senders ask first: every way a receive can
 * meet them. Method: lengths at the limits of the transports, contents that name their place,
 * receives posted before and after, wildcards, probes, types with gaps on either side, buffers too
 * short, synchronous sends, windows in both directions, data changed between calls. Ranks above 1
 * only come to the barriers (chain.sh: they stand between the others).
 */
#include "counter.h"

static const int lengths[] = {16383, 16384, 16385, 65536, 65537, 131071, 262144, 700001, 3 << 20};
enum { length_count = sizeof lengths / sizeof lengths[0], most = 3 << 20, window = 8 };

static unsigned char byte_of(int seed, size_t i) {
    return (unsigned char)(i * 7 + (size_t)seed * 31 + (i >> 9));
}
static void fill(unsigned char* data, int length, int seed) {
    for (int i = 0; i < length; ++i) data[i] = byte_of(seed, (size_t)i);
}
/* The first place that differs, or -1. */
static int differs(const unsigned char* data, int length, int seed) {
    for (int i = 0; i < length; ++i)
        if (data[i] != byte_of(seed, (size_t)i)) return i;
    return -1;
}

static void receive_forms(unsigned char* data, int length, int form) {
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    int count = -1, seed = length + form;
    context("%d bytes, form %d", length, form);
    if (check_rank == 0) {
        fill(data, length, seed);
        if (form == 2) CHECK_OK(MPI_Ssend(data, length, MPI_BYTE, 1, form, MPI_COMM_WORLD));
        else CHECK_OK(MPI_Send(data, length, MPI_BYTE, 1, form, MPI_COMM_WORLD));
        memset(data, 0, (size_t)length); /* the send is over: the receiver has its copy */
        return;
    }
    memset(data, 0xee, (size_t)length + 1);
    switch (form) {
    case 0:
    case 2: CHECK_OK(MPI_Recv(data, length, MPI_BYTE, 0, form, MPI_COMM_WORLD, &status)); break;
    case 1:
        CHECK_OK(MPI_Recv(data, length + 1, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                          &status));
        break;
    case 3:
        CHECK_OK(MPI_Mprobe(0, form, MPI_COMM_WORLD, &message, &status));
        CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(length, count);
        CHECK_OK(MPI_Imrecv(data, length, MPI_BYTE, &message, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        break;
    }
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(length, count);
    CHECK_EQ(0, status.MPI_SOURCE);
    CHECK_EQ(-1, differs(data, length, seed));
    CHECK_EQ(0xee, data[length]);
}

/* Every second byte on one side. */
static void with_gaps(unsigned char* data, int length, int gaps_at) {
    MPI_Datatype spread;
    int half = length / 2;
    context("%d bytes, gaps at rank %d", half, gaps_at);
    CHECK_OK(MPI_Type_vector(half, 1, 2, MPI_BYTE, &spread));
    CHECK_OK(MPI_Type_commit(&spread));
    if (check_rank == 0) {
        fill(data, length, 5);
        if (gaps_at == 0) CHECK_OK(MPI_Send(data, 1, spread, 1, 5, MPI_COMM_WORLD));
        else CHECK_OK(MPI_Send(data, half, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
    } else {
        int wrong = 0;
        memset(data, 0, (size_t)length);
        if (gaps_at == 1)
            CHECK_OK(MPI_Recv(data, 1, spread, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else CHECK_OK(MPI_Recv(data, half, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < half; ++i) {
            unsigned char sent = byte_of(5, (size_t)(gaps_at == 0 ? 2 * i : i));
            wrong += data[gaps_at == 1 ? 2 * i : i] != sent;
            if (gaps_at == 1 && i) wrong += data[2 * i - 1] != 0;
        }
        CHECK_EQ(0, wrong);
    }
    CHECK_OK(MPI_Type_free(&spread));
}

static void too_short(unsigned char* data, int length) {
    MPI_Status status;
    int class = -1, count = -1, room = length - length / 3;
    context("%d bytes into %d", length, room);
    if (check_rank == 0) {
        fill(data, length, 9);
        CHECK_OK(MPI_Send(data, length, MPI_BYTE, 1, 9, MPI_COMM_WORLD));
        return;
    }
    memset(data, 0xee, (size_t)length);
    int code = MPI_Recv(data, room, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &status);
    CHECK_OK(MPI_Error_class(code, &class));
    CHECK_EQ(MPI_ERR_TRUNCATE, class);
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(0xee, data[room]);
    CHECK_EQ(0xee, data[length - 1]);
}

/* Many at once, both ways, several rounds, so that both ways of copying are tried. */
static void windows(int length) {
    MPI_Request requests[2 * window];
    unsigned char* out = malloc((size_t)length * window);
    unsigned char* in = malloc((size_t)length * window);
    for (int round = 0; round < 6; ++round) {
        context("windows of %d bytes, round %d", length, round);
        for (int i = 0; i < window; ++i) {
            fill(out + (size_t)i * length, length, round * 100 + i + check_rank);
            memset(in + (size_t)i * length, 0, (size_t)length);
        }
        for (int i = 0; i < window; ++i) {
            CHECK_OK(MPI_Isend(out + (size_t)i * length, length, MPI_BYTE, 1 - check_rank, i,
                               MPI_COMM_WORLD, &requests[i]));
            /* Against the order of the sends. */
            int j = window - 1 - i;
            CHECK_OK(MPI_Irecv(in + (size_t)j * length, length, MPI_BYTE, 1 - check_rank, j,
                               MPI_COMM_WORLD, &requests[window + i]));
        }
        CHECK_OK(MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < window; ++i)
            CHECK_EQ(-1,
                     differs(in + (size_t)i * length, length, round * 100 + i + 1 - check_rank));
    }
    free(out);
    free(in);
}

/* As long as a test wants it. */
static void go_on(int seconds) {
    double end = MPI_Wtime() + seconds;
    int more = 1;
    while (more) {
        if (check_rank < 2) windows(600000);
        more = MPI_Wtime() < end;
        CHECK_OK(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
}

/* The further connections carry something, too: where others use the machine, one may look slow for
   a while, and is looked at again. */
static void all_connections_serve(void) {
    int more = 1;
    for (int tries = 0; tries < 300 && more; ++tries) {
        if (check_rank < 2) windows(600000);
        more = check_rank < 2 && counter_now() <= 100000;
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    }
    CHECK(counter_end() > 100000 || check_rank > 1);
}

int main(int argc, char** argv) {
    unsigned char* data = malloc(most + 1);
    start(&argc, &argv);
    if (streams_asked()) counter_start("further_path_bytes");
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < length_count; ++i) {
        if (check_rank > 1) {
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            continue;
        }
        for (int repeat = 0; repeat < 3; ++repeat)
            for (int form = 0; form < 4; ++form) receive_forms(data, lengths[i], form);
        with_gaps(data, lengths[i], 0);
        with_gaps(data, lengths[i], 1);
        too_short(data, lengths[i]);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        /* And to oneself. */
        MPI_Request self;
        unsigned char* copy = malloc((size_t)lengths[i]);
        fill(data, lengths[i], 3);
        CHECK_OK(MPI_Irecv(copy, lengths[i], MPI_BYTE, 0, 1, MPI_COMM_SELF, &self));
        CHECK_OK(MPI_Send(data, lengths[i], MPI_BYTE, 0, 1, MPI_COMM_SELF));
        CHECK_OK(MPI_Wait(&self, MPI_STATUS_IGNORE));
        CHECK_EQ(-1, differs(copy, lengths[i], 3));
        free(copy);
    }
    if (check_rank < 2) windows(20000);
    if (check_rank < 2) windows(200000);
    go_on(getenv("POMONA_TEST_SECONDS") ? atoi(getenv("POMONA_TEST_SECONDS")) : 0);
    if (streams_asked()) all_connections_serve();
    free(data);
    return finish();
}
