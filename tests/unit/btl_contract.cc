// tests/unit/btl_contract.cc: the rules of btl/transport.h, one suite for every transport.
// Goal: frames arrive once, whole, in order, from any mix of sizes; push never blocks; a busy push
// takes nothing; arm() never loses a wake-up; a dead peer is told once. Method: ranks of a "job" are
// transports of one process, driven by one thread (or one thread each), with seeded random sizes;
// every payload carries its number and a fingerprint. Who has to die is a process of its own.
#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/self.h"
#include "btl/shm/other_process.h"
#include "btl/shm/shm.h"
#include "btl/sim/sim.h"
#include "btl/tcp/tcp.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <algorithm>
#include <map>
#include <thread>
#include <tuple>
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
    World(const std::string& kind, int size) : World(kind, size, true) {}
    // Without transports: each process makes those of its ranks by make().
    World(const std::string& kind, int size, bool whole) : params(small_rings()), kind(kind) {
        if (kind == "tcp_lanes") params.tcp_streams = 3;
        if (kind == "tcp_sealed") params.encrypt = "all";
        char pattern[] = "/tmp/pomona-contract-XXXXXX";
        directory = mkdtemp(pattern);
        tag = "t" + std::to_string(getpid());
        nodes.resize(static_cast<size_t>(size));
        for (int rank = 0; whole && rank < size; ++rank) make(rank);
    }
    void make(int rank) {
        int size = static_cast<int>(nodes.size());
        std::vector<int> ranks(nodes.size());
        std::iota(ranks.begin(), ranks.end(), 0);
        Node& node = nodes[static_cast<size_t>(rank)];
        node.sleeper = std::move(Sleeper::make(doorbell_path(directory, rank)).value());
        if (kind == "self") node.transport = make_self_transport(rank);
        if (kind == "sim") {
            if (!fabric) fabric = std::make_unique<sim::Fabric>(seed(), stormy(size));
            node.transport = fabric->make_transport(rank);
        }
        if (kind == "shm" || kind == "shm_bell") {
            Sleeper* sleeper = kind == "shm" ? node.sleeper.get() : nullptr;
            auto made = make_shm_transport(params, counters,
                                           {tag, directory, rank, ranks, sleeper, incarnation});
            EXPECT_TRUE(made.ok()) << made.error().text();
            node.transport = std::move(made.value());
        }
        if (kind.starts_with("tcp")) {
            auto made = make_tcp_transport(params, counters,
                                           {tcp_identity(rank, size), true, node.sleeper.get()});
            EXPECT_TRUE(made.ok()) << made.error().text();
            node.transport = std::move(made.value());
        }
    }
    ~World() {
        for (Node& node : nodes) node.transport.reset();
        nodes.clear();
        std::filesystem::remove_all(directory);  // the dead leave something
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
    std::string kind, directory, tag;
    uint64_t incarnation = 1;  // which run of the job this is
    Counters counters;
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

// Polls rank 0 of a world until peer 1 is told to be gone; asleep between polls, if asked. False: not
// within the time.
bool told(World& world, Checker& sink, bool sleeps) {
    Node& node = world.nodes[0];
    Nanoseconds end = RealClock().now() + 20'000'000'000;
    while (sink.told[1] == 0 && RealClock().now() < end) {
        if (node.transport->poll(sink, 16) > 0 || !sleeps) continue;
        if (node.transport->arm()) node.sleeper->sleep(100'000'000);
        node.transport->disarm();
    }
    return sink.told[1] != 0;
}

// Rank 1 of a world as a process: it pushes `frames` frames to rank 0, says so, and waits to be killed.
struct Mortal {
    Mortal(World& world, uint64_t frames) {
        EXPECT_EQ(pipe(to_child), 0);
        EXPECT_EQ(pipe(to_parent), 0);
        process = fork();
        if (process == 0) live(world, frames);
        world.make(0);
        auto address = world.nodes[0].transport->address();
        uint64_t length = address.size();
        EXPECT_EQ(write(to_child[1], &length, sizeof length), ssize_t{sizeof length});
        EXPECT_EQ(write(to_child[1], address.data(), length), static_cast<ssize_t>(length));
    }
    ~Mortal() {
        kill(process, SIGKILL);
        waitpid(process, nullptr, 0);
        for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
    }
    // It has sent all; rank 0 may have to take in what comes, so that connections come up.
    void await(World& world, Checker& sink, bool polls) {
        pollfd ready{to_parent[0], POLLIN, 0};
        while (poll(&ready, 1, polls ? 0 : -1) == 0) world.nodes[0].transport->poll(sink, 1);
        char byte;
        EXPECT_EQ(read(to_parent[0], &byte, 1), 1);
    }
    // Ended by the system, and not waited for: its process number stays in use.
    void die() {
        kill(process, SIGKILL);
        siginfo_t dead;
        EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process), &dead, WEXITED | WNOWAIT), 0);
    }

