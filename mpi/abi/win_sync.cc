// mpi/abi/win_sync.cc: epochs: fences, post-start-complete-wait, locks and flushes (MPI 5.0,
// section 12.5).
#include "mpi/abi/define.h"
#include "mpi/abi/win_internal.h"

using namespace pomona;

// ---- fence

POMONA_MPI(int, Win_fence, (int assert, MPI_Win win)) {
    WIN_ARGUMENT();
    constexpr int known =
        MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    WIN_REQUIRE((assert & ~known) == 0, MPI_ERR_ASSERT, "assert is {}, which has unknown bits",
                assert);
    return report(__func__, *window, window->fence(assert));
}

// ---- post, start, complete, wait

POMONA_MPI(int, Win_post, (MPI_Group group, int assert, MPI_Win win)) {
    WIN_ARGUMENT();
    Group* members = resolve(group);
    WIN_REQUIRE(members, MPI_ERR_GROUP, "group is not a valid group");
    constexpr int known = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT;
    WIN_REQUIRE((assert & ~known) == 0, MPI_ERR_ASSERT, "assert is {}, which has unknown bits",
                assert);
    return report(__func__, *window, window->post(*members));
}

POMONA_MPI(int, Win_start, (MPI_Group group, int assert, MPI_Win win)) {
    WIN_ARGUMENT();
    Group* members = resolve(group);
    WIN_REQUIRE(members, MPI_ERR_GROUP, "group is not a valid group");
    WIN_REQUIRE((assert & ~MPI_MODE_NOCHECK) == 0, MPI_ERR_ASSERT,
                "assert is {}, which has unknown bits", assert);
    return report(__func__, *window, window->start(*members, assert));
}

POMONA_MPI(int, Win_complete, (MPI_Win win)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->complete());
}

POMONA_MPI(int, Win_wait, (MPI_Win win)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->wait(nullptr));
}

POMONA_MPI(int, Win_test, (MPI_Win win, int* flag)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(flag, MPI_ERR_ARG, "flag is a null pointer");
    bool over = false;
    RmaError result = window->wait(&over);
    *flag = over;
    return report(__func__, *window, result);
}

// ---- locks

POMONA_MPI(int, Win_lock, (int lock_type, int rank, int assert, MPI_Win win)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(lock_type == MPI_LOCK_EXCLUSIVE || lock_type == MPI_LOCK_SHARED, MPI_ERR_LOCKTYPE,
                "lock_type is {}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED", lock_type);
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    WIN_RANK(rank);
    WIN_REQUIRE((assert & ~MPI_MODE_NOCHECK) == 0, MPI_ERR_ASSERT,
                "assert is {}, which has unknown bits", assert);
    return report(__func__, *window, window->lock(lock_type, rank, assert));
}

POMONA_MPI(int, Win_unlock, (int rank, MPI_Win win)) {
    WIN_ARGUMENT();
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    WIN_RANK(rank);
    return report(__func__, *window, window->unlock(rank));
}

POMONA_MPI(int, Win_lock_all, (int assert, MPI_Win win)) {
    WIN_ARGUMENT();
    WIN_REQUIRE((assert & ~MPI_MODE_NOCHECK) == 0, MPI_ERR_ASSERT,
                "assert is {}, which has unknown bits", assert);
    return report(__func__, *window, window->lock_all(assert));
}

POMONA_MPI(int, Win_unlock_all, (MPI_Win win)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->unlock_all());
}

// ---- flushes

POMONA_MPI(int, Win_flush, (int rank, MPI_Win win)) {
    WIN_ARGUMENT();
    if (window->flush_at_once(rank)) return MPI_SUCCESS;
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    WIN_RANK(rank);
    return report(__func__, *window, window->flush(rank, false));
}

POMONA_MPI(int, Win_flush_local, (int rank, MPI_Win win)) {
    WIN_ARGUMENT();
    if (window->flush_at_once(rank)) return MPI_SUCCESS;
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    WIN_RANK(rank);
    return report(__func__, *window, window->flush(rank, true));
}

POMONA_MPI(int, Win_flush_all, (MPI_Win win)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->flush_all(false));
}

POMONA_MPI(int, Win_flush_local_all, (MPI_Win win)) {
    WIN_ARGUMENT();
    return report(__func__, *window, window->flush_all(true));
}

// Processor and compiler see each other's stores in shared memory afterwards; a program that polls
// memory with MPI_Win_sync lets others' commands in, too.
POMONA_MPI(int, Win_sync, (MPI_Win win)) {
    WIN_ARGUMENT();
    window->sync();
    window->engine().test_turn();
    return MPI_SUCCESS;
}
