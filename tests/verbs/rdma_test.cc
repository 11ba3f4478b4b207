// tests/verbs/rdma_test.cc: paths by RDMA, as a link uses them.
// Goal: every fault moves what was under way to TCP and, when it is over, back; sleepers are woken,
// and who ends leaves nothing behind. Method: ranks in one process (rdma_world.h); numbered
// payloads of random lengths, which the sinks check. How they agree: agree_test.cc.
#include "btl/base/log.h"
#include "tests/verbs/rdma_world.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <thread>

namespace pomona {
namespace {

TEST(Rdma, is_agreed_on_and_preferred) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    uint64_t before = world.by_rdma();
    auto by_tcp = [&] { return world.ranks[0].tcp->frames + world.ranks[1].tcp->frames; };
    uint64_t before_by_tcp = by_tcp();
    world.exchange(2000);
    // Where the machine is busy some may take the other way.
    EXPECT_GT(world.by_rdma() - before, 2 * (by_tcp() - before_by_tcp));
}

// Goal: each fault, in the middle of messages, costs none; and RDMA is used again when it is over.
class RdmaFaults : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(RdmaFaults, move_messages_to_TCP_and_back) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(2000, [&](uint64_t turn) {
        if (turn == 20) fabric().say(GetParam().first);
        if (turn == 100) fabric().say("drop * * 0");
    });
    world.exchange(300);
    fabric().say(GetParam().second);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    // A path that was silent is used when it has answered.
    EXPECT_TRUE(world.goes_by_rdma());
}
INSTANTIATE_TEST_SUITE_P(All, RdmaFaults,
                         testing::Values(std::pair{"pull 0 *", "plug 0 *"},
                                         std::pair{"port 1 * down", "port 1 * up"},
                                         std::pair{"lose 0 *", "find 0 *"},
                                         std::pair{"lose 1 *", "find 1 *"},
                                         std::pair{"stall * * on", "stall * * off"},
                                         std::pair{"stall 0 * on", "stall 0 * off"},
                                         std::pair{"drop * * 1000", "drop * * 0"},
                                         std::pair{"drop 1 * 1000", "drop 1 * 0"},
                                         std::pair{"corrupt * * 1000", "corrupt * * 0"}));

class RdmaLosses : public testing::TestWithParam<const char*> {};
TEST_P(RdmaLosses, are_repaired) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    fabric().say(GetParam());
    world.exchange(1500);
    fabric().calm();
    EXPECT_GT(world.by_rdma(), 500u);
}
INSTANTIATE_TEST_SUITE_P(All, RdmaLosses,
                         testing::Values("drop * * 50", "duplicate * * 50", "reorder * * 100",
                                         "corrupt * * 50", "hold * * on"));

// The other cable, when the first one's port is down.
TEST(Rdma, takes_another_cable) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    std::string first = world.ranks[0].rdma->describe(1).text;
    const char* name = first.find("rdma_en2") != std::string::npos ? "rdma_en2" : "rdma_en3";
    int ups = world.ranks[0].rdma->ups;
    fabric().say(std::string("pull 0 ") + name);
    ASSERT_TRUE(world.until([&] { return world.ranks[0].rdma->ups > ups && world.joined(0, 1); }));
    EXPECT_EQ(world.ranks[0].rdma->describe(1).text.find(name), std::string::npos);
    world.exchange(200);
}

// Goal: a device that takes nothing back costs no message, is asked for nothing in a wrong order,
// and a person is told; what it can still write to stays. Method: such a device, whose cable
// is pulled, or which vanishes.
TEST(Rdma, a_device_takes_nothing_back) {
    for (auto [fault, mend] :
         {std::pair{"pull * *", "plug * *"}, std::pair{"lose 0 *", "find 0 *"}}) {
        Ranks world(2);
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        int ups = world.ranks[0].rdma->ups, before = fabric().held_by(getpid());
        long warnings = log_warning_count();
        fabric().say("stuck 0 * on");
        fabric().say(fault);
        ASSERT_TRUE(world.until([&] { return !world.joined(0, 1) && !world.joined(1, 0); }));
        world.exchange(300);
        EXPECT_GT(log_warning_count(), warnings);
        int kept = fabric().held_by(getpid()) - world.held;
        EXPECT_EQ(2 * kept, before - world.held) << "what one of the two ends had";
        world.held += kept;
        fabric().say("stuck * * off");
        fabric().say(mend);
        EXPECT_TRUE(
            world.until([&] { return world.ranks[0].rdma->ups > ups && world.joined(0, 1); }));
        world.exchange(300);
    }
}

