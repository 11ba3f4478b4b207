/* Goal: what the groups of one MPI_Comm_split make in shared memory is their own: windows of both
 * kinds, sums on them, and the shared pointers of files. Method: the groups make, use and free
 * windows again and again without waiting for each other, so that the makings of both meet in time
 * in every order.
 */
#include "io_files.h"

enum { rounds = 200, numbers = 100 };

static MPI_Comm part;
static int part_rank, part_size, colour;

/* Every member's part holds what its owner wrote, and no other group's marks. */
static void shared(int round) {
    MPI_Win win;
    MPI_Aint size;
    int *mine, *theirs, unit, i, peer = (part_rank + 1) % part_size;
    context("shared, round %d, group %d", round, colour);
    if (!CHECK_OK(MPI_Win_allocate_shared(numbers * sizeof(int), sizeof(int), MPI_INFO_NULL, part,
                                          &mine, &win)))
        return;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (i = 0; i < numbers; ++i) mine[i] = 1000 * round + check_rank;
    MPI_Win_sync(win);
    MPI_Barrier(part);
    MPI_Win_sync(win);
    CHECK_OK(MPI_Win_shared_query(win, peer, &size, &unit, &theirs));
    for (i = 0; i < numbers; ++i) {
        if (theirs[i] != theirs[0]) break;
    }
    CHECK_EQ(numbers, i);
    /* The peer's rank in the world, by the split's order. */
    CHECK_EQ(1000 * round + 2 * peer + colour, theirs[0]);
    MPI_Barrier(part);
    MPI_Win_unlock_all(win);
    CHECK_OK(MPI_Win_free(&win));
}

static void sums(int round) {
    MPI_Win win;
    long long *memory, one = check_rank + 1, expected = 0;
    int i;
    context("sums, round %d, group %d", round, colour);
    if (!CHECK_OK(MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, part, &memory, &win)))
        return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, part_rank, 0, win);
    *memory = 0;
    MPI_Win_unlock(part_rank, win);
    MPI_Barrier(part);
    MPI_Win_fence(0, win);
    for (i = 0; i < part_size; ++i) {
        MPI_Accumulate(&one, 1, MPI_LONG_LONG, i, 0, 1, MPI_LONG_LONG, MPI_SUM, win);
        expected += 2 * i + colour + 1;
    }
    MPI_Win_fence(0, win);
    CHECK_EQ(expected, *memory);
    CHECK_OK(MPI_Win_free(&win));
}

/* Each group has its file and its shared pointer: the members' numbers stand there once each. */
static void files(int round) {
    MPI_File file;
    char name[2][300];
    int i, number = check_rank, *all = malloc(sizeof(int) * (size_t)part_size);
    new_name(name[0], sizeof name[0]);
    new_name(name[1], sizeof name[1]);
    context("files, round %d, group %d", round, colour);
    CHECK_OK(MPI_File_open(part, name[colour], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                           MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_write_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_shared(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_sync(file));
    MPI_Barrier(part);
    CHECK_OK(MPI_File_read_at(file, 0, all, part_size * (int)sizeof(int), MPI_BYTE, MPI_STATUS_IGNORE));
    for (i = 0; i < part_size; ++i) CHECK_EQ(2 * i + colour, all[i]);
    MPI_Offset end;
    CHECK_OK(MPI_File_get_size(file, &end));
    CHECK_EQ(2 * part_size * (int)sizeof(int), end);
    MPI_Barrier(part);
    CHECK_OK(MPI_File_close(&file));
    free(all);
}

int main(int argc, char** argv) {
    int round;
    start(&argc, &argv);
    colour = check_rank % 2;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, colour, check_rank, &part));
    MPI_Comm_rank(part, &part_rank);
    MPI_Comm_size(part, &part_size);
    for (round = 0; round < rounds; ++round) shared(round);
    for (round = 0; round < rounds; ++round) sums(round);
    for (round = 0; round < 10; ++round) files(round);
    MPI_Comm_free(&part);
    return finish();
}
