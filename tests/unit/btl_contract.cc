// tests/unit/btl_contract.cc: the rules of btl/transport.h, one suite for every transport.
// Goal: frames arrive once, whole, in order, from any mix of sizes; push never blocks; a busy push
// takes nothing; arm() never loses a wake-up; a dead peer is told once. Method: ranks of a "job"
// are transports of one process, driven by one thread (or one thread each), with seeded random
// sizes; every payload carries its number and a fingerprint. Who has to die is a process of its
// own. rdma_contract is this file once more, over links with paths by fake RDMA cables
// (tests/verbs).
#include "btl/shm/other_process.h"
#include "tests/unit/transport_world.h"

namespace pomona {
namespace {

class Contract : public testing::TestWithParam<const char*> {};

// Goal: rules 1 to 4. Method: two ranks send 3000 frames each way from one thread, polling when
// busy.
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

// Goal: push_part: a long payload goes in as many pieces as the transport likes and arrives whole;
// until then every other push says busy. Method: one rank sends parts, with frames of its own tried
// between.
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
    std::string kind = GetParam();
    if (kind.starts_with("tcp") && !kind.starts_with("tcp_link")) {  // a link takes all at once
        EXPECT_GT(pieces, 0u);                                       // else nothing was tested
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
    std::atomic<bool> finished{false};
    std::thread sender([&] {
        Random random(seed());
        Checker own;
        for (uint64_t number = 0; number < kFrames;) {
            if (try_push(endpoint, number, random.below(100), false)) ++number;
            world.nodes[0].transport->poll(own, 16);
            if (random.chance(0.2)) usleep(static_cast<useconds_t>(random.below(300)));
        }
        while (world.nodes[0].transport->pending()) world.nodes[0].transport->poll(own, 16);
        finished = true;
    });
    Checker sink;
    Node& receiver = world.nodes[1];
    constexpr Nanoseconds kLong = 20'000'000'000;
    while (sink.arrived < kFrames) {
        if (receiver.transport->poll(sink, 16) > 0) continue;
        if (receiver.transport->arm())
            receiver.sleeper->sleep(std::min(kLong, receiver.transport->sleep_max()));
        receiver.transport->disarm();
    }
    // By paths that may lose the sender waits for acknowledgements.
    while (!finished) receiver.transport->poll(sink, 16);
    sender.join();
}

// Goal: the same while other threads of the rank poll, as they do before they park. Method: a
// receiver that has armed polls as often as such threads, and then sleeps.
TEST_P(Contract, an_armed_receiver_wakes_though_others_poll) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "a rank does not wait for itself";
    if (std::string(GetParam()) == "sim") GTEST_SKIP() << "simulated ranks do not sleep";
    if (std::string(GetParam()).starts_with("rdma"))
        GTEST_SKIP() << "completions wake nobody: sleeps are short (Rdma.a_sleeper_is_woken)";
    World world(GetParam(), 2);
    Endpoint& endpoint = world.endpoint(0, 1);
    Checker own, sink;
    Node& receiver = world.nodes[1];
    auto push = [&](uint64_t number) {
        while (!try_push(endpoint, number, 8, false)) world.nodes[0].transport->poll(own, 16);
        world.nodes[0].transport->poll(own, 16);
    };
    auto receive = [&](uint64_t number) {
        while (sink.arrived <= number) {
            world.nodes[0].transport->poll(own, 16);
            receiver.transport->poll(sink, 16);
        }
    };
    for (uint64_t number = 0; number < 6; number += 2) {
        while (!try_push(endpoint, number, 8, false))
            for (int rank : {0, 1}) world.nodes[rank].transport->poll(rank ? sink : own, 16);
        receive(number);
        while (!receiver.transport->arm()) {
            receiver.transport->disarm();
            world.nodes[0].transport->poll(own, 16);
            receiver.transport->poll(sink, 16);
        }
        for (int turn = 0; turn < 3000; ++turn) receiver.transport->poll(sink, 16);
        for (int i = 0; i < 20 && receiver.sleeper->sleep(1'000'000); ++i) {}  // what rang before
        std::thread sender([&] {
            usleep(20'000);
            push(number + 1);
        });
        EXPECT_TRUE(receiver.sleeper->sleep(2'000'000'000)) << "a frame arrived and nobody woke";
        sender.join();
        receiver.transport->disarm();
        receive(number + 1);
    }
}

// Goal: rule 7 and threads on both ends: every pair of three ranks, each rank a thread.
TEST_P(Contract, ranks_as_threads) {
    if (std::string(GetParam()) == "self") GTEST_SKIP() << "one rank";
    if (std::string(GetParam()) == "sim") GTEST_SKIP() << "takes turns: tests/sim/programs.cc";
    constexpr int kRanks = 3;
    constexpr uint64_t kFrames = 400;
    constexpr Nanoseconds kPatience = 200'000'000'000;  // takes a fifth of a second
    World world(GetParam(), kRanks);
    std::vector<std::vector<std::byte>> addresses;
    for (Node& node : world.nodes) addresses.push_back(node.transport->address());
    std::vector<std::thread> threads;
    std::atomic<int> finished{0};
    std::atomic<bool> failed{false};
    for (int rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            Random random(seed() + static_cast<uint64_t>(rank));
            Transport& transport = *world.nodes[static_cast<size_t>(rank)].transport;
            Checker sink;
            std::vector<uint64_t> sent(kRanks, 0);
            bool counted = false;
            Nanoseconds begin = RealClock().now();
            while (finished.load() < kRanks && !failed) {
                bool hangs = RealClock().now() - begin > kPatience;
                if (hangs || !sink.told.empty()) {
                    ADD_FAILURE() << "rank " << rank << (hangs ? " hangs" : " was told of an end")
                                  << ", with " << sink.arrived << " frames arrived, " << sent[0]
                                  << ", " << sent[1] << " and " << sent[2] << " sent, pending "
                                  << transport.pending() << " POMONA_SEED=" << seed();
                    failed = true;
                    break;
                }
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

// Goal: pull() reads what is there and put() writes it, or they say that they cannot. Method: both
// ranks of this process.
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
    source = payload_of(8, 300'000);
    bool written = endpoint.put(reinterpret_cast<uint64_t>(target.data()), source);
    EXPECT_EQ(written, std::string(GetParam()).starts_with("shm"));
    if (written) { EXPECT_EQ(target, source); }
}

// Goal: another process's memory is read and written, what is not there is not, nor a process that
// is gone. Method: a child that changes its copy of a buffer, says so, and stays until it has been
// read.
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
        auto other = payload_of(2, data.size());
        EXPECT_TRUE(write_process(child, address, other));
        EXPECT_TRUE(read_process(child, address, target));
        EXPECT_EQ(target, other);
    } else {
        EXPECT_NE(geteuid(), 0u) << "root may read its children";
    }
    EXPECT_FALSE(read_process(child, 4096, target)) << "nothing is mapped there";
    EXPECT_FALSE(read_process(child, ~uint64_t{0} - 4095, target));
    EXPECT_FALSE(write_process(child, 4096, data)) << "nothing is mapped there";
    EXPECT_EQ(write(over[1], &byte, 1), 1);
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(read_process(child, address, target)) << "the process is gone";
    EXPECT_FALSE(write_process(child, address, data)) << "the process is gone";
    for (int end : {said[0], said[1], over[0], over[1]}) close(end);
}

// Goal: what a killed run of the job has left under its name is neither used nor taken for a death;
// when the rank of this run comes, its memory replaces it. Method: a process makes rank 1's memory
// and is killed; rank 0 is of the next run.
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

// Goal: a process number that means another rank here, as across PID namespaces, is not read in its
// place.
// Method: rank 1's header says that it lies where rank 0's does, in this process.
TEST(ShmContract, another_rank_is_not_read_in_the_place_of_the_peer) {
    for (bool other : {false, true}) {
        World world("shm", 2);
        auto header = [&](int rank) {
            return Segment::open("/pomona-" + world.tag + "-" + std::to_string(rank));
        };
        auto first = header(0), second = header(1);
        ASSERT_TRUE(first.ok() && second.ok());
        auto& theirs = *reinterpret_cast<SegmentHeader*>(second->data());
        if (other)
            theirs.own_address = reinterpret_cast<SegmentHeader*>(first->data())->own_address;
        Endpoint& endpoint = world.endpoint(0, 1);
        Checker sink;
        while (!try_push(endpoint, 0, 8, false)) world.nodes[0].transport->poll(sink, 16);
        EXPECT_EQ(endpoint.pulls(), !other);
    }
}

// Memory of the system behind a file of /dev/shm, in bytes.
size_t memory_behind(const std::string& name) {
    struct stat status {};
    if (stat(("/dev/shm/" + name).c_str(), &status) != 0) return 0;
    return static_cast<size_t>(status.st_blocks) * 512;
}

// Goal: among many ranks a pair that talks, but never much at once, takes a few pages; when its
// ring has run full it has the whole of it, and nothing is lost on the way. Method: as many ranks
// as make rings short, of which two exist; megabytes one message after the other; then bursts.
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

// Goal: rule 6 for a rank that closes in good order: what it had sent arrives, then its end is
// told.
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
    std::string kind = GetParam();
    if (kind.starts_with("tcp") || kind.starts_with("rdma"))
        until([&] { return sinks[0].arrived == sent; });
    if (world.fabric) world.fabric->leave(1, true);
    else world.nodes[1].transport.reset();
    ASSERT_TRUE(told(world, sinks[0], false));
    EXPECT_EQ(sinks[0].arrived, sent);
    EXPECT_EQ(endpoint.push(header_of(1, 0), {}), Push::gone);
    for (int i = 0; i < 3000; ++i) poll(0);
    EXPECT_EQ(sinks[0].told[1], 1);
}

// Goal: rule 6 for a peer that is given up: nothing more arrives, not even what had, and pushes say
// gone.
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

#ifdef POMONA_CONTRACT_OVER_RDMA
INSTANTIATE_TEST_SUITE_P(Transports, Contract, testing::Values("rdma_link", "rdma_link_of_two"),
                         [](const auto& info) { return std::string(info.param); });
// Not by TCP alone.
struct GoesByRdma final : testing::Environment {
    void TearDown() override { EXPECT_GT(cables().messages(), 3000u); }
};
const auto* const kGoesByRdma = testing::AddGlobalTestEnvironment(new GoesByRdma);
#else
INSTANTIATE_TEST_SUITE_P(Transports, Contract,
                         testing::Values("self", "shm", "shm_bell", "shm_many", "shm_many_bell",
                                         "tcp", "tcp_sealed", "tcp_link", "tcp_link_of_two", "sim"),
                         [](const auto& info) { return std::string(info.param); });
#endif

}  // namespace
}  // namespace pomona