// Goal: while TCP's connection is made anew messages go by RDMA. Method: it is ended again and
// again.
TEST(Rdma, goes_on_while_TCP_breaks) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    int losses = world.ranks[0].rdma->losses;
    world.exchange(2000, [&](uint64_t turn) {
        if (turn % 100 != 50) return;
        if (Endpoint* path = world.ranks[0].tcp->path(1))
            path->abandon({Code::peer_gone, "It is ended by the test", 1});
    });
    EXPECT_GT(world.ranks[0].tcp->losses, 2);
    EXPECT_EQ(world.ranks[0].rdma->losses, losses);
}

// Where a rank is a process of its own.
void tell_address(int end, const std::vector<std::byte>& address) {
    uint32_t length = static_cast<uint32_t>(address.size());
    (void)!write(end, &length, sizeof length);
    (void)!write(end, address.data(), length);
}
std::vector<std::byte> hear_address(int end) {
    uint32_t length = 0;
    (void)!read(end, &length, sizeof length);
    std::vector<std::byte> address(length);
    (void)!read(end, address.data(), length);
    return address;
}

// Goal: a process that is killed is gone, though RDMA says nothing. Method: a rank as a process.
TEST(Rdma, a_killed_process_is_gone) {
    int to_child[2], to_parent[2];
    ASSERT_EQ(pipe(to_child), 0);
    ASSERT_EQ(pipe(to_parent), 0);
    fabric().calm();
    pid_t child = fork();
    if (child == 0) {
        Ranks world(2, 1);
        tell_address(to_parent[1], world.ranks[1].address);
        world.ranks[0].address = hear_address(to_child[0]);
        for (uint64_t number = 0;; world.poll())
            if (number < 100 && try_push(world.endpoint(1, 0), number, 100, false)) ++number;
    }
    Ranks world(2, 0);
    tell_address(to_child[1], world.ranks[0].address);
    world.ranks[1].address = hear_address(to_parent[0]);
    auto& own = world.ranks[0];
    EXPECT_TRUE(world.until([&] { return own.rdma->up_now[1] && own.sink.arrived == 100; }));
    kill(child, SIGKILL);
    siginfo_t dead;
    waitid(P_PID, static_cast<id_t>(child), &dead, WEXITED | WNOWAIT);
    EXPECT_TRUE(world.until([&] { return own.sink.told[1] == 1; }, 5));
    waitpid(child, nullptr, 0);
    for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
}

// Goal: a process that is asked to end by a signal ends by that one, and soon, and has given its
// queue pairs and regions back. Method: a rank as a process, which polls, or is busy; the devices
// say whose they are.
TEST(Rdma, a_process_that_is_asked_to_end_leaves_nothing_in_its_devices) {
    struct Case {
        int number;
        bool busy;
    };
    for (auto [number, busy] :
         {Case{SIGTERM, false}, Case{SIGTERM, true}, Case{SIGINT, false}, Case{SIGHUP, false}}) {
        fabric().calm();
        int to_child[2], to_parent[2];
        ASSERT_EQ(pipe(to_child), 0);
        ASSERT_EQ(pipe(to_parent), 0);
        pid_t child = fork();
        if (child == 0) {
            std::signal(number, SIG_DFL);  // a background process may have it ignored
            Ranks world(2, 1);
            tell_address(to_parent[1], world.ranks[1].address);
            world.ranks[0].address = hear_address(to_child[0]);
            while (!world.ranks[1].rdma->up_now[0] || world.ranks[1].sink.arrived < 10)
                world.poll();
            (void)!write(to_parent[1], "", 1);
            while (true)
                if (!busy) world.poll();
        }
        Ranks world(2, 0);
        tell_address(to_child[1], world.ranks[0].address);
        world.ranks[1].address = hear_address(to_parent[0]);
        fcntl(to_parent[0], F_SETFL, O_NONBLOCK);
        char byte;
        bool ready = false, ended = false;
        EXPECT_TRUE(world.until([&] {
            if (world.sent[0] < 20 && try_push(world.endpoint(0, 1), world.sent[0], 100, false))
                ++world.sent[0];
            ready = ready || read(to_parent[0], &byte, 1) == 1;
            return ready;
        }));
        EXPECT_GT(fabric().held_by(child), 0);
        Nanoseconds begin = world.clock.now();
        kill(child, number);
        int status = 0;
        EXPECT_TRUE(world.until(
            [&] { return ended || (ended = waitpid(child, &status, WNOHANG) == child); }));
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
        EXPECT_LT(world.clock.now() - begin, 10'000'000'000);
        EXPECT_EQ(fabric().held_by(child), 0) << (busy ? "busy" : "in MPI");
        for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
    }
}

// Goal: who asks for room is promised none that messages on their way will take, which would be
// lost. Method: rank 1 hears the question by TCP while it does not look at what came by RDMA.
TEST(Rdma, room_is_not_promised_twice) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(50);
    Ranks::Rank& far = world.ranks[1];
    uint64_t lost = fabric().without_receive(), goal = far.sink.arrived, begun = world.sent[0];
    far.rdma->unread = true;
    Nanoseconds end = world.clock.now() + 300'000'000;
    while (world.clock.now() < end) {
        if (world.sent[0] < begun + 2000 &&
            try_push(world.endpoint(0, 1), world.sent[0], 3000, false))
            ++world.sent[0];
        world.poll();
    }
    goal += world.sent[0] - begun;
    far.rdma->unread = false;
    EXPECT_TRUE(world.until([&] { return far.sink.arrived >= goal; }));
    EXPECT_EQ(fabric().without_receive(), lost);
}

