// tests/metal/collectives.cc: reductions by the GPU inside collectives, through the whole library.
// Goal: a collective whose reductions a device makes gives what the CPU's would, blocks nothing
// while the device works, and ends at every rank when the device fails. Method: ranks as threads
// over real transports, Metal's stand-in (mock.cc) running reduce.metal's kernels on threads of its
// own.
#include "accel/choose.h"
#include "tests/metal/mock.h"
#include "tests/threads/thread_world.h"

#include <gtest/gtest.h>

#include <atomic>

namespace pomona {
namespace {

const std::vector<Candidate> only_metal = {{Module::metal, find_metal_kernel}};

class DeviceCollectives : public testing::TestWithParam<ThreadForm> {
protected:
    void SetUp() override {
        mock_reset();
        mock_faults.delay_us = 300;
        install_choices({}, only_metal, "metal");
    }
    void TearDown() override {
        uninstall_choices();
        mock_reset();
    }
};

template <class T> T value(int rank, size_t i) {
    return static_cast<T>((i * 7 + 3) % 50) + T(rank);
}

template <class T> T sum(int size, size_t i) {
    T total = 0;
    for (int r = 0; r < size; ++r) total += value<T>(r, i);
    return total;
}

template <class T> std::vector<T> values(int rank, size_t count) {
    std::vector<T> made(count);
    for (size_t i = 0; i < count; ++i) made[i] = value<T>(rank, i);
    return made;
}

template <class T> void expect_sums(const std::vector<T>& out, int size, size_t first = 0) {
    for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], sum<T>(size, first + i)) << "element " << i << " of " << out.size();
}

template <class T> void blocking(int rank, int size, MPI_Datatype type) {
    for (size_t count : {1, 77, 5000, 40000}) {
        auto n = static_cast<int>(count);
        std::vector<T> in = values<T>(rank, count), out(count);
        MPI_Allreduce(in.data(), out.data(), n, type, MPI_SUM, MPI_COMM_WORLD);
        expect_sums(out, size);
        std::vector<T> both = in;
        MPI_Allreduce(MPI_IN_PLACE, both.data(), n, type, MPI_MAX, MPI_COMM_WORLD);
        ASSERT_EQ(both, values<T>(size - 1, count));
        int root = n % size;
        std::fill(out.begin(), out.end(), T(0));
        MPI_Reduce(in.data(), out.data(), n, type, MPI_SUM, root, MPI_COMM_WORLD);
        if (rank == root) expect_sums(out, size);
        std::vector<T> all = values<T>(rank, count * static_cast<size_t>(size));
        MPI_Reduce_scatter_block(all.data(), out.data(), n, type, MPI_SUM, MPI_COMM_WORLD);
        expect_sums(out, size, count * static_cast<size_t>(rank));
        std::vector<int> counts(static_cast<size_t>(size), n);
        counts.back() = 0;
        MPI_Reduce_scatter(all.data(), out.data(), counts.data(), type, MPI_MIN, MPI_COMM_WORLD);
        if (rank < size - 1) {
            ASSERT_EQ(out[count - 1], value<T>(0, count * static_cast<size_t>(rank) + count - 1));
        }
        MPI_Scan(in.data(), out.data(), n, type, MPI_SUM, MPI_COMM_WORLD);
        expect_sums(out, rank + 1);
    }
}

TEST_P(DeviceCollectives, give_what_the_cpu_would) {
    run_threads(GetParam().job, [&](int rank) {
        blocking<float>(rank, GetParam().job.ranks, MPI_FLOAT);
        blocking<int64_t>(rank, GetParam().job.ranks, MPI_INT64_T);
        blocking<double>(rank, GetParam().job.ranks, MPI_DOUBLE);  // not for this GPU
    });
    EXPECT_GT(mock_dispatches(), 0u) << "the device had nothing to do";
}