private:
    [[noreturn]] void live(World& world, uint64_t frames) {
        world.make(1);
        uint64_t length = 0;
        if (read(to_child[0], &length, sizeof length) != ssize_t{sizeof length}) _exit(1);
        std::vector<std::byte> address(length);
        if (read(to_child[0], address.data(), length) != static_cast<ssize_t>(length)) _exit(1);
        Checker sink;
        Transport& transport = *world.nodes[1].transport;
        for (uint64_t number = 0; number < frames;) {
            if (try_push(**transport.connect(0, address), number, 100 * number, false)) ++number;
            transport.poll(sink, 16);
        }
        while (transport.pending()) transport.poll(sink, 16);
        char byte = 0;
        if (write(to_parent[1], &byte, 1) != 1) _exit(1);
        for (;;) pause();
    }
    int to_child[2], to_parent[2];
    pid_t process;
};

void expect_gone(World& world, Checker& sink) {
    auto& transport = *world.nodes[0].transport;
    EXPECT_EQ(sink.told[1], 1);
    auto endpoint = transport.connect(1, transport.address());
    if (endpoint.ok()) { EXPECT_EQ((*endpoint)->push(header_of(1, 0), {}), Push::gone); }
    for (int i = 0; i < 3000; ++i) transport.poll(sink, 16);
    EXPECT_EQ(sink.told[1], 1);
}

class Death : public testing::TestWithParam<std::tuple<const char*, bool>> {};

// Goal: rule 6 for a process that is killed: what it had sent arrives, then its end is told once, to a
// rank that polls and to one that sleeps; then pushes say gone. Rank 0 makes no endpoint before: it only
// receives. Method: see Mortal.
TEST_P(Death, is_told_to_who_only_receives) {
    auto [kind, sleeps] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 5);
    Checker sink;
    mortal.await(world, sink, world.kind.starts_with("tcp"));
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    EXPECT_EQ(sink.arrived, 5u);
    expect_gone(world, sink);
}

// Goal: the same for a rank that sends. Method: a frame goes back before the peer dies; there is room for
// many more.
TEST_P(Death, is_told_to_who_sends) {
    auto [kind, sleeps] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 1);
    Checker sink;
    mortal.await(world, sink, world.kind.starts_with("tcp"));
    for (int turns = 0; sink.arrived == 0 && turns < 50'000'000; ++turns)
        world.nodes[0].transport->poll(sink, 16);
    ASSERT_EQ(sink.arrived, 1u);
    auto& transport = *world.nodes[0].transport;
    Endpoint& endpoint = **transport.connect(1, transport.address());
    while (!try_push(endpoint, 0, 50, false)) transport.poll(sink, 16);
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