// Goal: a rank that sleeps for long is woken by a message, and by credit. Method: both ends poll
// until rank 1 may sleep for long; it then sleeps, for 20 s at the most, and is not polled before.
TEST(Rdma, a_sleeper_is_woken) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(50);
    auto falls_asleep = [&](Ranks::Rank& rank) {
        return world.until([&] {
            bool armed = rank.transport->arm();
            bool deep = armed && rank.rdma->sleep_max() >= 100'000'000;
            if (armed && !deep) rank.transport->disarm();
            return deep;
        });
    };
    auto sleep = [&](Ranks::Rank& rank) {
        Nanoseconds begin = world.clock.now();
        rank.sleeper->sleep(20'000'000'000);
        EXPECT_LT(world.clock.now() - begin, 19'000'000'000);
        rank.transport->disarm();
    };
    Ranks::Rank &near = world.ranks[0], &far = world.ranks[1];
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(falls_asleep(far));
        uint64_t before = far.rdma->frames, arrived = far.sink.arrived;
        ASSERT_TRUE(try_push(world.endpoint(0, 1), world.sent[0], 100, false));
        ++world.sent[0];
        sleep(far);
        EXPECT_TRUE(world.until([&] { return far.sink.arrived > arrived; }));
        EXPECT_GT(far.rdma->frames, before);
    }
    // A sender that has no credit left.
    uint64_t goal = far.sink.arrived, begun = world.sent[0];
    while (try_push(world.endpoint(0, 1), world.sent[0], 3000, false)) ++world.sent[0];
    goal += world.sent[0] - begun;
    Nanoseconds end = world.clock.now() + 20'000'000'000;
    while (far.sink.arrived < goal && world.clock.now() < end) {
        near.transport->poll(near.sink, 16);
        if (near.transport->arm()) {
            if (near.rdma->sleep_max() >= 100'000'000) {
                // It is told of credit when the other one takes messages in.
                for (int i = 0; i < 100; ++i) far.transport->poll(far.sink, 16);
                near.sleeper->sleep(100'000'000);
            }
            near.transport->disarm();
        }
        far.transport->poll(far.sink, 1);
    }
    EXPECT_EQ(far.sink.arrived, goal);
}

// Goal: a rank that mostly sleeps leaves a pulled cable at the first wakings after it looks at
// ports again, and not after so many of them, since each sleep is longer than the last. Method:
// wakings are counted.
TEST(Rdma, who_sleeps_sees_that_a_cable_was_pulled) {
    Ranks world(2);
    world.exchange(50);
    for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(1, 0); }));
        fabric().say("pull * *");
        for (auto& each : world.ranks) {
            int losses = each.rdma->losses;
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
            // A busy machine lets the driver's thread tell of the port a few wakings later.
            for (int waking = 0; waking < 8 && each.rdma->losses == losses; ++waking) {
                if (each.transport->arm()) each.transport->disarm();
                each.transport->poll(each.sink, 16);
                if (waking >= 2) std::this_thread::sleep_for(std::chrono::milliseconds(3));
            }
            EXPECT_GT(each.rdma->losses, losses) << "round " << round;
        }
        fabric().say("plug * *");
    }
}

// Only looking at it and sleeping take time.
struct SteppedClock final : Clock {
    Nanoseconds now() override { return time += 100; }
    Nanoseconds time = 1'000'000'000;
};

