// tests/sim/programs.cc: MPI programs on simulated ranks: the whole library, a virtual network.
// Networks are drawn from the seed (program_world.h); every value received is checked by its
// program.
#include "tests/sim/program_world.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pomona {
namespace {

uint32_t value_at(int from, int to, int message, size_t i) {
    return static_cast<uint32_t>(from * 1000003 + to * 7919 + message * 31 + static_cast<int>(i));
}

// Everyone sends everyone messages of drawn lengths, eager and rendezvous; receives are posted in
// another order than they are sent, some after a while, some for any source.
void exchange(uint64_t seed, int rank, int size) {
    constexpr int kMessages = 6;
    auto length_of = [&](int from, int to, int m) {
        Random random(seed ^ static_cast<uint64_t>((from * 64 + to) * 64 + m));
        return random.chance(0.2) ? random.below(60000) : random.below(300);
    };
    std::vector<std::vector<uint32_t>> out, in;
    std::vector<MPI_Request> requests;
    out.reserve(1000), in.reserve(1000);
    auto post_receives = [&] {
        for (int m = kMessages; m-- > 0;)
            for (int from = 0; from < size; ++from) {
                in.emplace_back(length_of(from, rank, m) + 1);
                MPI_Irecv(in.back().data(), static_cast<int>(in.back().size()), MPI_UINT32_T, from,
                          m, MPI_COMM_WORLD, &requests.emplace_back());
            }
    };
    bool late = Random(seed + static_cast<uint64_t>(rank)).chance(0.5);
    if (!late) post_receives();
    for (int m = 0; m < kMessages; ++m)
        for (int to = 0; to < size; ++to) {
            auto& data = out.emplace_back(length_of(rank, to, m));
            for (size_t i = 0; i < data.size(); ++i) data[i] = value_at(rank, to, m, i);
            MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_UINT32_T, to, m,
                      MPI_COMM_WORLD, &requests.emplace_back());
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
                ASSERT_EQ(in[next][i], value_at(from, rank, m, i));
        }
    // Any source: as many as there are ranks, each once.
    int mine = rank, sum = 0;
    MPI_Request sent;
    MPI_Isend(&mine, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, &sent);
    for (int i = 0; i < size && rank == 0; ++i) {
        int got = -1;
        MPI_Status status;
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &status);
        ASSERT_EQ(got, status.MPI_SOURCE);
        sum += got;
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    ASSERT_EQ(sum, rank == 0 ? size * (size - 1) / 2 : 0);
}

void collectives(int rank, int size) {
    for (int count : {1, 100, 30000}) {
        auto n = static_cast<size_t>(count);
        std::vector<int64_t> in(n), out(n);
        for (size_t i = 0; i < n; ++i) in[i] = rank + static_cast<int64_t>(i);
        MPI_Request request;
        MPI_Iallreduce(in.data(), out.data(), count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD,
                       &request);
        std::vector<int64_t> all(n * static_cast<size_t>(size));
        MPI_Allgather(in.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T,
                      MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < n; ++i)
            ASSERT_EQ(out[i], size * (size - 1) / 2 + size * static_cast<int64_t>(i));
        for (int r = 0; r < size; ++r)
            ASSERT_EQ(all[n * static_cast<size_t>(r) + n - 1], r + count - 1);
        MPI_Bcast(in.data(), count, MPI_INT64_T, size - 1, MPI_COMM_WORLD);
        ASSERT_EQ(in[0], size - 1);
    }
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    ASSERT_EQ(sum, (size + 1 - rank % 2) / 2);
    MPI_Comm_free(&half);
    MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Programs, end_right_in_any_network) {
    Random random(base_seed());
    for (int round = 0; round < 12; ++round) {
        uint64_t seed = random.next();
        int ranks = random.between(2, 9);
        RunResult done = run(seed, {random_network(random, ranks)}, [&](int rank) {
            exchange(seed, rank, ranks);
            collectives(rank, ranks);
        });
        ASSERT_FALSE(done.stuck) << "round " << round << " POMONA_SEED=" << base_seed();
        ASSERT_FALSE(HasFatalFailure()) << "round " << round << " POMONA_SEED=" << base_seed();
    }
}