// Goal: a rank of this machine whose end nobody's connection tells of: it had sent nothing, and got nothing.
TEST_P(Death, is_told_of_the_silent) {
    auto [kind, sleeps] = GetParam();
    if (std::string(kind).starts_with("tcp")) GTEST_SKIP() << "no connection, no knowledge";
    World world(kind, 2, false);
    Mortal mortal(world, 0);
    Checker sink;
    mortal.await(world, sink, false);
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

INSTANTIATE_TEST_SUITE_P(Transports, Death,
                         testing::Combine(testing::Values("shm", "shm_bell", "tcp", "tcp_lanes",
                                                          "tcp_sealed"),
                                          testing::Bool()),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param)) +
                                    (std::get<1>(info.param) ? "_asleep" : "_awake");
                         });

// Goal: what a killed run of the job has left under its name is neither used nor taken for a death; when
// the rank of this run comes, its memory replaces it. Method: a process makes rank 1's memory and is killed;
// rank 0 is of the next run.
TEST(ShmContract, memory_of_an_earlier_run_is_not_used) {
    World world("shm", 2, false);
    {
        Mortal earlier(world, 0);
        Checker sink;
        earlier.await(world, sink, false);
        earlier.die();
    }
    world.nodes[0].transport.reset();  // before its sleeper
    world.nodes[0].sleeper.reset();
    world.incarnation = 2;
    world.make(0);
    Checker sinks[2];
    auto& transport = *world.nodes[0].transport;
    Endpoint& endpoint = **transport.connect(1, {});
    for (Nanoseconds end = RealClock().now() + 500'000'000; RealClock().now() < end;) {
        ASSERT_EQ(endpoint.push(header_of(0, 0), {}), Push::busy);
        transport.poll(sinks[0], 16);
        transport.disarm();
    }
    EXPECT_EQ(sinks[0].told[1], 0);
    world.make(1);
    EXPECT_TRUE(try_push(endpoint, 0, 100, false));
    for (int turns = 0; sinks[1].arrived == 0 && turns < 1'000'000; ++turns)
        world.nodes[1].transport->poll(sinks[1], 16);
    EXPECT_EQ(sinks[1].arrived, 1u);
}

// Memory of the system behind a file of /dev/shm, in bytes.
size_t memory_behind(const std::string& name) {
    struct stat status {};
    if (stat(("/dev/shm/" + name).c_str(), &status) != 0) return 0;
    return static_cast<size_t>(status.st_blocks) * 512;
}

// Goal: among many ranks a pair that talks, but never much at once, takes a few pages; when its ring has
// run full it has the whole of it, and nothing is lost on the way. Method: as many ranks as make rings
// short, of which two exist; megabytes one message after the other; then bursts.
TEST(ShmContract, a_ring_that_is_read_in_time_stays_small) {
#if !defined(__linux__)
    GTEST_SKIP() << "the memory behind a segment is not told here";
#endif
    World world("shm", 32, false);
    world.params = Params();
    world.make(0);
    world.make(1);
    Checker sink, other;
    Endpoint& endpoint = world.endpoint(0, 1);
    auto& receiver = *world.nodes[1].transport;
    size_t before = memory_behind("pomona-" + world.tag + "-1");
    uint64_t sent = 0;
    auto take_in = [&] {
        for (int turns = 0; sink.arrived < sent && turns < 1'000'000; ++turns)
            receiver.poll(sink, 16);
        receiver.poll(sink, 16);
    };
    for (; sent < 1000; take_in()) {
        ASSERT_TRUE(try_push(endpoint, sent, sent % 2 ? 8 : 8000, false));
        ++sent;
    }
    size_t small = memory_behind("pomona-" + world.tag + "-1") - before;
    EXPECT_LE(small, size_t{40} << 10);
    for (int turns = 0; sent < 4000; ++turns) {
        ASSERT_LT(turns, 10'000'000);
        if (try_push(endpoint, sent, sent % 3 ? 8 : 4000, sent % 2)) ++sent;
        else receiver.poll(sink, 1);
    }
    take_in();
    EXPECT_EQ(sink.arrived, sent);
    EXPECT_GT(memory_behind("pomona-" + world.tag + "-1") - before, small);
    // The whole ring is there now.
    uint64_t burst = 0;
    for (; burst < 1000 && try_push(endpoint, sent, 8, false); ++burst) ++sent;
    EXPECT_GE(burst, world.params.shm_ring_slots - 16);
    take_in();
    EXPECT_EQ(sink.arrived, sent);
}

