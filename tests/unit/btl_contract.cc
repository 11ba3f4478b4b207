// tests/unit/btl_contract.cc: the rules of btl/transport.h, one suite for every transport.
// Goal: frames arrive once, whole, in order, from any mix of sizes; push never blocks; a busy push
// takes nothing; arm() never loses a wake-up; a dead peer is told once. Method: ranks of a "job" are
// transports of one process, driven by one thread (or one thread each), with seeded random sizes;
// every payload carries its number and a fingerprint.
#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/self.h"
#include "btl/shm/other_process.h"
#include "btl/shm/shm.h"
#include "btl/sim/sim.h"
#include "btl/tcp/tcp.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <sys/wait.h>
#include <algorithm>
#include <map>
#include <thread>
#include <unistd.h>

namespace pomona {
namespace {

uint64_t seed() {
    const char* given = std::getenv("POMONA_SEED");
    return given ? std::strtoull(given, nullptr, 0) : 20261121;
}

struct Node {
    std::unique_ptr<Sleeper> sleeper;
    std::unique_ptr<Transport> transport;
};

// A job of `size` ranks over one kind of transport.
struct World {
    World(const std::string& kind, int size) : params(small_rings()) {
        if (kind == "tcp_lanes") params.tcp_streams = 3;
        char pattern[] = "/tmp/pomona-contract-XXXXXX";
        directory = mkdtemp(pattern);
        std::string tag = "t" + std::to_string(getpid());
        std::vector<int> ranks(static_cast<size_t>(size));
        std::iota(ranks.begin(), ranks.end(), 0);
        for (int rank = 0; rank < size; ++rank) {
            Node node;
            node.sleeper = std::move(Sleeper::make(doorbell_path(directory, rank)).value());
            if (kind == "self") node.transport = make_self_transport(rank);
            if (kind == "sim") {
                if (!fabric) fabric = std::make_unique<sim::Fabric>(seed(), stormy(size));
                node.transport = fabric->make_transport(rank);
            }
            if (kind == "shm" || kind == "shm_bell") {
                Sleeper* sleeper = kind == "shm" ? node.sleeper.get() : nullptr;
                auto made =
                    make_shm_transport(params, counters, {tag, directory, rank, ranks, sleeper});
                EXPECT_TRUE(made.ok()) << made.error().text();
                node.transport = std::move(made.value());
            }
            if (kind.starts_with("tcp")) {
                auto made = make_tcp_transport(
                    params, counters,
                    {rank, size, "secret of this test", true, node.sleeper.get()});
                EXPECT_TRUE(made.ok()) << made.error().text();
                node.transport = std::move(made.value());
            }
            nodes.push_back(std::move(node));
        }
    }
    ~World() {
        for (Node& node : nodes) node.transport.reset();
        nodes.clear();
        rmdir(directory.c_str());
    }
    static Params small_rings() {
        Params made;
        made.shm_ring_slots = 32;  // so that rings run full
        made.shm_ring_bytes = 65536;
        made.shm_fragment = 16384;
        made.shm_eager_max = 4096;
        made.tcp_fragment = 262144;
        return made;
    }
    static sim::FabricOptions stormy(int size) {
        sim::FabricOptions options;
        options.ranks = size;
        options.pulls = true;
        options.faults.jitter_ns = 20000;
        options.faults.reorder_chance = 0.2;
        options.busy_chance = 0.1;
        return options;
    }
    Endpoint& endpoint(int from, int to) {
        auto made = nodes[static_cast<size_t>(from)].transport->connect(
            to, nodes[static_cast<size_t>(to)].transport->address());
        EXPECT_TRUE(made.ok());
        return **made;
    }

