/* Goal: three rules of one-sided access that are easily broken (MPI-5.0 sections 12.5, 12.7): what
 * a get brought is what was there in the epoch, whatever the target does afterwards; who polls its
 * own window by calls that only flush lets others in; pieces attached side by side are one. Method:
 * large gets and late changes, a poll for another rank's flag, an access across two pieces.
 */
#include "check.h"

enum { kMany = 100000 };
static int window_memory[kMany + 8], got[kMany];

static void gets_before_changes(void) {
    MPI_Win win;
    MPI_Group world, other;
    int i, loop, peer = 1 - check_rank, wrong = 0;
    CHECK_OK(MPI_Win_create(window_memory, sizeof window_memory, sizeof(int), MPI_INFO_NULL,
                            MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    if (check_rank < 2) CHECK_OK(MPI_Group_incl(world, 1, &peer, &other));
    for (loop = 0; loop < 4; ++loop) {
        context("get, complete, change; loop %d", loop);
        for (i = 0; i < kMany; ++i) window_memory[i] = 1, got[i] = 0;
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            CHECK_OK(MPI_Win_start(other, 0, win));
            CHECK_OK(MPI_Get(got, kMany, MPI_INT, 1, 0, kMany, MPI_INT, win));
            CHECK_OK(MPI_Win_complete(win));
            for (i = 0; i < kMany; ++i) wrong += got[i] != 1;
            CHECK_EQ(0, wrong);
        } else if (check_rank == 1) {
            CHECK_OK(MPI_Win_post(other, 0, win));
            CHECK_OK(MPI_Win_wait(win));
            for (i = 0; i < kMany; ++i) window_memory[i] = 2;
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (check_rank < 2) CHECK_OK(MPI_Group_free(&other));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Win_free(&win));
}

/* Rank 0 waits for rank 1's word in its own memory, through one-sided calls to itself. */
static void poll_own_window(void) {
    MPI_Win win;
    static int flag;
    int seen = 0, one = 1;
    MPI_Aint place;
    context("poll by flushes");
    flag = 0;
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_attach(win, &flag, sizeof flag));
    CHECK_OK(MPI_Get_address(&flag, &place));
    CHECK_OK(MPI_Bcast(&place, 1, MPI_AINT, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock_all(0, win));
    if (check_rank == 1) {
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_REPLACE, win));
        CHECK_OK(MPI_Win_flush(0, win));
    }
    while (check_rank == 0 && !seen) {
        MPI_Get_accumulate(NULL, 0, MPI_INT, &seen, 1, MPI_INT, 0, place, 1, MPI_INT, MPI_NO_OP,
                           win);
        MPI_Win_flush(0, win);
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_detach(win, &flag));
    CHECK_OK(MPI_Win_free(&win));
}

static void neighbouring_pieces(void) {
    MPI_Win win;
    static int memory[96];
    int data[48], back[48], i, wrong = 0, to = (check_rank + 1) % check_size;
    MPI_Aint place, places[16];
    context("pieces side by side");
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_attach(win, memory, 32 * sizeof(int)));
    CHECK_OK(MPI_Win_attach(win, memory + 32, 32 * sizeof(int)));
    CHECK_OK(MPI_Get_address(memory, &place));
    CHECK_OK(MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD));
    for (i = 0; i < 48; ++i) data[i] = check_rank + i, back[i] = -1;
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Put(data, 48, MPI_INT, to, places[to], 48, MPI_INT, win));
    CHECK_OK(MPI_Win_flush(to, win));
    CHECK_OK(MPI_Get(back, 48, MPI_INT, to, places[to], 48, MPI_INT, win));
    CHECK_OK(MPI_Win_flush(to, win));
    for (i = 0; i < 48; ++i) wrong += back[i] != data[i];
    CHECK_EQ(0, wrong);
    /* What is attached ends after 64. */
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    {
        int error = MPI_Put(data, 48, MPI_INT, to, places[to] + 32 * (MPI_Aint)sizeof(int), 48,
                            MPI_INT, win);
        if (error == MPI_SUCCESS) error = MPI_Win_flush(to, win);
        CHECK(error != MPI_SUCCESS);
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_detach(win, memory));
    CHECK_OK(MPI_Win_detach(win, memory + 32));
    CHECK_OK(MPI_Win_free(&win));
}

static void arguments(void) {
    MPI_Win win;
    float value = 1, compare = 0, result = 0;
    int size = 1;
    context("compare and swap of a float");
    CHECK_OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    MPI_Error_class(MPI_Compare_and_swap(&value, &compare, &result, MPI_FLOAT, check_rank, 0, win),
                    &size);
    CHECK_EQ(MPI_ERR_TYPE, size);
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    CHECK_OK(MPI_Win_free(&win));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    if (check_size >= 2) gets_before_changes();
    if (check_size >= 2) poll_own_window();
    neighbouring_pieces();
    arguments();
    return finish();
}
