// tests/threads/collectives.cc: collectives between ranks that are threads.
// Goal: no data race and no wrong value in blocking, non-blocking and persistent collectives,
// several at once, on several communicators. Method: values that tell rank and position; every
// algorithm of MPI_Allreduce that can serve is forced once.
#include "btl/base/format.h"
#include "tests/threads/thread_world.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

class Collectives : public testing::TestWithParam<ThreadForm> {};

void blocking(int rank, int size, MPI_Comm comm) {
    for (int count : {1, 100, 20000}) {
        auto n = static_cast<size_t>(count);
        auto all = n * static_cast<size_t>(size);
        std::vector<int64_t> in(n), out(n), every(all), gathered(all);
        for (size_t i = 0; i < n; ++i) in[i] = rank + static_cast<int64_t>(i);
        MPI_Allreduce(in.data(), out.data(), count, MPI_INT64_T, MPI_SUM, comm);
        for (size_t i = 0; i < n; ++i)
            ASSERT_EQ(out[i], size * (size - 1) / 2 + size * static_cast<int64_t>(i));
        MPI_Allgather(in.data(), count, MPI_INT64_T, every.data(), count, MPI_INT64_T, comm);
        for (int r = 0; r < size; ++r)
            ASSERT_EQ(every[n * static_cast<size_t>(r) + n - 1], r + count - 1);
        MPI_Alltoall(every.data(), count, MPI_INT64_T, gathered.data(), count, MPI_INT64_T, comm);
        for (int r = 0; r < size; ++r) ASSERT_EQ(gathered[n * static_cast<size_t>(r)], rank);
        MPI_Reduce_scatter_block(every.data(), out.data(), count, MPI_INT64_T, MPI_SUM, comm);
        ASSERT_EQ(out[0], size * rank);
        int root = count % size;
        MPI_Gather(in.data(), count, MPI_INT64_T, gathered.data(), count, MPI_INT64_T, root, comm);
        MPI_Scatter(gathered.data(), count, MPI_INT64_T, out.data(), count, MPI_INT64_T, root,
                    comm);
        ASSERT_EQ(out[n - 1], rank + count - 1);
        MPI_Scan(in.data(), out.data(), count, MPI_INT64_T, MPI_MAX, comm);
        ASSERT_EQ(out[0], rank);
        MPI_Bcast(in.data(), count, MPI_INT64_T, size - 1, comm);
        ASSERT_EQ(in[0], size - 1);
        MPI_Barrier(comm);
    }
}

TEST_P(Collectives, blocking_on_parts_and_duplicates) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        blocking(rank, size, MPI_COMM_WORLD);
        MPI_Comm twin, half;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Comm_split(twin, rank % 2, -rank, &half);
        blocking(rank, size, twin);
        int own = -1, members = 0;
        MPI_Comm_rank(half, &own);
        MPI_Comm_size(half, &members);
        blocking(own, members, half);
        MPI_Comm_free(&half);
        MPI_Comm_free(&twin);
    });
}

TEST_P(Collectives, many_at_once) {
    constexpr int kFlights = 8, kCount = 3000;
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        std::vector<std::vector<int>> in(kFlights, std::vector<int>(kCount)), out = in;
        std::vector<MPI_Request> requests(kFlights + 2);
        for (int round = 0; round < 5; ++round) {
            for (int f = 0; f < kFlights; ++f) {
                auto& data = in[static_cast<size_t>(f)];
                for (int i = 0; i < kCount; ++i)
                    data[static_cast<size_t>(i)] = rank * f + i + round;
                MPI_Iallreduce(data.data(), out[static_cast<size_t>(f)].data(), f % 2 ? kCount : 3,
                               MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[static_cast<size_t>(f)]);
            }
            int told = rank == 1 ? 4711 + round : 0;
            MPI_Ibcast(&told, 1, MPI_INT, 1, MPI_COMM_WORLD, &requests[kFlights]);
            MPI_Ibarrier(MPI_COMM_WORLD, &requests[kFlights + 1]);
            int done = 0;
            while (!done) MPI_Testall(kFlights + 2, requests.data(), &done, MPI_STATUSES_IGNORE);
            ASSERT_EQ(told, 4711 + round);
            for (int f = 0; f < kFlights; ++f)
                for (int i = 0; i < (f % 2 ? kCount : 3); ++i)
                    ASSERT_EQ(out[static_cast<size_t>(f)][static_cast<size_t>(i)],
                              size * (size - 1) / 2 * f + size * (i + round));
        }
    });
}

