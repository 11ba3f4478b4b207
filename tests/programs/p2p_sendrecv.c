/* Goal: sendrecv, sendrecv_replace, isendrecv, isendrecv_replace, PROC_NULL, truncation, and zero
 * bytes from null buffers. Method: shifts around a ring with different sizes each way; a message
 * longer than its buffer must give MPI_ERR_TRUNCATE, touch nothing beyond, and leave all usable.
 */
#include "check.h"

static int to, from;

static void shifts(int n) {
    int *out = malloc(((size_t)n + 1) * 4), *in = malloc(((size_t)n + 1) * 4), i, count = -1;
    int theirs = n > 0 ? n - from % 2 : 0, ours = n > 0 ? n - check_rank % 2 : 0;
    MPI_Status s;
    context("sendrecv of %d", n);
    for (i = 0; i <= n; ++i) out[i] = check_rank + i, in[i] = -1;
    CHECK_OK(MPI_Sendrecv(out, ours, MPI_INT, to, 3, in, n, MPI_INT, from, 3, MPI_COMM_WORLD, &s));
    CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
    CHECK_EQ(theirs, count);
    CHECK_EQ(from, s.MPI_SOURCE);
    for (i = 0; i < theirs && in[i] == from + i; ++i) {
    }
    CHECK_EQ(theirs, i);
    CHECK_EQ(-1, in[theirs]);
    context("sendrecv_replace of %d", n);
    CHECK_OK(MPI_Sendrecv_replace(out, n, MPI_INT, to, 4, from, 4, MPI_COMM_WORLD, &s));
    for (i = 0; i < n && out[i] == from + i; ++i) {
    }
    CHECK_EQ(n, i);
    CHECK_EQ(check_rank + n, out[n]);
#if MPI_AT_LEAST(4, 0)
    {
        MPI_Request r;
        context("isendrecv of %d", n);
        for (i = 0; i <= n; ++i) out[i] = check_rank * 2 + i, in[i] = -1;
        CHECK_OK(MPI_Isendrecv(out, n, MPI_INT, to, 5, in, n, MPI_INT, MPI_ANY_SOURCE, 5,
                               MPI_COMM_WORLD, &r));
        CHECK_OK(MPI_Wait(&r, &s));
        if (!known_limit("MPICH")) { /* leaves the status untouched */
            CHECK_EQ(from, s.MPI_SOURCE);
            CHECK_EQ(5, s.MPI_TAG);
        }
        for (i = 0; i < n && in[i] == from * 2 + i; ++i) {
        }
        CHECK_EQ(n, i);
        context("isendrecv_replace of %d", n);
        CHECK_OK(MPI_Isendrecv_replace(out, n, MPI_INT, to, 6, from, 6, MPI_COMM_WORLD, &r));
        CHECK_OK(MPI_Wait(&r, &s));
        for (i = 0; i < n && out[i] == from * 2 + i; ++i) {
        }
        CHECK_EQ(n, i);
    }
#endif
    free(out);
    free(in);
}

static void check_null_status(const MPI_Status* s) {
    int count = -1;
    CHECK_EQ(MPI_PROC_NULL, s->MPI_SOURCE);
    CHECK_EQ(MPI_ANY_TAG, s->MPI_TAG);
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(0, count);
}

static void no_process(void) {
    int value = 5;
    MPI_Status s;
    MPI_Request r;
    context("MPI_PROC_NULL");
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Rsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Bsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &s));
    check_null_status(&s);
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Wait(&r, &s));
    check_null_status(&s);
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, &value, 1, MPI_INT, MPI_PROC_NULL, 1,
                          MPI_COMM_WORLD, &s));
    check_null_status(&s);
    CHECK_EQ(5, value);
}

/* One message of n ints into room for n / 2. */
static void truncation(int n, int expected_first) {
    int *out = calloc((size_t)n + 1, 4), *in = malloc(((size_t)n + 1) * 4), i, room = n / 2;
    MPI_Request r[2];
    MPI_Status s[2];
    int code;
    context("truncation of %d ints, %s", n, expected_first ? "posted" : "unexpected");
    for (i = 0; i <= n; ++i) in[i] = -1, out[i] = i;
    if (expected_first) {
        CHECK_OK(MPI_Irecv(in, room, MPI_INT, from, 8, MPI_COMM_WORLD, &r[0]));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Isend(out, n, MPI_INT, to, 8, MPI_COMM_WORLD, &r[1]));
        code = MPI_Wait(&r[0], &s[0]);
    } else {
        CHECK_OK(MPI_Isend(out, n, MPI_INT, to, 8, MPI_COMM_WORLD, &r[1]));
        MPI_Probe(from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        code = MPI_Recv(in, room, MPI_INT, from, 8, MPI_COMM_WORLD, &s[0]);
    }
    CHECK_CLASS(MPI_ERR_TRUNCATE, code);
    for (i = room; i <= n && in[i] == -1; ++i) {
    }
    CHECK_EQ(n + 1, i);
    CHECK_OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
    /* MPI_Waitall tells which one failed by MPI_ERR_IN_STATUS. */
    CHECK_OK(MPI_Irecv(in, room, MPI_INT, from, 8, MPI_COMM_WORLD, &r[0]));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Isend(out, n, MPI_INT, to, 8, MPI_COMM_WORLD, &r[1]));
    code = MPI_Waitall(2, r, s);
    CHECK_CLASS(MPI_ERR_IN_STATUS, code);
    CHECK_CLASS(MPI_ERR_TRUNCATE, s[0].MPI_ERROR);
    if (r[1] == MPI_REQUEST_NULL) {
        CHECK_EQ(MPI_SUCCESS, s[1].MPI_ERROR);
    } else {
        CHECK_CLASS(MPI_ERR_PENDING, s[1].MPI_ERROR);
        CHECK_OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(out);
    free(in);
}

int main(int argc, char** argv) {
    static const int sizes[] = {0, 1, 100, 5000, 100000};
    int i;
    start(&argc, &argv);
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (i = 0; i < 5; ++i) shifts(sizes[i]);
    no_process();
    for (i = 0; i < 8; ++i) truncation(i / 2 % 2 ? 30000 + i : 10 + i, i % 2);
    context("zero bytes from nowhere");
    CHECK_OK(MPI_Sendrecv(NULL, 0, MPI_INT, to, 1, NULL, 0, MPI_INT, from, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Sendrecv(MPI_BOTTOM, 0, MPI_INT, to, 1, MPI_BOTTOM, 0, MPI_INT, from, 1,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return finish();
}
