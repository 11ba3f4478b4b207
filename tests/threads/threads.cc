// tests/threads/threads.cc: MPI_THREAD_MULTIPLE, two and more threads a rank, and completion
// callbacks.
// Goal: threads of one rank share the engine without a data race: they wait, sleep, take over
// polling and complete each other's requests. Method: each thread checks all it receives.
#include "tests/threads/thread_world.h"

#include <atomic>
#include <gtest/gtest.h>

namespace pomona {
namespace {

std::vector<ThreadForm> threaded_forms() {
    std::vector<ThreadForm> chosen;
    for (ThreadForm& form : thread_forms())
        if (form.job.level == MPI_THREAD_MULTIPLE) chosen.push_back(form);
    return chosen;
}

class Threads : public testing::TestWithParam<ThreadForm> {};

// Runs `work(thread)` on `count` threads of the calling rank, the calling one among them.
void on_threads(int count, const std::function<void(int)>& work) {
    std::vector<std::thread> others;
    for (int t = 1; t < count; ++t) others.push_back(more_of_this_rank([&work, t] { work(t); }));
    work(0);
    for (std::thread& other : others) other.join();
}

TEST_P(Threads, rings_of_messages_and_collectives_at_once) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        std::vector<MPI_Comm> comms(2);
        for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        on_threads(2, [&](int thread) {
            MPI_Comm comm = comms[static_cast<size_t>(thread)];
            std::vector<int> out(6000), in(6000);
            for (int round = 0; round < 25; ++round) {
                int n = 1 + (round * 911 + thread * 37) % 5999;
                for (int i = 0; i < n; ++i)
                    out[static_cast<size_t>(i)] = rank + thread * 7 + round + i;
                MPI_Request requests[2];
                MPI_Status statuses[2];
                MPI_Irecv(in.data(), 6000, MPI_INT, round % 2 ? MPI_ANY_SOURCE : from, thread,
                          MPI_COMM_WORLD, &requests[0]);
                MPI_Isend(out.data(), n, MPI_INT, to, thread, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, statuses);
                int count = 0;
                MPI_Get_count(&statuses[0], MPI_INT, &count);
                ASSERT_EQ(count, n);
                for (int i = 0; i < n; ++i)
                    ASSERT_EQ(in[static_cast<size_t>(i)], from + thread * 7 + round + i);
                int mine = rank + round, sum = 0;
                MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
                ASSERT_EQ(sum, size * (size - 1) / 2 + size * round);
                if (round % 8 == 3) {
                    MPI_Comm twin;
                    MPI_Comm_dup(comm, &twin);
                    MPI_Barrier(twin);
                    MPI_Comm_free(&twin);
                }
            }
        });
        for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
    });
}

// Two threads of rank 0 take from any source; together they get every message once.
TEST_P(Threads, threads_share_what_comes_from_anywhere) {
    constexpr int kMessages = 60;
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        if (rank != 0) {
            on_threads(2, [&](int thread) {
                for (int m = 0; m < kMessages; ++m) {
                    int value = (rank * 2 + thread) * 1000 + m;
                    MPI_Send(&value, 1, MPI_INT, 0, thread, MPI_COMM_WORLD);
                }
            });
            return;
        }
        std::vector<std::atomic<int>> seen(static_cast<size_t>(size) * 2 * kMessages);
        on_threads(2, [&](int thread) {
            for (int m = 0; m < kMessages * (size - 1); ++m) {
                int value = -1;
                MPI_Status status;
                if ((m + thread) % 2) {
                    MPI_Message message;
                    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
                    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
                } else {
                    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                             &status);
                }
                ASSERT_EQ(value / 1000, status.MPI_SOURCE * 2 + status.MPI_TAG);
                seen[static_cast<size_t>(value / 1000 * kMessages + value % 1000)].fetch_add(1);
            }
        });
        for (size_t i = 2 * kMessages; i < seen.size(); ++i) EXPECT_EQ(seen[i].load(), 1) << i;
    });
}

