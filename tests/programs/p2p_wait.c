/* Goal: all wait and test forms with their statuses, null and inactive requests
 * (MPI-5.0 sections 3.7.3 to 3.7.6). Method: receives completed one at a time by sends the program
 * controls, so that the index each form must report is known.
 */
#include "check.h"

enum { n = 6 };
static int values[n];
static MPI_Request requests[n];

static void check_empty(const MPI_Status* s) {
    int count = -1, cancelled = 1;
    CHECK_EQ(MPI_ANY_SOURCE, s->MPI_SOURCE);
    CHECK_EQ(MPI_ANY_TAG, s->MPI_TAG);
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(0, count);
    CHECK_OK(MPI_Test_cancelled(s, &cancelled));
    CHECK_EQ(0, cancelled);
}

static void post(void) {
    int i;
    for (i = 0; i < n; ++i) {
        values[i] = -1;
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, check_rank, i, MPI_COMM_WORLD, &requests[i]));
    }
}

static void complete(int i) {
    int value = 50 + i;
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, i, MPI_COMM_WORLD));
}

static void check_done(int i, const MPI_Status* s) {
    int count = -1;
    CHECK_EQ(50 + i, values[i]);
    CHECK_EQ(i, s->MPI_TAG);
    CHECK_EQ(check_rank, s->MPI_SOURCE);
    CHECK_OK(MPI_Get_count(s, MPI_INT, &count));
    CHECK_EQ(1, count);
    CHECK(requests[i] == MPI_REQUEST_NULL);
}

static void null_requests(void) {
    MPI_Request none[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status s, all[3];
    int flag = 0, indx = 0, count = 0, indices[3], i;
    context("null requests");
    memset(&s, 0x5a, sizeof s);
    CHECK_OK(MPI_Wait(&none[0], &s));
    check_empty(&s);
    CHECK_EQ(MPI_SUCCESS, s.MPI_ERROR);
    CHECK_OK(MPI_Test(&none[0], &flag, &s));
    CHECK_EQ(1, flag);
    check_empty(&s);
    CHECK_OK(MPI_Waitany(3, none, &indx, &s));
    CHECK_EQ(MPI_UNDEFINED, indx);
    check_empty(&s);
    flag = 0;
    CHECK_OK(MPI_Testany(3, none, &indx, &flag, &s));
    CHECK_EQ(1, flag);
    CHECK_EQ(MPI_UNDEFINED, indx);
    check_empty(&s);
    CHECK_OK(MPI_Waitall(3, none, all));
    for (i = 0; i < 3; ++i) check_empty(&all[i]);
    flag = 0;
    CHECK_OK(MPI_Testall(3, none, &flag, all));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Waitsome(3, none, &count, indices, all));
    CHECK_EQ(MPI_UNDEFINED, count);
    CHECK_OK(MPI_Testsome(3, none, &count, indices, all));
    CHECK_EQ(MPI_UNDEFINED, count);
    CHECK_OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Waitany(0, NULL, &indx, &s));
    CHECK_EQ(MPI_UNDEFINED, indx);
    flag = 0;
    CHECK_OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(1, flag);
}

static void inactive_requests(void) {
    MPI_Request r[2];
    MPI_Status s;
    int value = 3, flag = 0, indx = 0, count = 0, indices[2];
    context("inactive persistent requests");
    CHECK_OK(MPI_Send_init(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &r[0]));
    CHECK_OK(MPI_Recv_init(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &r[1]));
    CHECK_OK(MPI_Wait(&r[0], &s));
    check_empty(&s);
    CHECK(r[0] != MPI_REQUEST_NULL);
    CHECK_OK(MPI_Test(&r[1], &flag, &s));
    CHECK_EQ(1, flag);
    check_empty(&s);
    CHECK_OK(MPI_Waitany(2, r, &indx, &s));
    CHECK_EQ(MPI_UNDEFINED, indx);
    CHECK_OK(MPI_Testsome(2, r, &count, indices, MPI_STATUSES_IGNORE));
    CHECK_EQ(MPI_UNDEFINED, count);
    CHECK_OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    flag = 0;
    CHECK_OK(MPI_Request_get_status(r[0], &flag, &s));
    CHECK_EQ(1, flag);
    check_empty(&s);
    CHECK_OK(MPI_Request_free(&r[0]));
    CHECK_OK(MPI_Request_free(&r[1]));
}

static void any_forms(void) {
    static const int order[n] = {3, 0, 5, 1, 4, 2};
    MPI_Status s;
    int i, indx, flag;
    post();
    for (i = 0; i < n; ++i) {
        context("any forms, step %d", i);
        CHECK_OK(MPI_Testany(n, requests, &indx, &flag, &s));
        CHECK_EQ(0, flag);
        CHECK_EQ(MPI_UNDEFINED, indx);
        complete(order[i]);
        if (i % 2) {
            CHECK_OK(MPI_Waitany(n, requests, &indx, &s));
        } else {
            for (flag = 0; !flag;) CHECK_OK(MPI_Testany(n, requests, &indx, &flag, &s));
        }
        CHECK_EQ(order[i], indx);
        check_done(order[i], &s);
    }
}

