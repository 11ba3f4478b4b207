/* Goal: messages between two ranks on one communicator do not overtake each other (MPI-5.0 section
 * 3.5), whatever their size, mode and matching; communicators and tags keep apart. Method: rank 0
 * receives from all with wildcards and checks that each sender's numbers rise; many unexpected
 * messages are then received in a different order of tags.
 */
#include "check.h"

enum { rounds = 200, unexpected = 3000 };

/* Sizes chosen so that neighbours go by different protocols. */
static int ints_of(int i) { return i % 7 == 3 ? 40000 : i % 5 == 1 ? 3000 : 1 + i % 3; }

static void senders_keep_order(void) {
    int* data = malloc(40000 * sizeof(int));
    int i;
    context("order with wildcards");
    if (check_rank == 0) {
        int* next = calloc((size_t)check_size, sizeof(int));
        for (i = 0; i < rounds * (check_size - 1); ++i) {
            MPI_Status s;
            int count;
            CHECK_OK(MPI_Recv(data, 40000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s));
            CHECK_OK(MPI_Get_count(&s, MPI_INT, &count));
            CHECK_EQ(next[s.MPI_SOURCE], data[0]);
            CHECK_EQ(ints_of(data[0]), count);
            CHECK_EQ(data[0] % 4, s.MPI_TAG);
            CHECK_EQ(count == 1 ? data[0] : s.MPI_SOURCE, data[count - 1]);
            ++next[s.MPI_SOURCE];
        }
        free(next);
    } else {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        int* copies[2];
        copies[0] = malloc(40000 * sizeof(int));
        copies[1] = malloc(40000 * sizeof(int));
        for (i = 0; i < rounds; ++i) {
            int n = ints_of(i), k = i % 2;
            CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
            copies[k][n - 1] = check_rank;
            copies[k][0] = i;
            if (i % 3 == 0) {
                CHECK_OK(MPI_Issend(copies[k], n, MPI_INT, 0, i % 4, MPI_COMM_WORLD, &requests[k]));
            } else {
                CHECK_OK(MPI_Isend(copies[k], n, MPI_INT, 0, i % 4, MPI_COMM_WORLD, &requests[k]));
            }
        }
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        free(copies[0]);
        free(copies[1]);
    }
    free(data);
}

/* All messages wait at the receiver; each tag is then drained from the last to the first. */
static void unexpected_by_tag(void) {
    int i, tag, value, go = 1;
    MPI_Request* requests = malloc(unexpected * sizeof(MPI_Request));
    int* values = malloc(unexpected * sizeof(int));
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    context("%d unexpected messages", unexpected);
    for (i = 0; i < unexpected; ++i) {
        values[i] = i;
        CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, to, i % 10, MPI_COMM_WORLD, &requests[i]));
    }
    CHECK_OK(MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD));
    for (tag = 9; tag >= 0; --tag) {
        for (i = tag; i < unexpected; i += 10) {
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(i, value);
        }
    }
    CHECK_OK(MPI_Waitall(unexpected, requests, MPI_STATUSES_IGNORE));
    free(requests);
    free(values);
}

/* Posted receives match in the order of their posting, wildcards among them. */
static void posted_in_order(void) {
    enum { n = 12 };
    int values[n], i, out[n];
    MPI_Request receives[n], sends[n];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    context("posted order");
    for (i = 0; i < n; ++i) {
        int any_tag = i % 3 == 1, any_source = i % 4 == 2;
        values[i] = -1;
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, any_source ? MPI_ANY_SOURCE : from,
                           any_tag ? MPI_ANY_TAG : 5, MPI_COMM_WORLD, &receives[i]));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (i = 0; i < n; ++i) {
        out[i] = 100 + i;
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, to, 5, MPI_COMM_WORLD, &sends[i]));
    }
    CHECK_OK(MPI_Waitall(n, receives, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Waitall(n, sends, MPI_STATUSES_IGNORE));
    for (i = 0; i < n; ++i) CHECK_EQ(100 + i, values[i]);
}

static void communicators_apart(void) {
    MPI_Comm twin;
    int mine[2], got[2] = {-1, -1};
    MPI_Request r[4];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    context("two communicators");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    mine[0] = 10 * check_rank;
    mine[1] = 10 * check_rank + 1;
    CHECK_OK(MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &r[0]));
    CHECK_OK(MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[1]));
    CHECK_OK(MPI_Isend(&mine[0], 1, MPI_INT, to, 1, MPI_COMM_WORLD, &r[2]));
    CHECK_OK(MPI_Isend(&mine[1], 1, MPI_INT, to, 1, twin, &r[3]));
    CHECK_OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    CHECK_EQ(10 * from, got[0]);
    CHECK_EQ(10 * from + 1, got[1]);
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK(twin == MPI_COMM_NULL);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    senders_keep_order();
    MPI_Barrier(MPI_COMM_WORLD);
    unexpected_by_tag();
    MPI_Barrier(MPI_COMM_WORLD);
    posted_in_order();
    MPI_Barrier(MPI_COMM_WORLD);
    communicators_apart();
    return finish();
}