    Params params;
    Counters counters;
    std::string directory;
    std::unique_ptr<sim::Fabric> fabric;  // of the simulated transports, which it outlives
    std::vector<Node> nodes;
};

std::vector<std::byte> payload_of(uint64_t number, size_t length) {
    Random random(number * 977 + length);
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

// Checks frames against what their headers promise; places every other long payload itself.
struct Checker final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t length) override {
        if (header.word[1] % 2 == 0) return nullptr;
        placed.assign(length, std::byte{0});
        return placed.data();
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        uint64_t& next = expected[peer];
        EXPECT_EQ(header.word[1], next++) << "order of frames from " << peer;
        EXPECT_EQ(header.word[2], payload.size());
        EXPECT_EQ(header.word[3], ~header.word[1]);
        auto right = payload_of(header.word[1], payload.size());
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()));
        ++arrived;
    }
    void gone(int peer, const Error&) override { ++told[peer]; }

    std::map<int, uint64_t> expected;
    std::map<int, int> told;
    std::vector<std::byte> placed;
    uint64_t arrived = 0;
};

FrameHeader header_of(uint64_t number, size_t length) { return {{7, number, length, ~number}}; }

size_t random_length(Random& random, const Caps& caps) {
    switch (random.below(5)) {
    case 0: return random.below(9);
    case 1: return random.below(200);
    case 2: return random.below(caps.eager_max + 1);
    case 3: return random.chance(0.02) ? caps.fragment_max : random.below(4096);
    default: return random.below(std::min<size_t>(caps.fragment_max, 16384) + 1);
    }
}

// One frame; by push_fill half of the time. False when busy.
bool try_push(Endpoint& endpoint, uint64_t number, size_t length, bool fill) {
    auto payload = payload_of(number, length);
    Push result;
    if (fill) {
        result = endpoint.push_fill(
            header_of(number, length), length,
            [](void* context, Bytes target) {
                auto& bytes = *static_cast<std::vector<std::byte>*>(context);
                std::copy(bytes.begin(), bytes.end(), target.begin());
            },
            &payload);
    } else {
        result = endpoint.push(header_of(number, length), payload);
    }
    EXPECT_NE(result, Push::gone);
    return result == Push::sent;
}

class Contract : public testing::TestWithParam<const char*> {};

// Goal: rules 1 to 4. Method: two ranks send 3000 frames each way from one thread, polling when busy.
TEST_P(Contract, frames_arrive_whole_and_in_order) {
    bool alone = std::string(GetParam()) == "self";
    World world(GetParam(), alone ? 1 : 2);
    Random random(seed());
    int last = alone ? 0 : 1;
    Checker sinks[2];
    uint64_t sent[2] = {0, 0};
    constexpr uint64_t kFrames = 3000;
    for (long turns = 0; sinks[0].arrived + sinks[1].arrived < kFrames * (alone ? 1 : 2); ++turns) {
        ASSERT_LT(turns, 50'000'000) << "POMONA_SEED=" << seed();
        int from = alone ? 0 : static_cast<int>(random.below(2));
        int to = alone ? 0 : 1 - from;
        Endpoint& endpoint = world.endpoint(from, to);
        for (int burst = 0; burst < 8 && sent[from] < kFrames; ++burst) {
            size_t length = random_length(random, endpoint.caps());
            if (!try_push(endpoint, sent[from], length, random.chance(0.5))) break;
            ++sent[from];
        }
        for (int rank = 0; rank <= last; ++rank)
            world.nodes[static_cast<size_t>(rank)].transport->poll(sinks[rank], 16);
    }
}