// Goal: more ranks than fit are refused with a sentence that says what to do.
TEST(ShmContract, too_many_ranks_are_refused) {
    std::vector<int> ranks(5000);
    std::iota(ranks.begin(), ranks.end(), 0);
    Params params;
    Counters counters;
    auto made = make_shm_transport(params, counters, {"many", "", 0, ranks});
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().text().find("4096"), std::string::npos);
}

// Goal: rule 6 for a rank that closes in good order: what it had sent arrives, then its end is told.
// Method: its transport goes while frames of it are under way.
TEST_P(Contract, a_closed_peer_is_told_once) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "a rank does not survive itself";
    World world(GetParam(), 2);
    Checker sinks[2];
    Endpoint& endpoint = world.endpoint(0, 1);
    auto poll = [&](int rank) {
        world.nodes[static_cast<size_t>(rank)].transport->poll(sinks[rank], 16);
    };
    auto until = [&](auto over) {
        for (int turns = 0; !over() && turns < 5'000'000; ++turns) poll(0), poll(1);
    };
    while (!try_push(endpoint, 0, 100, false)) poll(0), poll(1);
    until([&] { return sinks[1].arrived == 1; });
    Endpoint& back = world.endpoint(1, 0);
    uint64_t sent = 0;
    for (; sent < 5; ++sent)
        while (!try_push(back, sent, 3000, false)) poll(0), poll(1);
    // Sockets hand their bytes over; memory and the simulated network keep them.
    if (std::string(GetParam()).starts_with("tcp")) until([&] { return sinks[0].arrived == sent; });
    if (world.fabric) world.fabric->leave(1, true);
    else world.nodes[1].transport.reset();
    ASSERT_TRUE(told(world, sinks[0], false));
    EXPECT_EQ(sinks[0].arrived, sent);
    EXPECT_EQ(endpoint.push(header_of(1, 0), {}), Push::gone);
    for (int i = 0; i < 3000; ++i) poll(0);
    EXPECT_EQ(sinks[0].told[1], 1);
}

// Goal: rule 6 for a peer that is given up: nothing more arrives, not even what had, and pushes say gone.
TEST_P(Contract, an_abandoned_peer_is_told_once) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "a rank does not give itself up";
    World world(GetParam(), 2);
    Checker sinks[2];
    Endpoint& endpoint = world.endpoint(0, 1);
    Endpoint& back = world.endpoint(1, 0);
    auto poll = [&](int rank) {
        world.nodes[static_cast<size_t>(rank)].transport->poll(sinks[rank], 1);
    };
    uint64_t sent = 0;
    while (sinks[0].arrived < 3) {
        if (try_push(back, sent, 100, false)) ++sent;
        poll(0), poll(1);
    }
    while (!try_push(back, sent, 100, false)) poll(1);
    uint64_t arrived = sinks[0].arrived;
    endpoint.abandon({Code::malformed, "Of this test", 1});
    EXPECT_EQ(endpoint.push(header_of(0, 0), {}), Push::gone);
    ASSERT_TRUE(told(world, sinks[0], false));
    for (int i = 0; i < 3000; ++i) poll(0);
    EXPECT_EQ(sinks[0].arrived, arrived);
    EXPECT_EQ(sinks[0].told[1], 1);
}

INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         testing::Values("self", "shm", "shm_bell", "tcp", "tcp_lanes",
                                         "tcp_sealed", "sim"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pomona