static void some_forms(void) {
    MPI_Status s[n];
    int indices[n], count, seen[n] = {0}, total = 0, i;
    post();
    context("some forms");
    CHECK_OK(MPI_Testsome(n, requests, &count, indices, s));
    CHECK_EQ(0, count);
    complete(4);
    complete(1);
    while (total < 2) {
        CHECK_OK(MPI_Waitsome(n, requests, &count, indices, s));
        CHECK(count >= 1 && count <= 2);
        for (i = 0; i < count; ++i) {
            CHECK(indices[i] == 4 || indices[i] == 1);
            ++seen[indices[i]];
            check_done(indices[i], &s[i]);
        }
        total += count;
    }
    complete(0);
    complete(2);
    complete(3);
    complete(5);
    while (total < n) {
        CHECK_OK(MPI_Testsome(n, requests, &count, indices, s));
        for (i = 0; i < count; ++i) {
            ++seen[indices[i]];
            check_done(indices[i], &s[i]);
        }
        total += count;
    }
    for (i = 0; i < n; ++i) CHECK_EQ(1, seen[i]);
}

static void all_forms(void) {
    MPI_Status s[n];
    int i, flag = 1;
    post();
    context("all forms");
    for (i = 0; i < n; ++i) {
        CHECK_OK(MPI_Testall(n, requests, &flag, s));
        CHECK_EQ(0, flag);
        CHECK(requests[0] != MPI_REQUEST_NULL);
        complete(i);
    }
    for (flag = 0; !flag;) CHECK_OK(MPI_Testall(n, requests, &flag, s));
    for (i = 0; i < n; ++i) check_done(i, &s[i]);
    post();
    for (i = n - 1; i >= 0; --i) complete(i);
    CHECK_OK(MPI_Waitall(n, requests, s));
    for (i = 0; i < n; ++i) check_done(i, &s[i]);
    post();
    for (i = 0; i < n; ++i) complete(i);
    CHECK_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (i = 0; i < n; ++i) CHECK_EQ(50 + i, values[i]);
}

static void get_status(void) {
    MPI_Status s;
    int flag = 1;
    post();
    context("request_get_status");
    CHECK_OK(MPI_Request_get_status(requests[2], &flag, &s));
    CHECK_EQ(0, flag);
    complete(2);
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status(requests[2], &flag, &s));
    CHECK(requests[2] != MPI_REQUEST_NULL);
    CHECK_EQ(2, s.MPI_TAG);
    CHECK_OK(MPI_Request_get_status(requests[2], &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Wait(&requests[2], &s));
    check_done(2, &s);
    complete(0), complete(1), complete(3), complete(4), complete(5);
    CHECK_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &s));
    CHECK_EQ(1, flag);
    check_empty(&s);
}

/* MPI_Request_free of a running operation lets it finish. */
static void free_active(void) {
    MPI_Request r;
    int big = 50000, i, *out = malloc(50000 * sizeof(int)), *in = malloc(50000 * sizeof(int));
    context("free of an active request");
    for (i = 0; i < big; ++i) out[i] = i ^ check_rank;
    CHECK_OK(MPI_Isend(out, big, MPI_INT, check_rank, 77, MPI_COMM_WORLD, &r));
    CHECK_OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Recv(in, big, MPI_INT, check_rank, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_MEM(out, in, 50000 * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    free(out);
    free(in);
}

/* Sends that are over at once may share a request: each handle is completed, freed, cancelled or
 * asked for by itself, in any order, with what the standard says of a send's status. */
static void many_small_sends(void) {
    enum { many = 40 };
    MPI_Request sends[many], receives[many];
    MPI_Status statuses[many];
    int out[many], in[many], indices[many], i, count = -1, flag = -1, index = -1, left;
    context("many small sends");
    for (i = 0; i < many; ++i) {
        out[i] = i * 3 + check_rank, in[i] = -1;
        CHECK_OK(MPI_Irecv(&in[i], 1, MPI_INT, check_rank, i, MPI_COMM_WORLD, &receives[i]));
    }
    for (i = 0; i < many; ++i) {
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, check_rank, i, MPI_COMM_WORLD, &sends[i]));
        CHECK(sends[i] != MPI_REQUEST_NULL);
    }
    CHECK_OK(MPI_Request_free(&sends[0]));
    CHECK_OK(MPI_Wait(&sends[1], &statuses[1]));
    CHECK_OK(MPI_Test_cancelled(&statuses[1], &flag));
    CHECK_EQ(0, flag);
    for (flag = 0; !flag;) CHECK_OK(MPI_Test(&sends[2], &flag, MPI_STATUS_IGNORE));
    CHECK(sends[1] == MPI_REQUEST_NULL);
    CHECK(sends[2] == MPI_REQUEST_NULL);
    CHECK(sends[3] != MPI_REQUEST_NULL);
    CHECK_OK(MPI_Request_get_status(sends[3], &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Cancel(&sends[4]));
    CHECK_OK(MPI_Wait(&sends[4], MPI_STATUS_IGNORE));
    for (left = many - 4; left > 0; left -= count) {
        CHECK_OK(MPI_Waitsome(many, sends, &count, indices, MPI_STATUSES_IGNORE));
        CHECK(count > 0 && count <= left);
        if (count <= 0) break;
        for (i = 0; i < count; ++i) CHECK(sends[indices[i]] == MPI_REQUEST_NULL);
    }
    CHECK_OK(MPI_Waitany(many, sends, &index, MPI_STATUS_IGNORE));
    CHECK_EQ(MPI_UNDEFINED, index);
    /* The one that was asked to be cancelled may have been. */
    for (i = 0; i < many; ++i)
        if (i == 4) CHECK_OK(MPI_Cancel(&receives[i]));
    CHECK_OK(MPI_Waitall(many, receives, statuses));
    for (i = 0; i < many; ++i)
        if (i != 4) CHECK_EQ(out[i], in[i]);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    null_requests();
    inactive_requests();
    any_forms();
    some_forms();
    all_forms();
    get_status();
    free_active();
    many_small_sends();
    return finish();
}