// Goal: push_part: a long payload goes in as many pieces as the transport likes and arrives whole; until
// then every other push says busy. Method: one rank sends parts, with frames of its own tried between.
TEST_P(Contract, parts_arrive_whole) {
    bool alone = std::string(GetParam()) == "self";
    World world(GetParam(), alone ? 1 : 2);
    Endpoint& endpoint = world.endpoint(0, alone ? 0 : 1);
    Checker sinks[2];
    size_t pieces = 0;
    constexpr uint64_t kFrames = 60;
    uint64_t number = 0;
    auto poll = [&] {
        for (size_t rank = 0; rank < world.nodes.size(); ++rank)
            world.nodes[rank].transport->poll(sinks[rank], 16);
    };
    while (number < kFrames) {
        size_t length = endpoint.caps().fragment_max - number * 16;
        auto payload = payload_of(number, length);
        size_t done = 0;
        Push push = endpoint.push_part(header_of(number, length), payload, done);
        ASSERT_NE(push, Push::gone);
        for (long turns = 0; push == Push::sent && done < length; ++turns) {
            ASSERT_LT(turns, 5'000'000);
            EXPECT_FALSE(try_push(endpoint, 1000, 8, turns % 2));
            size_t taken = 0;
            if (endpoint.push_rest(ConstBytes(payload).subspan(done), taken) == Push::sent)
                done += taken, ++pieces;
            poll();
        }
        if (push == Push::sent) ++number;
        // Some are sent without looking at what arrives, so that the way runs full.
        if (push == Push::busy || number % 30 == 0) poll();
    }
    Checker& receiver = sinks[alone ? 0 : 1];
    for (long turns = 0; receiver.arrived < kFrames && turns < 5'000'000; ++turns) poll();
    EXPECT_EQ(receiver.arrived, kFrames);
    if (std::string(GetParam()).starts_with("tcp")) {
        EXPECT_GT(pieces, 0u);  // else nothing was tested
    }
}

// Goal: rule 5: a sleeping receiver wakes for every frame. Method: a sender thread with random
// pauses, a receiver that arms and sleeps long whenever nothing is there; a lost wake-up would cost
// seconds each and run into the test's time limit.
TEST_P(Contract, armed_receivers_wake) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "a rank does not wait for itself";
    if (std::string(GetParam()) == "sim") GTEST_SKIP() << "simulated ranks do not sleep";
    World world(GetParam(), 2);
    Endpoint& endpoint = world.endpoint(0, 1);
    constexpr uint64_t kFrames = 2000;
    std::thread sender([&] {
        Random random(seed());
        Checker own;
        for (uint64_t number = 0; number < kFrames;) {
            if (try_push(endpoint, number, random.below(100), false)) ++number;
            world.nodes[0].transport->poll(own, 16);
            if (random.chance(0.2)) usleep(static_cast<useconds_t>(random.below(300)));
        }
        while (world.nodes[0].transport->pending()) world.nodes[0].transport->poll(own, 16);
    });
    Checker sink;
    Node& receiver = world.nodes[1];
    while (sink.arrived < kFrames) {
        if (receiver.transport->poll(sink, 16) > 0) continue;
        if (receiver.transport->arm()) receiver.sleeper->sleep(20'000'000'000);
        receiver.transport->disarm();
    }
    sender.join();
}

// Goal: rule 7 and threads on both ends: every pair of three ranks, each rank a thread.
TEST_P(Contract, ranks_as_threads) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "one rank";
    if (std::string(GetParam()) == "sim") GTEST_SKIP() << "takes turns: tests/sim/programs.cc";
    constexpr int kRanks = 3;
    constexpr uint64_t kFrames = 400;
    World world(GetParam(), kRanks);
    std::vector<std::vector<std::byte>> addresses;
    for (Node& node : world.nodes) addresses.push_back(node.transport->address());
    std::vector<std::thread> threads;
    std::atomic<int> finished{0};
    for (int rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            Random random(seed() + static_cast<uint64_t>(rank));
            Transport& transport = *world.nodes[static_cast<size_t>(rank)].transport;
            Checker sink;
            std::vector<uint64_t> sent(kRanks, 0);
            bool counted = false;
            while (finished.load() < kRanks) {
                for (int to = 0; to < kRanks; ++to) {
                    if (to == rank || sent[static_cast<size_t>(to)] == kFrames) continue;
                    auto endpoint = transport.connect(to, addresses[static_cast<size_t>(to)]);
                    ASSERT_TRUE(endpoint.ok());
                    uint64_t& number = sent[static_cast<size_t>(to)];
                    if (try_push(**endpoint, number, random.below(5000), random.chance(0.5)))
                        ++number;
                }
                transport.poll(sink, 16);
                if (!counted && sink.arrived == kFrames * (kRanks - 1) && !transport.pending() &&
                    std::accumulate(sent.begin(), sent.end(), uint64_t{0}) ==
                        kFrames * (kRanks - 1)) {
                    counted = true;
                    ++finished;
                }
            }
        });
    for (std::thread& thread : threads) thread.join();
}