TEST_P(Collectives, persistent) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        std::vector<double> in(5000), out(5000);
        MPI_Request request;
        MPI_Allreduce_init(in.data(), out.data(), 5000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                           MPI_INFO_NULL, &request);
        for (int round = 0; round < 8; ++round) {
            for (size_t i = 0; i < in.size(); ++i) in[i] = rank + round + static_cast<double>(i);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (size_t i = 0; i < in.size(); i += 7)
                ASSERT_EQ(out[i], size * (size - 1) / 2 + size * (round + static_cast<double>(i)));
        }
        MPI_Request_free(&request);
    });
}

INSTANTIATE_TEST_SUITE_P(Forms, Collectives, testing::ValuesIn(thread_forms()),
                         [](const auto& form) { return form_name(form.param); });

// Each algorithm by name: all share the runner, but not the order of their steps.
TEST(CollectiveAlgorithms, of_allreduce_by_name) {
    for (const char* name : {"recursive_doubling", "ring", "rabenseifner", "tree"})
        for (const char* transport : {"shm", "tcp"}) {
            SCOPED_TRACE(format("{} over {}", name, transport));
            ThreadJob job{4, transport, MPI_THREAD_SINGLE, {format("POMONA_ALLREDUCE={}", name)}};
            run_threads(job, [&](int rank) {
                std::vector<int> in(7001), out(7001);
                for (size_t i = 0; i < in.size(); ++i) in[i] = rank * 3 + static_cast<int>(i);
                MPI_Allreduce(in.data(), out.data(), 7001, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                for (size_t i = 0; i < in.size(); ++i)
                    ASSERT_EQ(out[i], 18 + 4 * static_cast<int>(i));
            });
        }
}

// Another thread of each rank helps with reductions, several at once.
TEST(CollectiveAlgorithms, of_long_sums_that_a_thread_helps_with) {
    for (const char* transport : {"shm", "tcp"}) {
        SCOPED_TRACE(transport);
        ThreadJob job{3,
                      transport,
                      MPI_THREAD_SINGLE,
                      {"POMONA_REDUCE_THREAD=thread", "POMONA_ALLREDUCE=ring:segments=2",
                       "POMONA_REDUCE_SCATTER=ring:segments=2"}};
        run_threads(job, [&](int rank) {
            constexpr int count = 600'000, parts = 3;
            std::vector<int> in(count), out(count), twice(count), part(count / parts);
            for (int round = 0; round < 3; ++round) {
                for (int i = 0; i < count; ++i) in[static_cast<size_t>(i)] = rank * round + i;
                MPI_Request requests[3];
                MPI_Iallreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                               &requests[0]);
                MPI_Iallreduce(in.data(), twice.data(), count, MPI_INT, MPI_MAX, MPI_COMM_WORLD,
                               &requests[1]);
                MPI_Ireduce_scatter_block(in.data(), part.data(), count / parts, MPI_INT, MPI_SUM,
                                          MPI_COMM_WORLD, &requests[2]);
                MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
                for (int i = 0; i < count; i += 11) {
                    ASSERT_EQ(out[static_cast<size_t>(i)], 3 * round + 3 * i);
                    ASSERT_EQ(twice[static_cast<size_t>(i)], 2 * round + i);
                }
                for (int i = 0; i < count / parts; ++i)
                    ASSERT_EQ(part[static_cast<size_t>(i)],
                              3 * round + 3 * (i + rank * (count / parts)));
            }
        });
    }
}

}  // namespace
}  // namespace pomona
