/* tests/programs/p2p_owner.c: all ranks of one half with all of the other half.
 * Goal: where the halves are machines whose RDMA devices have too few queue pairs (rdma_many.sh),
 * all pairs go by RDMA, those without any by another rank's; everywhere all bytes are right.
 * Method: rounds of messages of two lengths; with RDMA_OWNER until one in which what each rank sent
 * by others' queue pairs are all its messages but two, to so many it has queue pairs at the most.
 */
#include "counter.h"

enum { bytes = 150000, rounds_most = 1000 };

static char* out;
static char* in;

static char content(int from, int to, int round, int i) {
    return (char)(from * 31 + to * 7 + round + i * (i >> 7));
}

static void exchange(int round, int length) {
    int half = check_size / 2, other = check_rank < half ? half : 0, number = 0;
    MPI_Request* requests = malloc(2 * (size_t)half * sizeof(MPI_Request));
    for (int i = 0; i < half; ++i) {
        char* to = out + (size_t)i * bytes;
        for (int k = 0; k < length; ++k) to[k] = content(check_rank, other + i, round, k);
        CHECK_OK(MPI_Irecv(in + (size_t)i * bytes, bytes, MPI_CHAR, other + i, round, MPI_COMM_WORLD,
                           &requests[number++]));
        CHECK_OK(MPI_Isend(to, length, MPI_CHAR, other + i, round, MPI_COMM_WORLD, &requests[number++]));
    }
    CHECK_OK(MPI_Waitall(number, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < half; ++i) {
        for (int k = 0; k < length; ++k) out[k] = content(other + i, check_rank, round, k);
        CHECK_MEM(out, in + (size_t)i * bytes, length);
    }
    free(requests);
}

static unsigned long long carried(void) {
    unsigned long long value = 0;
    CHECK_OK(MPI_T_pvar_read(counter_session, counter_handle, &value));
    return value;
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    int half = check_size / 2, wanted = getenv("RDMA_OWNER") != NULL, done = 0;
    if (check_size % 2 == 0) {
        out = malloc((size_t)half * bytes);
        in = malloc((size_t)half * bytes);
        counter_start("carried_bytes");
        for (int round = 0; !done && round < rounds_most; ++round) {
            int length = round % 2 ? bytes : 8;
            unsigned long long before = carried();
            exchange(round, length);
            unsigned long long least = (unsigned long long)(half - 2) * bytes;
            int good = length == bytes && (!wanted || carried() - before >= least);
            CHECK_OK(MPI_Allreduce(&good, &done, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        }
        CHECK(done);
        counter_end();
        free(out);
        free(in);
    }
    return finish();
}