// Goal: pull() reads what is there, or says that it cannot. Method: both ranks of this process.
TEST_P(Contract, pulls_read_the_peer) {
    bool alone = std::string(GetParam()) == "self";
    World world(GetParam(), alone ? 1 : 2);
    Endpoint& endpoint = world.endpoint(0, alone ? 0 : 1);
    auto source = payload_of(7, 300'000);
    std::vector<std::byte> target(source.size());
    auto address = reinterpret_cast<uint64_t>(source.data());
    bool read = endpoint.pull(address, target);
    EXPECT_EQ(read, endpoint.pulls());
    if (read) { EXPECT_EQ(target, source); }
    bool local = std::string(GetParam()).starts_with("shm") || std::string(GetParam()) == "sim";
    EXPECT_EQ(read, local);
}

// Goal: another process's memory is read, what is not there is not, nor a process that is gone.
// Method: a child that changes its copy of a buffer, says so, and stays until it has been read.
TEST(OtherProcess, is_read_or_refused) {
#if !defined(__linux__)
    GTEST_SKIP() << "this system has no such call";
#endif
    auto data = payload_of(1, 1'000'000);
    int said[2], over[2];
    ASSERT_EQ(pipe(said), 0);
    ASSERT_EQ(pipe(over), 0);
    pid_t child = fork();
    if (child == 0) {
        allow_reading_by_siblings();
        for (std::byte& each : data) each = ~each;
        char byte = 0;
        bool good = write(said[1], &byte, 1) == 1 && read(over[0], &byte, 1) == 1;
        _exit(good ? 0 : 1);
    }
    char byte = 0;
    ASSERT_EQ(read(said[0], &byte, 1), 1);
    auto address = reinterpret_cast<uint64_t>(data.data());
    std::vector<std::byte> target(data.size());
    if (read_process(child, address, target)) {
        for (std::byte& each : target) each = ~each;
        EXPECT_EQ(target, data);
    } else {
        EXPECT_NE(geteuid(), 0u) << "root may read its children";
    }
    EXPECT_FALSE(read_process(child, 4096, target)) << "nothing is mapped there";
    EXPECT_FALSE(read_process(child, ~uint64_t{0} - 4095, target));
    EXPECT_EQ(write(over[1], &byte, 1), 1);
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(read_process(child, address, target)) << "the process is gone";
    for (int end : {said[0], said[1], over[0], over[1]}) close(end);
}

// Goal: rule 6 for connections. Method: one end goes away; the other is told once, then refuses.
TEST(TcpContract, a_closed_connection_is_told_once) {
    World world("tcp", 2);
    Checker sinks[2];
    Endpoint& endpoint = world.endpoint(0, 1);
    while (!try_push(endpoint, 0, 100, false)) {
        world.nodes[0].transport->poll(sinks[0], 16);
        world.nodes[1].transport->poll(sinks[1], 16);
    }
    while (sinks[1].arrived == 0) {
        world.nodes[0].transport->poll(sinks[0], 16);
        world.nodes[1].transport->poll(sinks[1], 16);
    }
    world.nodes[1].transport.reset();
    for (int turns = 0; turns < 1000 && sinks[0].told[1] == 0; ++turns) {
        world.nodes[0].transport->poll(sinks[0], 16);
        usleep(1000);
    }
    EXPECT_EQ(sinks[0].told[1], 1);
    EXPECT_EQ(endpoint.push(header_of(1, 0), {}), Push::gone);
    world.nodes[0].transport->poll(sinks[0], 16);
    EXPECT_EQ(sinks[0].told[1], 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         testing::Values("self", "shm", "shm_bell", "tcp", "tcp_lanes", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pomona
