// tests/sim/links.cc: links over simulated paths that break, in virtual time.
// Storms: random traffic and faults drawn from a seed (loss, doubling, reordering, cuts clean,
// silent, half-open and one-way, slow paths, processes that stop for a while). Messages arrive once
// and in order, long payloads once and whole; payloads are released when they have arrived and not
// looked at afterwards; nothing is written to a receiver's memory after its payload is complete;
// nothing hangs; who has nothing left to do may sleep. Every byte is checked. POMONA_LINK_SEEDS:
// how many seeds (200), from POMONA_SEED on.
// Ends: a process that leaves, dies, vanishes with its machine, is given up, or never comes up is
// told gone, once and in time. Cuts: messages leave a silent path soon.
#include "tests/sim/link_world.h"

#include <cstdio>

namespace pomona {
namespace {

// ---- faults by seed

struct Storm {
    explicit Storm(uint64_t number) : seed(number) {}
    uint64_t seed;
    Random random{seed};
    int ranks = random.chance(0.2) ? 3 : 2;
    uint64_t messages = 20 + random.below(120);
    uint64_t bulks = random.below(6);
    bool withdraws = random.chance(0.3);  // payloads that are under way

    std::vector<sim::WayOptions> draw_ways() {
        std::vector<sim::WayOptions> out(1 + random.below(3));
        for (sim::WayOptions& way : out) {
            way.reliable = random.chance(0.6);
            way.latency_ns = 1000.0 * static_cast<double>(1 + random.below(500));
            way.byte_ns = random.chance(0.2) ? 100 : 1;
            way.jitter_ns = random.chance(0.5) ? 3 * way.latency_ns : 0;
            way.buffer = 1 << (12 + random.below(9));
            way.fragment_max = kFragment + kLinkRoom;
            if (!way.reliable) {
                way.loss = random.chance(0.7) ? 0.3 * random.unit() : 0;
                way.doubling = random.chance(0.5) ? 0.2 * random.unit() : 0;
            }
        }
        return out;
    }
    // Faults that last for a while, each with its end.
    void draw_faults(World& world) {
        int number = static_cast<int>(random.below(12));
        for (int i = 0; i < number; ++i) {
            sim::Time begin = 1e9 * random.unit(), end = begin + 1e9 * random.unit();
            int a = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
            int b = (a + 1) % ranks;
            int way = static_cast<int>(random.below(static_cast<uint64_t>(world.ways)));
            uint64_t what = random.below(6);
            auto& actions = world_actions;
            auto block = [&](int from, int to) {
                actions.emplace(
                    begin, [&world, way, from, to] { world.fabric.block(way, from, to, true); });
                actions.emplace(
                    end, [&world, way, from, to] { world.fabric.block(way, from, to, false); });
            };
            if (what == 0) block(a, b), block(b, a);  // a silent cut
            if (what == 1) block(a, b);               // one way only
            if (what == 2) block(b, a);
            if (what == 3 || what == 4)  // clean, and half-open
                actions.emplace(begin, [&world, way, a, b, what] {
                    world.fabric.break_path(way, a, b, what == 4);
                });
            if (what == 5) {
                actions.emplace(
                    begin, [&world, a] { world.ranks[static_cast<size_t>(a)]->stopped = true; });
                actions.emplace(
                    end, [&world, a] { world.ranks[static_cast<size_t>(a)]->stopped = false; });
            }
        }
    }
    bool all_done(World& world) const {
        for (auto& rank : world.ranks)
            for (int peer = 0; peer < ranks; ++peer) {
                if (peer == rank->rank) continue;
                if (rank->next[peer] < messages || rank->released_bulks[peer] < bulks ||
                    rank->completed[peer] < bulks ||
                    rank->released_messages[peer] < rank->held_messages[peer])
                    return false;
            }
        return true;
    }
    std::multimap<sim::Time, std::function<void()>> world_actions;