TEST_P(DeviceCollectives, several_at_once_and_again_and_again) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        constexpr size_t kFlights = 5;
        std::vector<std::vector<int>> in, out;
        std::vector<MPI_Request> requests(kFlights), started(kFlights);
        for (size_t f = 0; f < kFlights; ++f) {
            in.push_back(values<int>(rank, 1 + f * 4001));
            out.emplace_back(in[f].size());
            auto n = static_cast<int>(in[f].size());
            MPI_Allreduce_init(in[f].data(), out[f].data(), n, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                               MPI_INFO_NULL, &started[f]);
        }
        for (int round = 0; round < 4; ++round) {
            for (size_t f = 0; f < kFlights; ++f)
                MPI_Iallreduce(in[f].data(), out[f].data(), static_cast<int>(in[f].size()), MPI_INT,
                               MPI_SUM, MPI_COMM_WORLD, &requests[f]);
            int done = 0;
            while (!done) MPI_Testall(kFlights, requests.data(), &done, MPI_STATUSES_IGNORE);
            for (auto& each : out) expect_sums(each, size), each.assign(each.size(), -1);
            MPI_Startall(kFlights, started.data());
            MPI_Waitall(kFlights, started.data(), MPI_STATUSES_IGNORE);
            for (auto& each : out) expect_sums(each, size), each.assign(each.size(), -1);
        }
        for (MPI_Request& request : started) MPI_Request_free(&request);
    });
}

// The device holds its work back until other messages and collectives have passed by it.
TEST_P(DeviceCollectives, block_nothing_else) {
    mock_faults.hold = true;
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        std::vector<float> in = values<float>(rank, 30000), out(in.size());
        MPI_Request request;
        MPI_Iallreduce(in.data(), out.data(), 30000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        int token = rank, from = -1, done = 0;
        for (int round = 0; round < 20; ++round) {
            MPI_Sendrecv(&token, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT,
                         (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            ASSERT_EQ(from, (rank + size - 1) % size);
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            ASSERT_FALSE(done) << "ended before the device had run";
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) mock_let_go();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect_sums(out, size);
    });
}

INSTANTIATE_TEST_SUITE_P(Forms, DeviceCollectives, testing::ValuesIn(thread_forms()),
                         [](const auto& form) { return form_name(form.param); });

// One reduction of one rank fails: every rank is told, or has the right result; then all goes on.
TEST(DeviceFailure, ends_everywhere_with_an_error_or_the_result) {
    int failures = 0;
    for (const char* algorithm : {"recursive_doubling", "ring", "rabenseifner", "tree"})
        for (int failing : {0, 1, 2}) {  // a tree of 4 ranks has 3 reductions
            SCOPED_TRACE(std::string(algorithm) + ", reduction " + std::to_string(failing));
            mock_reset();
            mock_faults.delay_us = 200;
            mock_faults.failing_command = failing;
            install_choices({}, only_metal, "metal");
            std::atomic<int> told{0};
            ThreadJob job{4,
                          failing ? "shm" : "tcp",
                          MPI_THREAD_SINGLE,
                          {std::string("POMONA_ALLREDUCE=") + algorithm}};
            run_threads(job, [&](int rank) {
                MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
                std::vector<float> in = values<float>(rank, 20000), out(in.size());
                int error =
                    MPI_Allreduce(in.data(), out.data(), 20000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                if (error != MPI_SUCCESS) {
                    int kind = 0;
                    MPI_Error_class(error, &kind);
                    EXPECT_EQ(kind, MPI_ERR_OTHER);
                    ++told;
                } else {
                    expect_sums(out, 4);
                }
                MPI_Barrier(MPI_COMM_WORLD);
                error =
                    MPI_Allreduce(in.data(), out.data(), 20000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                ASSERT_EQ(error, MPI_SUCCESS);
                expect_sums(out, 4);
            });
            failures += told;
            uninstall_choices();
        }
    EXPECT_GT(failures, 0);
    mock_reset();
}

// A measured crossover: small reductions never reach the device.
TEST(DeviceChoice, goes_by_size) {
    mock_reset();
    ChoicePoint small, large;
    small.bytes = 4096, large.bytes = 65536, large.best = Module::metal;
    Choices choices{machine_key(), {{ReduceOp::sum, ElementType::f32, {small, large}, {}}}};
    install_choices(choices, only_metal, "auto");
    for (size_t count : {1000, 100000}) {
        run_threads({2, "shm", MPI_THREAD_SINGLE, {"POMONA_ALLREDUCE=recursive_doubling"}},
                    [&](int rank) {
                        std::vector<float> in = values<float>(rank, count), out(count);
                        MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT,
                                      MPI_SUM, MPI_COMM_WORLD);
                        expect_sums(out, 2);
                    });
        EXPECT_EQ(mock_dispatches() > 0, count > 16384);
    }
    uninstall_choices();
}

}  // namespace
}  // namespace pomona