// One thread waits for what another thread of the rank starts and what a third completes by
// polling.
TEST_P(Threads, one_waits_for_anothers_request) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        for (int round = 0; round < 15; ++round) {
            std::vector<int> in(20000, -1), out(20000, rank + round);
            MPI_Request receive, send;
            MPI_Irecv(in.data(), 20000, MPI_INT, from, round, MPI_COMM_WORLD, &receive);
            on_threads(2, [&](int thread) {
                if (thread == 0) {
                    MPI_Wait(&receive, MPI_STATUS_IGNORE);
                    return;
                }
                MPI_Isend(out.data(), 20000, MPI_INT, to, round, MPI_COMM_WORLD, &send);
                int done = 0;
                while (!done) MPI_Test(&send, &done, MPI_STATUS_IGNORE);
            });
            ASSERT_EQ(in[0], from + round);
            ASSERT_EQ(in[19999], from + round);
        }
    });
}

TEST_P(Threads, completion_callbacks_come_once) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        constexpr int kRequests = 30;
        struct Told {
            std::atomic<int> calls{0}, errors{0};
        } told;
        auto* function = +[](void* context, int error, const MPI_Status*) {
            auto* to_tell = static_cast<Told*>(context);
            to_tell->errors.fetch_add(error != MPI_SUCCESS);
            to_tell->calls.fetch_add(1);
        };
        std::vector<std::vector<int>> in(kRequests, std::vector<int>(800)), out = in;
        for (int k = 0; k < kRequests; ++k) {
            auto at = static_cast<size_t>(k);
            for (int i = 0; i < 800; ++i) in[at][static_cast<size_t>(i)] = rank * k + i;
            MPI_Request request;
            MPI_Iallreduce(in[at].data(), out[at].data(), 800, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                           &request);
            ASSERT_EQ(MPIX_Request_on_completion(&request, function, &told), MPI_SUCCESS);
        }
        while (told.calls.load() < kRequests) std::this_thread::yield();
        MPI_Barrier(MPI_COMM_WORLD);
        EXPECT_EQ(told.calls.load(), kRequests);
        EXPECT_EQ(told.errors.load(), 0);
        for (int k = 0; k < kRequests; ++k)
            for (int i = 0; i < 800; i += 13)
                ASSERT_EQ(out[static_cast<size_t>(k)][static_cast<size_t>(i)],
                          size * (size - 1) / 2 * k + size * i);
    });
}

TEST_P(Threads, completion_callbacks_hear_what_went_wrong) {
    run_threads(GetParam().job, [&](int rank) {
        struct Told {
            std::string text;
            std::atomic<bool> over{false};
        } told;
        auto* function = +[](void* context, int error, const MPI_Status*) {
            char text[MPI_MAX_ERROR_STRING] = "";
            int length = 0;
            MPI_Error_string(error, text, &length);
            auto* to_tell = static_cast<Told*>(context);
            to_tell->text = text;
            to_tell->over.store(true);
        };
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Barrier(MPI_COMM_WORLD);
        int in[2] = {}, out[2] = {};
        MPI_Request request;
        MPI_Irecv(in, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, &request);
        MPIX_Request_on_completion(&request, function, &told);
        MPI_Send(out, 2, MPI_INT, rank, 7, MPI_COMM_WORLD);
        while (!told.over.load()) std::this_thread::yield();
        EXPECT_NE(told.text.find("peer " + std::to_string(rank) + ", tag 7"), std::string::npos)
            << told.text;
        MPI_Barrier(MPI_COMM_WORLD);
    });
}

INSTANTIATE_TEST_SUITE_P(Forms, Threads, testing::ValuesIn(threaded_forms()),
                         [](const auto& form) { return form_name(form.param); });

}  // namespace
}  // namespace pomona
