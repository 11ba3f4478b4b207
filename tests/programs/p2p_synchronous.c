/* Goal: synchronous sends of all lengths, some of which are cancelled while their receives come,
 * are each received once and whole, or cancelled, never both (MPI-5.0 section 3.8.4), however
 * either side waits: by MPI_Wait, MPI_Test, MPI_Waitall, MPI_Mprobe, receives posted before and
 * after.
 * Method: rank 0 sends numbered messages with one tag to rank 1, whose receives follow other random
 * numbers; then the other way round. In the end the sender tells which it has cancelled.
 */
#include "check.h"

enum { kMessages = 300, kEnds = 8, kMost = 40000, kGroup = 3 };
static const int lengths[] = {1, 2, 300, 2047, 9000, kMost};
static int out[kGroup][2 * kMost], in[kGroup][2 * kMost], cancelled[kMessages], received[kMessages];
static unsigned state;

static int any(int below) {
    state = state * 1103515245u + 12345u;
    return (int)((state >> 16) % (unsigned)below);
}

/* One in four has gaps. */
static MPI_Datatype type_of(int length, int* step) {
    MPI_Datatype type;
    *step = any(4) == 0 ? 2 : 1;
    CHECK_OK(MPI_Type_vector(length, 1, *step, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static void begin_send(int number, int to, int* data, MPI_Request* request) {
    int i, step, length = lengths[any(6)];
    MPI_Datatype type = type_of(length, &step);
    for (i = 0; i < length; ++i) data[i * step] = number + i;
    if (any(5)) CHECK_OK(MPI_Issend(data, 1, type, to, 1, MPI_COMM_WORLD, request));
    else CHECK_OK(MPI_Isend(data, 1, type, to, 1, MPI_COMM_WORLD, request));
    CHECK_OK(MPI_Type_free(&type));
}

/* Ends a send in one of many ways. */
static void end_send(int number, MPI_Request* request) {
    MPI_Status status;
    int i, way = any(4), over = 0;
    if (way == 0) {
        for (i = any(20); i > 0 && !over; --i)
            CHECK_OK(MPI_Request_get_status(*request, &over, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Cancel(request));
    }
    if (way == 1)
        for (over = 0; !over;) CHECK_OK(MPI_Test(request, &over, &status));
    else CHECK_OK(MPI_Wait(request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled[number]));
}

static void send_all(int to) {
    int number, i, end = -1;
    MPI_Request requests[kGroup];
    for (number = 0; number < kMessages; number += kGroup) {
        for (i = 0; i < kGroup; ++i) begin_send(number + i, to, out[i], &requests[i]);
        if (any(3) == 0) CHECK_OK(MPI_Waitall(kGroup, requests, MPI_STATUSES_IGNORE));
        else
            for (i = kGroup; i-- > 0;) end_send(number + i, &requests[i]);
    }
    for (i = 0; i < kEnds; ++i) CHECK_OK(MPI_Send(&end, 1, MPI_INT, to, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(cancelled, kMessages, MPI_INT, to, 2, MPI_COMM_WORLD));
}

/* Looks at a message that is here; 1 if it is one of the ends. */
static int look_at(const int* data, int step, const MPI_Status* status) {
    int i, length, good = 1;
    CHECK_OK(MPI_Get_elements(status, MPI_INT, &length));
    if (data[0] == -1) return 1;
    if (!CHECK(data[0] >= 0 && data[0] < kMessages)) return 0;
    for (i = 0; i < length; ++i) good &= data[i * step] == data[0] + i;
    CHECK(good);
    ++received[data[0]];
    return 0;
}

/* Later ones than before, unless the sender has cancelled it after it was found. */
static int receive_probed(int from, int* last) {
    MPI_Message message;
    MPI_Status status;
    int ends;
    CHECK_OK(MPI_Mprobe(any(2) ? from : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &message, &status));
    if (MPI_Mrecv(in[0], kMost, MPI_INT, &message, &status) != MPI_SUCCESS) return 0;
    ends = look_at(in[0], 1, &status);
    if (!ends) CHECK(in[0][0] > *last);
    if (!ends) *last = in[0][0];
    return ends;
}

static int receive_posted(int from, int count, int* last) {
    int i, ends = 0, step[kGroup];
    MPI_Request requests[kGroup];
    MPI_Status statuses[kGroup];
    for (i = 0; i < count; ++i) {
        MPI_Datatype type = type_of(kMost, &step[i]);
        CHECK_OK(MPI_Irecv(in[i], 1, type, any(2) ? from : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                           &requests[i]));
        CHECK_OK(MPI_Type_free(&type));
    }
    CHECK_OK(MPI_Waitall(count, requests, statuses));
    for (i = 0; i < count; ++i) {
        if (look_at(in[i], step[i], &statuses[i])) ++ends;
        else if (in[i][0] > *last) *last = in[i][0];
    }
    return ends;
}

static void receive_all(int from) {
    int i, ends = 0, last = -1;
    memset(received, 0, sizeof received);
    while (ends < kEnds) {
        int count = 1 + any(kGroup);
        if (any(3) == 0) ends += receive_probed(from, &last);
        else ends += receive_posted(from, count < kEnds - ends ? count : kEnds - ends, &last);
    }
    CHECK_OK(MPI_Recv(cancelled, kMessages, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (i = 0; i < kMessages; ++i) {
        context("message %d", i);
        CHECK_EQ(1, received[i] + cancelled[i]);
    }
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &i, MPI_STATUS_IGNORE));
    CHECK(!i);
}

int main(int argc, char** argv) {
    int sender;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (sender = 0; sender < 2 && check_size >= 2; ++sender) {
        state = (unsigned)(check_rank * 77 + sender + 1);
        memset(cancelled, 0, sizeof cancelled);
        if (check_rank == sender) send_all(1 - sender);
        else if (check_rank == 1 - sender) receive_all(sender);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return finish();
}
