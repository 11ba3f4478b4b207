/* tests/programs/p2p_between.c: two ranks talk while the one between them computes.
 * Goal: whoever stands between two ranks that have no path of their own (chain.sh) hands their
 * messages on though its program does not call MPI. Method: rank 1 computes until the file argv[1]
 * is there, which rank 0 makes when it has exchanged messages of many sizes with the last rank.
 * Before that, all are in MPI while the two exchange a first message, unless argv[2] is "at once".
 * Without an argument, or with two ranks, rank 1 does not wait.
 */
#include "check.h"

#include <string.h>
#include <unistd.h>

static void exchange(int peer, int length, int seed) {
    unsigned char* out = malloc((size_t)length + 1);
    unsigned char* in = malloc((size_t)length + 1);
    MPI_Status status;
    int got;
    for (int i = 0; i < length; ++i) out[i] = (unsigned char)(i * 7 + seed);
    memset(in, 0, (size_t)length + 1);
    CHECK_OK(MPI_Sendrecv(out, length, MPI_BYTE, peer, seed, in, length, MPI_BYTE, peer, seed,
                          MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &got));
    CHECK_EQ(length, got);
    CHECK_EQ(0, memcmp(out, in, (size_t)length));
    free(out);
    free(in);
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    const char* path = argc > 1 ? argv[1] : NULL;
    int last = check_size - 1;
    if (argc < 3 || strcmp(argv[2], "at once") != 0) {
        if (check_size > 1 && (check_rank == 0 || check_rank == last))
            exchange(last - check_rank, 100, 1);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (check_size > 1 && (check_rank == 0 || check_rank == last)) {
        for (int length = 1, seed = 2; length < 5000000; length *= 5, ++seed)
            exchange(last - check_rank, length, seed);
        if (path && check_rank == 0) {
            FILE* file = fopen(path, "w");
            CHECK(file != NULL);
            fclose(file);
        }
    } else if (path && check_size > 2) {
        volatile double sum = 0;
        while (access(path, F_OK) != 0)
            for (int i = 1; i < 100000; ++i) sum += 1.0 / i;
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    return finish();
}
