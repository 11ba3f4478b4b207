/* Goal: many non-blocking collectives in flight on several communicators, mixed with messages,
 * completed in any order by any wait form; point-to-point traffic never meets them
 * (MPI-5.0 section 6.12). Method: each rank waits in its own random order (collectives need only be
 * started in one order).
 */
#include "coll_forms.h"

enum { batch = 24, n = 300 };

static uint64_t state;

/* Completes all requests in a random order by random forms. */
static void finish_all(MPI_Request* r, int count) {
    int left = count, flag, i, order[3 * batch];
    for (i = 0; i < count; ++i) order[i] = i;
    for (i = count - 1; i > 0; --i) {
        int j = random_below(&state, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    while (left > 0) {
        int pick = order[--left], indx;
        switch (random_below(&state, 3)) {
            case 0: CHECK_OK(MPI_Wait(&r[pick], MPI_STATUS_IGNORE)); break;
            case 1:
                for (flag = 0; !flag;) CHECK_OK(MPI_Test(&r[pick], &flag, MPI_STATUS_IGNORE));
                break;
            default:
                CHECK_OK(MPI_Waitany(count, r, &indx, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Wait(&r[pick], MPI_STATUS_IGNORE));
                break;
        }
    }
    for (i = 0; i < count; ++i) CHECK(r[i] == MPI_REQUEST_NULL);
}

static void mixed_batch(int round, const MPI_Comm* comms) {
    static int in[batch][n * 8], out[batch][n * 8], sent[batch], received[batch];
    MPI_Request r[3 * batch];
    int i, k, q, rank, size, at = 0;
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    context("round %d", round);
    for (i = 0; i < batch; ++i) {
        MPI_Comm comm = comms[i % 3];
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (k = 0; k < n * size; ++k) in[i][k] = element(rank, round + i, k), out[i][k] = -1;
        received[i] = -1;
        sent[i] = round * 100 + i;
        CHECK_OK(MPI_Irecv(&received[i], 1, MPI_INT, from, i, comms[0], &r[at++]));
        switch ((i + round) % 6) {
            case 0: CHECK_OK(MPI_Iallreduce(in[i], out[i], n, MPI_INT, MPI_SUM, comm, &r[at++])); break;
            case 1: CHECK_OK(MPI_Ibcast(in[i], n, MPI_INT, i % size, comm, &r[at++])); break;
            case 2:
                CHECK_OK(MPI_Iallgather(in[i], n, MPI_INT, out[i], n, MPI_INT, comm, &r[at++]));
                break;
            case 3:
                CHECK_OK(MPI_Ialltoall(in[i], n, MPI_INT, out[i], n, MPI_INT, comm, &r[at++]));
                break;
            case 4: CHECK_OK(MPI_Ibarrier(comm, &r[at++])); break;
            default: CHECK_OK(MPI_Iscan(in[i], out[i], n, MPI_INT, MPI_SUM, comm, &r[at++])); break;
        }
        CHECK_OK(MPI_Isend(&sent[i], 1, MPI_INT, to, i, comms[0], &r[at++]));
    }
    finish_all(r, at);
    for (i = 0; i < batch; ++i) {
        int good = 1;
        MPI_Comm_rank(comms[i % 3], &rank);
        MPI_Comm_size(comms[i % 3], &size);
        CHECK_EQ(round * 100 + i, received[i]);
        for (k = 0; k < n && good; ++k) {
            int sum = 0, part = 0;
            for (q = 0; q < size; ++q) {
                sum += element(q, round + i, k);
                if (q <= rank) part += element(q, round + i, k);
            }
            switch ((i + round) % 6) {
                case 0: good = out[i][k] == sum; break;
                case 1: good = in[i][k] == element(i % size, round + i, k); break;
                case 2: good = out[i][(size - 1) * n + k] == element(size - 1, round + i, k); break;
                case 3:
                    good = out[i][(size - 1) * n + k] == element(size - 1, round + i, rank * n + k);
                    break;
                case 4: break;
                default: good = out[i][k] == part; break;
            }
        }
        CHECK(good);
    }
}

int main(int argc, char** argv) {
    MPI_Comm comms[3];
    int round;
    start(&argc, &argv);
    if (check_size > 8) return skip("at most 8 ranks");
    state = (uint64_t)(check_rank + 1) * 7919;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[1]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &comms[2]));
    for (round = 0; round < 30; ++round) mixed_batch(round, comms);
    for (round = 0; round < 3; ++round) CHECK_OK(MPI_Comm_free(&comms[round]));
    return finish();
}
