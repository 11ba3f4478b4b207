// tests/threads/p2p.cc: point to point between ranks that are threads.
// Goal: no data race and no wrong byte in matching, eager and rendezvous, wildcards, probes, all
// send modes, persistent requests, buffered sends and cancelling. Method: seeded sizes on both
// sides of the eager limits; every element received is compared.
#include "btl/base/random.h"
#include "tests/threads/thread_world.h"

#include <gtest/gtest.h>
#include <numeric>

namespace pomona {
namespace {

uint32_t value_at(int from, int to, int message, size_t i) {
    return static_cast<uint32_t>(from * 1000003 + to * 7919 + message * 31) +
           static_cast<uint32_t>(i);
}

class P2p : public testing::TestWithParam<ThreadForm> {};

// Lengths on both sides of every limit.
size_t length_of(int from, int to, int message) {
    Random random(threads_seed() ^ static_cast<uint64_t>((from * 64 + to) * 64 + message));
    return random.chance(0.3) ? random.below(40000) : random.below(300);
}

void send_one(int mode, const std::vector<uint32_t>& data, int to, int tag, MPI_Request* request) {
    int n = static_cast<int>(data.size());
    switch (mode) {
    case 0: MPI_Isend(data.data(), n, MPI_UINT32_T, to, tag, MPI_COMM_WORLD, request); break;
    case 1: MPI_Issend(data.data(), n, MPI_UINT32_T, to, tag, MPI_COMM_WORLD, request); break;
    default:
        MPI_Send_init(data.data(), n, MPI_UINT32_T, to, tag, MPI_COMM_WORLD, request);
        MPI_Start(request);
    }
}

// Everyone sends everyone; receives come in another order, before or after the messages.
void exchange(int rank, int size, bool late) {
    constexpr int kMessages = 5;
    std::vector<std::vector<uint32_t>> out, in;
    std::vector<MPI_Request> requests;
    out.reserve(1000), in.reserve(1000), requests.reserve(1000);
    auto post_receives = [&] {
        for (int m = kMessages; m-- > 0;)
            for (int from = 0; from < size; ++from) {
                in.emplace_back(length_of(from, rank, m) + 1);
                MPI_Irecv(in.back().data(), static_cast<int>(in.back().size()), MPI_UINT32_T, from,
                          m, MPI_COMM_WORLD, &requests.emplace_back());
            }
    };
    if (!late) post_receives();
    for (int m = 0; m < kMessages; ++m)
        for (int to = 0; to < size; ++to) {
            auto& data = out.emplace_back(length_of(rank, to, m));
            for (size_t i = 0; i < data.size(); ++i) data[i] = value_at(rank, to, m, i);
            send_one(m % 3, data, to, m, &requests.emplace_back());
        }
    if (late) post_receives();
    std::vector<MPI_Status> statuses(requests.size());
    ASSERT_EQ(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data()),
              MPI_SUCCESS);
    size_t next = 0, first = late ? static_cast<size_t>(kMessages * size) : 0;
    for (int m = kMessages; m-- > 0;)
        for (int from = 0; from < size; ++from, ++next) {
            int count = 0;
            MPI_Get_count(&statuses[first + next], MPI_UINT32_T, &count);
            ASSERT_EQ(static_cast<size_t>(count), length_of(from, rank, m));
            for (size_t i = 0; i < static_cast<size_t>(count); ++i)
                ASSERT_EQ(in[next][i], value_at(from, rank, m, i)) << "element " << i;
        }
    for (MPI_Request& request : requests)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

TEST_P(P2p, exchanges_in_any_order) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        for (int round = 0; round < 4; ++round) {
            exchange(rank, size, (rank + round) % 2);
            // Ready receivers leave before slow ones: rounds overlap but for this.
            MPI_Barrier(MPI_COMM_WORLD);
        }
    });
}

TEST_P(P2p, wildcards_and_probes_take_each_message_once) {
    constexpr int kMessages = 40;
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        if (rank != 0) {
            std::vector<uint32_t> data(9000);
            for (int m = 0; m < kMessages; ++m) {
                size_t n = m % 4 == 3 ? data.size() : static_cast<size_t>(m + 1);
                for (size_t i = 0; i < n; ++i) data[i] = value_at(rank, 0, m, i);
                MPI_Send(data.data(), static_cast<int>(n), MPI_UINT32_T, 0, m, MPI_COMM_WORLD);
            }
            return;
        }
        std::vector<int> seen(static_cast<size_t>(size), 0);
        std::vector<uint32_t> data(9000);
        for (int k = 0; k < kMessages * (size - 1); ++k) {
            MPI_Status status;
            MPI_Message message;
            int flag = 0, count = 0;
            if (k % 3 == 0) {
                MPI_Recv(data.data(), 9000, MPI_UINT32_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
                         MPI_COMM_WORLD, &status);
            } else if (k % 3 == 1) {
                MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
                MPI_Get_count(&status, MPI_UINT32_T, &count);
                MPI_Mrecv(data.data(), count, MPI_UINT32_T, &message, &status);
            } else {
                while (!flag)
                    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
                MPI_Recv(data.data(), 9000, MPI_UINT32_T, status.MPI_SOURCE, status.MPI_TAG,
                         MPI_COMM_WORLD, &status);
            }
            MPI_Get_count(&status, MPI_UINT32_T, &count);
            int from = status.MPI_SOURCE, m = seen[static_cast<size_t>(from)]++;
            ASSERT_EQ(status.MPI_TAG, m) << "from rank " << from << " out of order";
            ASSERT_EQ(count, m % 4 == 3 ? 9000 : m + 1);
            for (int i = 0; i < count; ++i)
                ASSERT_EQ(data[static_cast<size_t>(i)],
                          value_at(from, 0, m, static_cast<size_t>(i)));
        }
    });
}

TEST_P(P2p, buffered_persistent_and_cancelled) {
    int size = GetParam().job.ranks;
    run_threads(GetParam().job, [&](int rank) {
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        std::vector<char> room(200000);
        MPI_Buffer_attach(room.data(), static_cast<int>(room.size()));
        std::vector<int> out(3000), in(3000);
        MPI_Request receive, never;
        MPI_Recv_init(in.data(), 3000, MPI_INT, from, 5, MPI_COMM_WORLD, &receive);
        for (int round = 0; round < 10; ++round) {
            std::iota(out.begin(), out.end(), rank * 100000 + round);
            MPI_Bsend(out.data(), 3000, MPI_INT, to, 5, MPI_COMM_WORLD);
            MPI_Start(&receive);
            MPI_Status status;
            MPI_Wait(&receive, &status);
            for (int i = 0; i < 3000; ++i)
                ASSERT_EQ(in[static_cast<size_t>(i)], from * 100000 + round + i);
        }
        MPI_Request_free(&receive);
        MPI_Irecv(in.data(), 1, MPI_INT, from, 77, MPI_COMM_WORLD, &never);
        MPI_Cancel(&never);
        MPI_Status status;
        MPI_Wait(&never, &status);
        int cancelled = 0;
        MPI_Test_cancelled(&status, &cancelled);
        EXPECT_TRUE(cancelled);
        void* back = nullptr;
        int bytes = 0;
        MPI_Buffer_detach(&back, &bytes);
        EXPECT_EQ(back, room.data());
    });
}

INSTANTIATE_TEST_SUITE_P(Forms, P2p, testing::ValuesIn(thread_forms()),
                         [](const auto& form) { return form_name(form.param); });

}  // namespace
}  // namespace pomona