// Two ranks that sleep when a poll has found nothing, as long as they may, or until TCP brings
// something.
struct Sleepers {
    explicit Sleepers(Ranks& world, SteppedClock& clock) : world(world), clock(clock) {}
    // The one whose time has come looks.
    void step() {
        size_t which = wake_at[1] < wake_at[0];
        Ranks::Rank& own = world.ranks[which];
        clock.time = std::max(clock.time, wake_at[which]);
        if (std::exchange(armed[which], false)) own.transport->disarm();
        bool found = own.transport->poll(own.sink, 16) > 0;
        armed[which] = !found && own.transport->arm();
        Nanoseconds sleep = armed[which] ? own.transport->sleep_max() : 0;
        wake_at[which] = clock.time + std::clamp<Nanoseconds>(sleep, 1'000, 1'000'000'000);
        size_t other = 1 - which;
        if (!armed[other]) return;
        world.ranks[other].transport->disarm();
        armed[other] = world.ranks[other].transport->arm();
        if (!armed[other]) wake_at[other] = clock.time;
    }
    // Outside MPI for so long.
    void compute(size_t which, Nanoseconds time) {
        if (std::exchange(armed[which], false)) world.ranks[which].transport->disarm();
        wake_at[which] = clock.time + time;
    }
    // A message from one to the other: how long it takes.
    Nanoseconds send(int from) {
        auto& to = world.ranks[static_cast<size_t>(1 - from)].sink;
        uint64_t goal = to.arrived + 1;
        Nanoseconds begin = clock.time;
        EXPECT_TRUE(try_push(world.endpoint(from, 1 - from), world.sent[from]++, 8, false));
        while (to.arrived < goal && clock.time < begin + 10'000'000'000) step();
        EXPECT_EQ(to.arrived, goal);
        return clock.time - begin;
    }
    Ranks& world;
    SteppedClock& clock;
    Nanoseconds wake_at[2] = {0, 0};
    bool armed[2] = {false, false};
};

// Goal: what is sent when a cable was pulled arrives by TCP within 50 ms. Method: cuts at any time
// among messages and pauses, by a clock that no other process's work moves.
TEST(Rdma, a_pulled_cable_is_left_within_50_ms) {
    SteppedClock clock;
    Ranks world(2, -1, 1, &clock);
    Sleepers both(world, clock);
    Random random(seed());
    world.exchange(50);
    std::vector<Nanoseconds> gaps;
    for (int cut = 0; cut < 100; ++cut) {
        Nanoseconds end = clock.time + 20'000'000'000;
        for (; !world.joined(0, 1) && clock.time < end; clock.time += 20'000) world.poll();
        ASSERT_TRUE(world.joined(0, 1));
        both.wake_at[0] = both.wake_at[1] = clock.time;
        for (uint64_t n = random.below(200) + 20; n > 0; --n) {
            both.send(static_cast<int>(n % 2));
            Nanoseconds pause = clock.time + static_cast<Nanoseconds>(random.below(400'000));
            while (random.chance(0.1) && clock.time < pause) both.step();
            // One of them computes: what is measured of the path gets bad.
            if (n > 4 && random.chance(0.2))
                both.compute(n % 2, static_cast<Nanoseconds>(random.below(60'000'000)));
        }
        fabric().say("pull * *");
        gaps.push_back(both.send(cut % 2));
        fabric().say("plug * *");
    }
    std::sort(gaps.begin(), gaps.end());
    std::printf("from the cut to the first message by TCP: median %.1f ms, at most %.1f ms\n",
                static_cast<double>(gaps[gaps.size() / 2]) / 1e6,
                static_cast<double>(gaps.back()) / 1e6);
    EXPECT_LT(gaps.back(), 50'000'000);
    fabric().calm();
}

// Goal: a short message costs no look at the clock, which would take a good part of its time.
// Method: looks are counted while two ranks send in turns; some belong to what is done from time
// to time.
TEST(Rdma, short_messages_hardly_look_at_the_clock) {
    SteppedClock clock;
    Ranks world(2, -1, 1, &clock);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(1, 0); }));
    constexpr int kMessages = 2000;
    Endpoint* endpoints[2] = {&world.endpoint(0, 1), &world.endpoint(1, 0)};
    uint64_t by_rdma = world.ranks[0].rdma->frames + world.ranks[1].rdma->frames;
    Nanoseconds begin = clock.time;
    for (int n = 0; n < kMessages; ++n) {
        Ranks::Rank& to = world.ranks[static_cast<size_t>(1 - n % 2)];
        uint64_t goal = to.sink.arrived + 1;
        ASSERT_TRUE(try_push(*endpoints[n % 2], world.sent[n % 2]++, 8, false));
        for (int turn = 0; turn < 1000 && to.sink.arrived < goal; ++turn)
            to.transport->poll(to.sink, 16);
        ASSERT_EQ(to.sink.arrived, goal);
    }
    by_rdma = world.ranks[0].rdma->frames + world.ranks[1].rdma->frames - by_rdma;
    EXPECT_GE(by_rdma, kMessages);
    double looks = static_cast<double>((clock.time - begin) / 100) / kMessages;
    std::printf("%.2f looks at the clock for a message\n", looks);
    EXPECT_LT(looks, 0.5);
}

TEST(Rdma, the_end_of_a_process_is_told) {
    Ranks world(3);
    world.exchange(50);
    world.endpoint(0, 2);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(0, 2); }));
    world.ranks[1].transport.reset();
    EXPECT_TRUE(world.until([&] { return world.ranks[0].sink.told[1] == 1; }));
    EXPECT_EQ(world.ranks[0].sink.told[2], 0);
}

}  // namespace
}  // namespace pomona
