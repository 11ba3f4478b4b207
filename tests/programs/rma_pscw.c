/* Goal: post, start, complete, wait and test. Method: a ring: everybody exposes its memory to its
 * left neighbour and writes to its right one, in many rounds without any other synchronisation.
 */
#include "check.h"

int main(int argc, char** argv) {
    enum { n = 3000 };
    static int memory[n], out[n], in[n];
    MPI_Win win;
    MPI_Group world, left, right;
    int round, i, bad, flag, from, to;
    start(&argc, &argv);
    to = (check_rank + 1) % check_size;
    from = (check_rank + check_size - 1) % check_size;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_get_group(win, &world));
    CHECK_OK(MPI_Group_incl(world, 1, &from, &left));
    CHECK_OK(MPI_Group_incl(world, 1, &to, &right));
    for (round = 0; round < 50; ++round) {
        int count = round % 2 ? n : 5;
        context("round %d", round);
        for (i = 0; i < n; ++i) memory[i] = -1, out[i] = round * 10000 + check_rank * 100000 + i;
        CHECK_OK(MPI_Win_post(left, 0, win));
        CHECK_OK(MPI_Win_start(right, 0, win));
        CHECK_OK(MPI_Put(out, count, MPI_INT, to, 0, count, MPI_INT, win));
        CHECK_OK(MPI_Win_complete(win));
        if (round % 3 == 0) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Win_test(win, &flag));
        } else {
            CHECK_OK(MPI_Win_wait(win));
        }
        for (bad = 0, i = 0; i < n; ++i)
            bad += memory[i] != (i < count ? round * 10000 + from * 100000 + i : -1);
        CHECK_EQ(0, bad);
        CHECK_OK(MPI_Win_post(left, 0, win));
        CHECK_OK(MPI_Win_start(right, 0, win));
        CHECK_OK(MPI_Get(in, count, MPI_INT, to, 0, count, MPI_INT, win));
        CHECK_OK(MPI_Win_complete(win));
        CHECK_MEM(out, in, (size_t)count * sizeof(int));
        CHECK_OK(MPI_Win_wait(win));
    }
    CHECK_OK(MPI_Group_free(&left));
    CHECK_OK(MPI_Group_free(&right));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Win_free(&win));
    return finish();
}
