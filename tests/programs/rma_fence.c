/* Goal: fences and the three basic operations, of all sizes: short data, long data, strided types.
 * Method: everybody writes its mark at everybody's, reads it back, and adds to it; windows made by
 * MPI_Win_create and MPI_Win_allocate.
 */
#include "check.h"

enum { block = 40000 };  /* ints for each member: beyond any short message */

static void basic(MPI_Win win, int* memory) {
    static int out[block], in[block];
    int counts[] = {1, 7, 900, block}, c, peer, i;
    for (c = 0; c < 4; ++c) {
        int n = counts[c], bad = 0;
        context("count %d", n);
        CHECK_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        for (i = 0; i < check_size * block; ++i) memory[i] = -1;
        for (i = 0; i < n; ++i) out[i] = check_rank * 1000000 + i;
        CHECK_OK(MPI_Win_fence(0, win));
        for (peer = 0; peer < check_size; ++peer)
            CHECK_OK(MPI_Put(out, n, MPI_INT, peer, check_rank * block, n, MPI_INT, win));
        CHECK_OK(MPI_Win_fence(0, win));
        for (peer = 0; peer < check_size; ++peer)
            for (i = 0; i < block; ++i)
                bad += memory[peer * block + i] != (i < n ? peer * 1000000 + i : -1);
        CHECK_EQ(0, bad);
        CHECK_OK(MPI_Win_fence(0, win));
        peer = (check_rank + 1) % check_size;
        memset(in, 0, sizeof in);
        CHECK_OK(MPI_Get(in, n, MPI_INT, peer, check_rank * block, n, MPI_INT, win));
        CHECK_OK(MPI_Win_fence(0, win));
        CHECK_MEM(out, in, (size_t)n * sizeof(int));
        /* Everybody adds to the whole of rank 0's part. */
        for (i = 0; i < n; ++i) out[i] = i + 1;
        if (check_rank == 0)
            for (i = 0; i < block; ++i) memory[i] = 5;
        CHECK_OK(MPI_Win_fence(0, win));
        CHECK_OK(MPI_Accumulate(out, n, MPI_INT, 0, 0, n, MPI_INT, MPI_SUM, win));
        CHECK_OK(MPI_Accumulate(out, n, MPI_INT, 0, 0, n, MPI_INT, MPI_SUM, win));
        CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        if (check_rank == 0) {
            for (bad = 0, i = 0; i < n; ++i) bad += memory[i] != 5 + 2 * check_size * (i + 1);
            CHECK_EQ(0, bad);
        }
    }
}

/* A column of a matrix goes to a row, and a row to a column. */
static void strided(MPI_Win win, int* memory) {
    enum { n = 300 };
    static int matrix[n * n], back[n * n];
    MPI_Datatype column;
    int i, bad = 0, peer = (check_rank + 1) % check_size;
    int from = (check_rank + check_size - 1) % check_size;
    if (n * n > check_size * block) return;
    context("strided");
    CHECK_OK(MPI_Type_vector(n, 1, n, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    for (i = 0; i < n * n; ++i) matrix[i] = check_rank * 100000 + i, back[i] = -1;
    for (i = 0; i < n * n; ++i) memory[i] = -1;
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(matrix, n, MPI_INT, peer, 3, 1, column, win));
    CHECK_OK(MPI_Put(matrix + 1, 1, column, peer, 5, 1, column, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (i = 0; i < n; ++i) {
        bad += memory[3 + i * n] != from * 100000 + i;
        bad += memory[5 + i * n] != from * 100000 + 1 + i * n;
        bad += memory[4 + i * n] != -1;
    }
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Get(back + 7, 1, column, peer, 3, 1, column, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (bad = 0, i = 0; i < n; ++i)
        bad += back[7 + i * n] != check_rank * 100000 + i || back[8 + i * n] != -1;
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Accumulate(matrix, 1, column, peer, 3, 1, column, MPI_MAX, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (bad = 0, i = 0; i < n; ++i) bad += memory[3 + i * n] != from * 100000 + i * n;
    CHECK_EQ(0, bad);
    CHECK_OK(MPI_Type_free(&column));
}

int main(int argc, char** argv) {
    MPI_Win win;
    int* memory;
    MPI_Aint bytes;
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    bytes = (MPI_Aint)check_size * (block < 90000 / check_size ? 90000 : block) * (MPI_Aint)sizeof(int);
    memory = malloc((size_t)bytes);
    CHECK_OK(MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    basic(win, memory);
    CHECK_OK(MPI_Win_fence(0, win));
    strided(win, memory);
    CHECK_OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
    free(memory);
    CHECK_OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    basic(win, memory);
    CHECK_OK(MPI_Win_fence(0, win));
    strided(win, memory);
    CHECK_OK(MPI_Win_free(&win));
    return finish();
}
