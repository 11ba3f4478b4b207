// tests/threads/onesided.cc: windows between ranks that are threads.
// Goal: no data race in windows: commands, agents, locks of shared windows, all three kinds of
// epochs.
// Method: counters that every rank adds to, neighbours' cells, under fence, locks and post-start.
#include "tests/threads/thread_world.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

class OneSided : public testing::TestWithParam<ThreadForm> {};

// A window made over own memory (commands), or allocated (memory of one node: direct access).
struct Counted {
    MPI_Win window = MPI_WIN_NULL;
    int64_t* cells = nullptr;
    std::vector<int64_t> own;
    Counted(bool allocate, int count) {
        auto bytes = static_cast<MPI_Aint>(sizeof(int64_t)) * count;
        if (allocate) {
            MPI_Win_allocate(bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &cells,
                             &window);
        } else {
            own.resize(static_cast<size_t>(count));
            cells = own.data();
            MPI_Win_create(cells, bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank(), 0, window);
        for (int i = 0; i < count; ++i) cells[i] = 0;
        MPI_Win_unlock(rank(), window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    ~Counted() { MPI_Win_free(&window); }
    static int rank() {
        int own = -1;
        MPI_Comm_rank(MPI_COMM_WORLD, &own);
        return own;
    }
};

TEST_P(OneSided, fences) {
    int size = GetParam().job.ranks;
    for (bool allocate : {false, true})
        run_threads(GetParam().job, [&](int rank) {
            Counted made(allocate, 5000);
            std::vector<int64_t> out(5000), back(5000);
            MPI_Win_fence(0, made.window);
            for (int round = 0; round < 6; ++round) {
                int to = (rank + 1) % size, from = (rank + size - 1) % size,
                    n = round % 2 ? 5000 : 9;
                for (size_t i = 0; i < out.size(); ++i) out[i] = rank * 100 + round;
                MPI_Put(out.data(), n, MPI_INT64_T, to, 0, n, MPI_INT64_T, made.window);
                MPI_Win_fence(0, made.window);
                ASSERT_EQ(made.cells[n - 1], from * 100 + round);
                MPI_Win_fence(0, made.window);
                MPI_Get(back.data(), n, MPI_INT64_T, to, 0, n, MPI_INT64_T, made.window);
                MPI_Win_fence(0, made.window);
                ASSERT_EQ(back[0], rank * 100 + round);
            }
        });
}

TEST_P(OneSided, accumulations_of_all_under_locks) {
    int size = GetParam().job.ranks;
    for (bool allocate : {false, true})
        run_threads(GetParam().job, [&](int rank) {
            Counted made(allocate, 8);
            int64_t one = 1, old = 0;
            for (int round = 0; round < 30; ++round) {
                int to = (rank + round) % size;
                MPI_Win_lock(MPI_LOCK_SHARED, to, 0, made.window);
                MPI_Accumulate(&one, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, MPI_SUM, made.window);
                MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, 1, MPI_SUM, made.window);
                MPI_Win_unlock(to, made.window);
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, made.window);
                MPI_Get(&old, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, made.window);
                MPI_Win_flush(0, made.window);
                ++old;
                MPI_Put(&old, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, made.window);
                MPI_Win_unlock(0, made.window);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, made.window);
            EXPECT_EQ(made.cells[0], 30);
            EXPECT_EQ(made.cells[1], 30);
            if (rank == 0) { EXPECT_EQ(made.cells[2], 30 * size); }
            MPI_Win_unlock(rank, made.window);
            MPI_Barrier(MPI_COMM_WORLD);
        });
}

TEST_P(OneSided, post_start_complete_wait) {
    int size = GetParam().job.ranks;
    for (bool allocate : {false, true})
        run_threads(GetParam().job, [&](int rank) {
            Counted made(allocate, 3000);
            MPI_Group world, next, before;
            MPI_Comm_group(MPI_COMM_WORLD, &world);
            int to = (rank + 1) % size, from = (rank + size - 1) % size;
            MPI_Group_incl(world, 1, &to, &next);
            MPI_Group_incl(world, 1, &from, &before);
            std::vector<int64_t> out(3000);
            for (int round = 0; round < 8; ++round) {
                for (size_t i = 0; i < out.size(); ++i) out[i] = rank + round + static_cast<int>(i);
                MPI_Win_post(before, 0, made.window);
                MPI_Win_start(next, 0, made.window);
                MPI_Put(out.data(), 3000, MPI_INT64_T, to, 0, 3000, MPI_INT64_T, made.window);
                MPI_Win_complete(made.window);
                MPI_Win_wait(made.window);
                for (int i = 0; i < 3000; i += 11) ASSERT_EQ(made.cells[i], from + round + i);
            }
            for (MPI_Group* group : {&world, &next, &before}) MPI_Group_free(group);
        });
}

INSTANTIATE_TEST_SUITE_P(Forms, OneSided, testing::ValuesIn(thread_forms()),
                         [](const auto& form) { return form_name(form.param); });

}  // namespace
}  // namespace pomona
