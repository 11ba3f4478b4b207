/* Goal: probe, iprobe, mprobe, improbe, mrecv and imrecv (MPI-5.0 section 3.8): the status tells
 * source, tag and size without receiving; a matched message belongs to its handle alone.
 * Method: ring of messages of rising size; matched messages received in reverse order.
 */
#include "check.h"

static int to, from;

static void send_ints(int n, int tag, MPI_Request* r, int* data) {
    int i;
    for (i = 0; i < n; ++i) data[i] = 1000 * check_rank + i + tag;
    CHECK_OK(MPI_Isend(data, n, MPI_INT, to, tag, MPI_COMM_WORLD, r));
}

static void check_ints(const int* data, int n, int tag) {
    int i;
    for (i = 0; i < n && data[i] == 1000 * from + i + tag; ++i) {
    }
    CHECK_EQ(n, i);
}

static void check_status(const MPI_Status* s, int n, int tag) {
    int count = -1;
    CHECK_EQ(from, s->MPI_SOURCE);
    CHECK_EQ(tag, s->MPI_TAG);
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(n, count);
}

static void probes(int n, int tag) {
    int *out = malloc(((size_t)n + 1) * sizeof(int)), *in = malloc(((size_t)n + 1) * sizeof(int));
    MPI_Request r;
    MPI_Status s;
    int flag = 0;
    context("probe of %d ints", n);
    send_ints(n, tag, &r, out);
    CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s));
    check_status(&s, n, tag);
    while (!flag) CHECK_OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &s));
    check_status(&s, n, tag);
    CHECK_OK(MPI_Recv(in, n, MPI_INT, s.MPI_SOURCE, s.MPI_TAG, MPI_COMM_WORLD, &s));
    check_status(&s, n, tag);
    check_ints(in, n, tag);
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(0, flag);
    free(out);
    free(in);
}

static void matched(int n) {
    enum { messages = 5 };
    int *out[messages], *in = malloc(((size_t)n + 1) * sizeof(int)), i, flag;
    MPI_Request sends[messages], receive;
    MPI_Message handles[messages], none;
    MPI_Status s;
    context("matched probes of %d ints", n);
    for (i = 0; i < messages; ++i) {
        out[i] = malloc(((size_t)n + 1) * sizeof(int));
        send_ints(n, i, &sends[i], out[i]);
    }
    for (i = 0; i < messages; ++i) {
        if (i % 2) {
            CHECK_OK(MPI_Mprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &handles[i], &s));
        } else {
            for (flag = 0; !flag;) {
                CHECK_OK(MPI_Improbe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &flag, &handles[i], &s));
            }
        }
        check_status(&s, n, i);
        CHECK(handles[i] != MPI_MESSAGE_NULL && handles[i] != MPI_MESSAGE_NO_PROC);
    }
    CHECK_OK(MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Improbe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &none, MPI_STATUS_IGNORE));
    CHECK_EQ(0, flag);
    for (i = messages - 1; i >= 0; --i) {
        memset(in, 0, (size_t)n * sizeof(int));
        if (i % 2) {
            CHECK_OK(MPI_Mrecv(in, n, MPI_INT, &handles[i], &s));
        } else {
            CHECK_OK(MPI_Imrecv(in, n, MPI_INT, &handles[i], &receive));
            CHECK_OK(MPI_Wait(&receive, &s));
        }
        CHECK(handles[i] == MPI_MESSAGE_NULL);
        check_status(&s, n, i);
        check_ints(in, n, i);
    }
    CHECK_OK(MPI_Waitall(messages, sends, MPI_STATUSES_IGNORE));
    for (i = 0; i < messages; ++i) free(out[i]);
    free(in);
}

static void check_empty(const MPI_Status* s) {
    int count = -1;
    CHECK_EQ(MPI_PROC_NULL, s->MPI_SOURCE);
    CHECK_EQ(MPI_ANY_TAG, s->MPI_TAG);
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(0, count);
}

static void no_process(void) {
    MPI_Status s;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Request r;
    int flag = 0, value = 7;
    context("probes of MPI_PROC_NULL");
    CHECK_OK(MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &s));
    check_empty(&s);
    CHECK_OK(MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &s));
    CHECK_EQ(1, flag);
    check_empty(&s);
    CHECK_OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &m, &s));
    CHECK(m == MPI_MESSAGE_NO_PROC);
    check_empty(&s);
    CHECK_OK(MPI_Mrecv(&value, 1, MPI_INT, &m, &s));
    CHECK(m == MPI_MESSAGE_NULL);
    check_empty(&s);
    CHECK_OK(MPI_Improbe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &m, &s));
    CHECK_EQ(1, flag);
    CHECK(m == MPI_MESSAGE_NO_PROC);
    CHECK_OK(MPI_Imrecv(&value, 1, MPI_INT, &m, &r));
    CHECK_OK(MPI_Wait(&r, &s));
    check_empty(&s);
    CHECK_EQ(7, value);
}

int main(int argc, char** argv) {
    static const int sizes[] = {0, 1, 20, 3000, 70000};
    int i;
    start(&argc, &argv);
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    for (i = 0; i < 5; ++i) probes(sizes[i], 40 + i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 5; ++i) {
        matched(sizes[i]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    no_process();
    return finish();
}