TEST(Programs, of_24_ranks) {
    sim::FabricOptions network;
    network.ranks = 24;
    for (int r = 0; r < 24; ++r) network.nodes.push_back(r / 6);
    network.faults.jitter_ns = 3000;
    RunResult done = run(base_seed(), {network}, [&](int rank) { collectives(rank, 24); });
    EXPECT_FALSE(done.stuck);
}

// Goal: a run is a function of its seed, engine and matching included. Method: event hashes.
TEST(Programs, two_runs_are_one) {
    auto once = [](uint64_t seed) {
        Random random(seed);
        return run(seed, {random_network(random, 5)}, [&](int rank) {
            exchange(seed, rank, 5);
            collectives(rank, 5);
        });
    };
    RunResult first = once(base_seed()), second = once(base_seed()), other = once(base_seed() + 1);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.time, second.time);
    EXPECT_NE(first.hash, other.hash);
}

// Goal: a rank that dies leaves nobody waiting. Method: it leaves in the middle; the others run
// collectives with errors returned until they get one.
TEST(Programs, a_dead_rank_gives_the_others_errors) {
    Random random(base_seed() ^ 0xdead);
    for (int round = 0; round < 10; ++round) {
        int ranks = random.between(2, 6), dies = static_cast<int>(random.below(ranks));
        int calls = random.between(0, 5);
        std::vector<int> errors(static_cast<size_t>(ranks), 0);
        run(random.next(), {random_network(random, ranks), dies}, [&](int rank) {
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            std::vector<int> in(20000, rank), out(20000);
            for (int call = 0; rank != dies || call < calls; ++call) {
                int error =
                    MPI_Allreduce(in.data(), out.data(), 20000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                if (error == MPI_SUCCESS) continue;
                ++errors[static_cast<size_t>(rank)];
                break;
            }
        });
        for (int rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(errors[static_cast<size_t>(rank)], rank == dies ? 0 : 1)
                << "rank " << rank << " round " << round << " POMONA_SEED=" << base_seed();
    }
}

// Goal: persistent collectives do not take each other's messages, however many were made between
// them.
// Method: two broadcasts, made so many apart that their numbers may be alike, are started in
// opposite orders; without a board, as the two ranks are on two nodes.
TEST(Programs, persistent_collectives_far_apart_do_not_meet) {
    for (uint64_t apart : {1u, 2u, 4096u, 8192u, 16384u}) {
        sim::FabricOptions network;
        network.ranks = 2;
        network.nodes = {0, 1};
        run(1, {network}, [apart](int rank) {
            int values[2] = {rank ? 0 : 10, rank ? 0 : 20};
            MPI_Request both[2];
            auto make = [&](int which, MPI_Request& request) {
                MPI_Bcast_init(&values[which], 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request);
            };
            make(0, both[0]);
            for (uint64_t i = 1; i < apart; ++i) {
                MPI_Request unused;
                make(0, unused);
                MPI_Request_free(&unused);
            }
            make(1, both[1]);
            for (int round = 0; round < 3; ++round) {
                MPI_Start(&both[rank]);
                MPI_Start(&both[1 - rank]);
                MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
                EXPECT_EQ(values[0], 10 + round) << apart;
                EXPECT_EQ(values[1], 20 + round) << apart;
                if (rank == 0) ++values[0], ++values[1];
            }
            for (MPI_Request& each : both) MPI_Request_free(&each);
        });
    }
}

// Goal: a program that waits for itself ends with errors in the simulator, not never.
TEST(Programs, a_deadlock_is_noticed) {
    sim::FabricOptions network;
    network.ranks = 2;
    RunResult done = run(1, {network, 0}, [](int rank) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int value = 0;
        EXPECT_NE(MPI_Recv(&value, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                  MPI_SUCCESS);
    });
    EXPECT_TRUE(done.stuck);
}

}  // namespace
}  // namespace pomona