    void run() {
        Params params;
        if (random.chance(0.7)) params.link_window = 64 << 10;  // soon full
        World world(seed, ranks, draw_ways(), params);
        draw_faults(world);
        double step = 1000.0 * static_cast<double>(1 + random.below(1000));
        while (!all_done(world)) {
            ASSERT_LT(world.fabric.world().now(), 60e9) << state_of(world);
            while (!world_actions.empty() &&
                   world_actions.begin()->first <= world.fabric.world().now())
                world_actions.extract(world_actions.begin()).mapped()();
            for (auto& rank : world.ranks) {
                if (rank->stopped) continue;
                for (int peer = 0; peer < ranks; ++peer) {
                    if (peer == rank->rank) continue;
                    // Only one side makes the link at first, mostly.
                    if (rank->rank > peer && !rank->transport->path(peer) && random.chance(0.9))
                        continue;
                    for (uint64_t n = random.below(8);
                         n > 0 && rank->sent_messages[peer] < messages; --n)
                        if (!world.push_message(rank->rank, peer, random)) break;
                    if (rank->begun_bulks[peer] < bulks && random.chance(0.2))
                        world.push_bulk(rank->rank, peer, random);
                    if (withdraws && rank->begun_bulks[peer] != 0 && random.chance(0.05))
                        world.withdraw_bulk(rank->rank, peer, random);
                }
                if (random.chance(0.8))
                    rank->transport->poll(*rank, 1 + static_cast<int>(random.below(16)));
            }
            world.fabric.run_until(world.fabric.world().now() + step * random.unit() + 1);
            if (testing::Test::HasFailure()) return;
        }
        for (auto& [time, action] : world_actions) action();  // the faults that last still
        world.run(4e9, 5e6);                                  // what comes late does no harm
        for (auto& rank : world.ranks) {
            EXPECT_FALSE(rank->transport->pending());
            EXPECT_GT(rank->transport->sleep_max(), 10'000'000) << "it wakes for nothing";
            for (auto& [peer, times] : rank->told) EXPECT_EQ(times, 0) << rank->why;
            for (auto& [key, in] : rank->receives)
                for (std::byte each : in.buffer) ASSERT_EQ(each, std::byte{0xee}) << "written late";
        }
    }
    std::string state_of(World& world) const {
        std::string out = "hangs:";
        for (auto& rank : world.ranks)
            for (int peer = 0; peer < ranks; ++peer)
                out += " " + std::to_string(rank->rank) + "<-" + std::to_string(peer) + ": " +
                       std::to_string(rank->next[peer]) + "/" + std::to_string(messages) + " " +
                       std::to_string(rank->released_bulks[peer]) + "/" + std::to_string(bulks);
        return out;
    }
};

TEST(Links, survive_what_paths_do) {
    set_log_levels("error");
    uint64_t first = number_from("POMONA_SEED", 1), seeds = number_from("POMONA_LINK_SEEDS", 200);
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("repeat with POMONA_LINK_SEEDS=1 POMONA_SEED=" + std::to_string(seed));
        Storm{seed}.run();
        if (HasFailure()) return;
    }
}

// ---- ends

sim::WayOptions reliable_way() { return {}; }
sim::WayOptions losing_way() {
    sim::WayOptions way;
    way.reliable = false;
    way.loss = 0.1;
    return way;
}

struct LinksEnd : testing::TestWithParam<int> {
    static std::vector<sim::WayOptions> ways() {
        switch (GetParam()) {
        case 0: return {reliable_way()};
        case 1: return {reliable_way(), reliable_way()};
        case 2: return {losing_way()};
        default: return {losing_way(), reliable_way()};
        }
    }
    static Params short_grace() {
        Params params;
        params.link_grace_s = 3;
        return params;
    }
    // A link that both ends have used.
    void use(World& world) {
        Random random(5);
        ASSERT_TRUE(world.push_message(0, 1, random));
        world.run(0.5e9);
        ASSERT_TRUE(world.push_message(1, 0, random));
        world.run(0.5e9);
        ASSERT_EQ(world.ranks[1]->next[0], 1u);
        ASSERT_EQ(world.ranks[0]->next[1], 1u);
    }
};

// A process that leaves says so: the other end is told at once, and once.
TEST_P(LinksEnd, a_process_that_leaves_is_gone) {
    set_log_levels("error");
    World world(3, 2, ways(), short_grace());
    use(world);
    world.ranks[1]->transport.reset();
    world.fabric.kill(1);
    world.run(GetParam() == 2 ? 6e9 : 0.5e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
    EXPECT_EQ(world.endpoint(0, 1).push({}, {}), Push::gone);
    world.run(1e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
}

// One that ends without a word, on a machine that goes on, is found before the grace is over: its
// system refuses new connections.
TEST_P(LinksEnd, a_process_that_dies_is_gone) {
    set_log_levels("error");
    World world(3, 2, ways(), short_grace());
    use(world);
    world.ranks[1]->stopped = true;
    world.fabric.kill(1);
    world.run(GetParam() >= 2 ? 5e9 : 1e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
}

// A machine that vanishes is found within link_grace_s and two seconds, also by who only waits.
TEST_P(LinksEnd, a_machine_that_vanishes_is_gone) {
    set_log_levels("error");
    World world(3, 2, ways(), short_grace());
    use(world);
    world.ranks[1]->stopped = true;
    world.fabric.vanish(1);
    world.run(2.4e9);  // it was heard half a second before
    EXPECT_EQ(world.ranks[0]->told[1], 0);
    world.run(2.6e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
    EXPECT_EQ(world.endpoint(0, 1).push({}, {}), Push::gone);
}

// One that was given up by its user is told once; payloads are not looked at any more.
TEST_P(LinksEnd, a_process_given_up_is_gone) {
    set_log_levels("error");
    World world(3, 2, ways(), short_grace());
    use(world);
    Random random(1);
    world.push_bulk(0, 1, random);
    world.endpoint(0, 1).abandon({Code::malformed, "It sent what it must not", 1});
    world.ranks[0]->sending.clear();
    EXPECT_EQ(world.endpoint(0, 1).push({}, {}), Push::gone);
    world.run(1e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
    EXPECT_EQ(world.ranks[0]->released_bulks[1], 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, LinksEnd, testing::Values(0, 1, 2, 3));

// A link that is down for more than a second is told of in one line, which says who, by which paths
// and for how long operations wait, and another line tells when it is back; shorter ones are not
// told of.
TEST(Links, that_are_down_are_told_of_once) {
    set_log_levels("warn");
    World world(3, 2, {reliable_way(), reliable_way()});
    Random random(5);
    ASSERT_TRUE(world.push_message(0, 1, random));
    world.run(1e9);
    auto cables = [&](bool blocked) {
        for (int way : {0, 1}) {
            world.fabric.block(way, 0, 1, blocked);
            world.fabric.block(way, 1, 0, blocked);
            if (blocked) world.fabric.break_path(way, 0, 1, false);
        }
    };
    // Each rank's words while the cables are out for so long, and after it.
    auto words_of_cut = [&](double out) {
        std::pair<std::string, std::string> words;
        testing::internal::CaptureStderr();
        cables(true);
        world.run(out);
        words.first = testing::internal::GetCapturedStderr();
        testing::internal::CaptureStderr();
        cables(false);
        world.run(5e9);
        words.second = testing::internal::GetCapturedStderr();
        return words;
    };
    auto times = [](const std::string& text, const std::string& words) {
        int count = 0;
        for (size_t at = 0; (at = text.find(words, at)) != text.npos; at += words.size()) ++count;
        return count;
    };
    auto [brief, after] = words_of_cut(0.8e9);
    EXPECT_EQ(brief + after, "");
    auto [down, back] = words_of_cut(6e9);
    std::string grace = format("operations with it wait for up to {} s", world.params.link_grace_s);
    for (int peer : {0, 1}) {
        std::string name = format("Rank {0} on host{0}", peer);
        EXPECT_EQ(times(down, name + " has not been reached for 1."), 1) << down;
        EXPECT_EQ(times(back, name + " is reached again after 6."), 1) << back;
    }
    EXPECT_EQ(times(down, "\n"), 2) << down;
    EXPECT_EQ(times(down, grace), 2) << down;
    EXPECT_EQ(times(down, "sim 0: "), 2) << down;
    EXPECT_EQ(times(down, "sim 1: "), 2) << down;
    EXPECT_EQ(times(back, "\n"), 2) << back;
    for (auto& rank : world.ranks)
        for (auto& [peer, told] : rank->told) EXPECT_EQ(told, 0) << rank->why;
}

// A process that dies before any path to it came up is found by refusals alone, too: at once on one
// machine, and after a while on another one, where a firewall may refuse in its place. Where a path
// says nothing, or one of two, its silence proves nothing.
TEST(Links, a_process_that_dies_before_it_was_reached_is_gone) {
    set_log_levels("error");
    sim::WayOptions here, elsewhere;
    here.here = true;
    auto told_after = [](std::vector<sim::WayOptions> ways, bool silent) {
        Params params;
        params.link_grace_s = 5;
        World world(3, 2, std::move(ways), params);
        world.ranks[1]->stopped = true;
        if (silent) world.fabric.block(0, 0, 1, true), world.fabric.block(0, 1, 0, true);
        world.fabric.kill(1);
        world.endpoint(0, 1).push({}, {});
        while (world.ranks[0]->told[1] == 0 && world.fabric.world().now() < 40e9) world.run(1e7);
        EXPECT_EQ(world.ranks[0]->told[1], 1);
        return world.fabric.world().now() / 1e9;
    };
    EXPECT_LT(told_after({here}, false), 1);
    EXPECT_LT(told_after({here, here}, false), 1);
    double by_another = told_after({here, elsewhere}, false);
    EXPECT_GE(by_another, 5);
    EXPECT_LT(by_another, 7);
    EXPECT_GE(told_after({elsewhere}, true), 30);
    EXPECT_GE(told_after({here, here}, true), 30);
}

// Who only waits for a message, and connects for that, is told of a death too; but else the other
// side has all the time that it wants.
TEST(Links, who_only_waits_is_told_of_a_death_and_waits_for_the_living) {
    set_log_levels("error");
    for (bool dies : {false, true}) {
        Params params;
        params.link_grace_s = 5;
        World world(3, 2, {reliable_way()}, params);
        world.ranks[1]->stopped = true;
        world.fabric.block(0, 0, 1, true);
        (void)world.endpoint(0, 1);
        world.run(100e9, 1e7);
        EXPECT_EQ(world.ranks[0]->told[1], 0);
        world.fabric.block(0, 0, 1, false);
        if (dies) world.fabric.kill(1);
        else world.ranks[1]->stopped = false;
        world.run(8e9, 1e6);
        EXPECT_EQ(world.ranks[0]->told[1], dies ? 1 : 0);
        if (dies) continue;
        Random random(5);
        ASSERT_TRUE(world.push_message(1, 0, random));
        world.run(1e9);
        EXPECT_EQ(world.ranks[0]->next[1], 1u);
    }
}

// Nothing at the other end: the link is given up when connect_timeout_ms is over.
TEST(Links, a_link_that_never_comes_up_is_gone) {
    Params params;
    params.connect_timeout_ms = 2000;
    World world(3, 2, {reliable_way()}, params);
    world.fabric.kill(1);
    world.ranks[1]->stopped = true;
    world.endpoint(0, 1).push({}, {});
    world.run(1.9e9);
    EXPECT_EQ(world.ranks[0]->told[1], 0);
    world.run(0.2e9);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
}

// Of two paths the one that messages take is cut without a word: they go by the other one soon.
TEST(Links, a_silent_cut_is_left_soon) {
    sim::WayOptions quick, slow;
    quick.latency_ns = 50'000, slow.latency_ns = 200'000;
    quick.notice_ns = slow.notice_ns = 10e9;
    World world(9, 2, {quick, slow});
    Random random(2);
    ASSERT_TRUE(world.push_message(0, 1, random));
    world.run(1e9);
    world.fabric.block(0, 0, 1, true);
    world.fabric.block(0, 1, 0, true);
    ASSERT_TRUE(world.push_message(0, 1, random));
    sim::Time cut = world.fabric.world().now();
    while (world.ranks[1]->next[0] < 2 && world.fabric.world().now() < cut + 1e9)
        world.run(1e5, 1e5);
    EXPECT_LT(world.fabric.world().now() - cut, 50e6);
}

// Messages take the quickest path, also where it is not the first of the transports.
TEST(Links, messages_take_the_quickest_path) {
    sim::WayOptions slow, quick;
    slow.latency_ns = 2'000'000, quick.latency_ns = 50'000;
    World world(9, 2, {slow, quick});
    Random random(2);
    for (int each = 0; each < 20; ++each) {
        ASSERT_TRUE(world.push_message(0, 1, random));
        world.run(0.1e9);
    }
    for (uint64_t sent = 20; sent < 30; ++sent) {
        ASSERT_TRUE(world.push_message(0, 1, random));
        sim::Time begin = world.fabric.world().now();
        while (world.ranks[1]->next[0] <= sent && world.fabric.world().now() < begin + 1e9)
            world.run(1e4, 1e4);
        EXPECT_LT(world.fabric.world().now() - begin, 500e3);
        world.run(0.05e9);
    }
}

// Takes long payloads, whose bytes are not looked at.
struct Taker final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t) override {
        return bytes.data() + header.word[3];
    }
    void arrive(int, const FrameHeader& header, ConstBytes payload) override {
        if (payload.data() != bytes.data() + header.word[3])
            std::copy(payload.begin(), payload.end(), bytes.data() + header.word[3]);
    }
    void released(int, uint64_t) override { over = true; }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    std::vector<std::byte> bytes;
    bool over = false;
};

// Goal: where it pays Ethernet carries a part of what goes by a cable, and else none worth speaking
// of. Method: long payloads by a cable, which rides, and another line; the times of the last ones,
// with two lines and alone.
struct Shared {
    std::vector<double> times;  // of payloads, one after the other
    double by_line = 0;         // part of the last ones' bytes
};
Shared share_payloads(std::vector<sim::WayOptions> ways) {
    constexpr size_t kLength = 8 << 20;
    constexpr int kPayloads = 40, kLast = 20;
    World world(4, 2, ways);
    Taker sender, receiver;
    receiver.bytes.resize(kLength);
    std::vector<std::byte> data = payload_of(1, kLength);
    Shared out;
    auto poll = [&](double step) {
        world.ranks[0]->transport->poll(sender, 16);
        world.ranks[1]->transport->poll(receiver, 16);
        world.fabric.run_until(world.fabric.world().now() + step);
    };
    (void)world.endpoint(0, 1);
    for (int i = 0; i < 2000; ++i) poll(1e4);
    int line = static_cast<int>(ways.size()) - 1;
    uint64_t before = 0;
    for (int payload = 0; payload < kPayloads; ++payload) {
        if (payload == kPayloads - kLast) before = world.fabric.delivered(line, 1, 0);
        sim::Time begin = world.fabric.world().now();
        Bulk bulk;
        bulk.length = kLength;
        bulk.data = data.data();
        sender.over = false;
        EXPECT_EQ(world.endpoint(0, 1).push_bulk(bulk), Push::sent);
        while (!sender.over && world.fabric.world().now() < begin + 1e9) poll(2e3);
        EXPECT_TRUE(receiver.bytes == data) << payload;
        std::fill(receiver.bytes.begin(), receiver.bytes.end(), std::byte{0});
        out.times.push_back(world.fabric.world().now() - begin);
    }
    out.by_line =
        static_cast<double>(world.fabric.delivered(line, 1, 0) - before) / (kLast * kLength);
    std::sort(out.times.end() - kLast, out.times.end());
    out.times.erase(out.times.begin(), out.times.end() - kLast);
    return out;
}

TEST(Links, a_cable_and_another_line_share_long_payloads_where_that_pays) {
    sim::WayOptions cable, line;
    cable.rides = true;
    cable.reliable = false;
    cable.latency_ns = 4'200, cable.byte_ns = 0.2;
    cable.buffer = line.buffer = 256 << 10;
    line.byte_ns = 0.8;
    sim::WayOptions mute = line;  // a line that carries words only
    mute.byte_ns = 1000;
    Shared alone = share_payloads({cable, mute}), both = share_payloads({cable, line});
    double before = alone.times[10], after = both.times[10];
    std::printf("8 MiB take %.0f us by the cable, %.0f us by both, %.2f of it by the other line\n",
                before / 1e3, after / 1e3, both.by_line);
    // The two together carry 1.25 times as much.
    EXPECT_LT(after, 0.86 * before);
    EXPECT_GT(both.by_line, 0.1);
    // What a line a thousand times slower is tried with costs little.
    EXPECT_LT(before, 1.1 * 0.2 * (8 << 20));
    EXPECT_LT(alone.by_line, 0.01);
}

// The same with many messages to one side, which says nothing but what has arrived: that must not
// go by the silent path, and what was lost with it is said again.
TEST(Links, acknowledgements_leave_a_silent_cut_too) {
    for (double notice : {10e9, 0.3e9}) {
        sim::WayOptions quick, slow;
        quick.latency_ns = 50'000, slow.latency_ns = 200'000;
        quick.notice_ns = slow.notice_ns = notice;
        Params params;
        params.link_window = 64 << 10;
        World world(9, 2, {quick, slow}, params);
        Random random(2);
        auto send = [&](sim::Time time) {
            sim::Time end = world.fabric.world().now() + time;
            while (world.fabric.world().now() < end) {
                while (world.push_message(0, 1, random)) {}
                world.run(1e5, 1e5);
            }
        };
        send(0.3e9);
        world.fabric.block(0, 0, 1, true);
        world.fabric.block(0, 1, 0, true);
        send(0.05e9);
        for (int times = 0; times < 40; ++times) {
            uint64_t before = world.ranks[1]->next[0];
            send(0.02e9);
            ASSERT_GT(world.ranks[1]->next[0], before) << times;
        }
    }
}

}  // namespace
}  // namespace pomona
