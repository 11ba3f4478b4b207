// tests/sim/relays.cc: paths through others, over simulated paths that break, in virtual time.
// Storms: 3 to 5 ranks, of which only some pairs have paths of their own (a chain at least), while
// paths lose, break and are cut and ranks stop for a while, drawn from a seed. All pairs exchange
// messages and long payloads; every byte is checked, nobody is told to be gone, nothing hangs.
// POMONA_LINK_SEEDS: how many seeds (100), from POMONA_SEED on. Single faults: the rank between
// dies or stands still where there is another one, or there is none; a path without others comes
// up; a chain is too long; memory at the rank between is bounded.
#include "tests/sim/link_world.h"

#include <set>

namespace pomona {
namespace {

using Pair = std::pair<int, int>;

// Only these pairs have paths of their own.
void allow_only(World& world, const std::set<Pair>& pairs) {
    auto number = static_cast<int>(world.ranks.size());
    for (int a = 0; a < number; ++a)
        for (int b = 0; b < number; ++b)
            for (int way = 0; way < world.ways && a != b; ++way)
                if (!pairs.count({std::min(a, b), std::max(a, b)}))
                    world.fabric.block(way, a, b, true);
}

struct RelayStorm {
    explicit RelayStorm(uint64_t number) : seed(number) {}
    uint64_t seed;
    Random random{seed};
    int ranks = 3 + static_cast<int>(random.below(3));
    uint64_t messages = 5 + random.below(40);
    uint64_t bulks = random.below(3);
    std::set<Pair> pairs = draw_pairs();
    std::multimap<sim::Time, std::function<void()>> actions;

    std::set<Pair> draw_pairs() {
        std::vector<int> order;
        for (int rank = 0; rank < ranks; ++rank) order.push_back(rank);
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
        std::set<Pair> out;
        for (size_t i = 1; i < order.size(); ++i) out.insert(std::minmax({order[i - 1], order[i]}));
        for (int a = 0; a < ranks; ++a)
            for (int b = a + 1; b < ranks; ++b)
                if (random.chance(0.2)) out.insert({a, b});
        return out;
    }
    std::vector<sim::WayOptions> draw_ways() {
        std::vector<sim::WayOptions> out(1 + random.below(2));
        for (sim::WayOptions& way : out) {
            way.reliable = random.chance(0.7);
            way.latency_ns = 1000.0 * static_cast<double>(1 + random.below(300));
            way.jitter_ns = random.chance(0.5) ? 2 * way.latency_ns : 0;
            way.buffer = 1 << (14 + random.below(7));
            way.fragment_max = kFragment + kLinkRoom;
            if (!way.reliable) way.loss = random.chance(0.7) ? 0.1 * random.unit() : 0;
            if (!way.reliable) way.doubling = random.chance(0.5) ? 0.1 * random.unit() : 0;
        }
        return out;
    }
    void draw_faults(World& world) {
        std::vector<Pair> list(pairs.begin(), pairs.end());
        for (uint64_t n = random.below(10); n > 0; --n) {
            sim::Time begin = 2e9 * random.unit(), end = begin + 1.5e9 * random.unit();
            auto [a, b] = list[random.below(list.size())];
            if (random.chance(0.5)) std::swap(a, b);
            auto way = static_cast<int>(random.below(static_cast<uint64_t>(world.ways)));
            auto cut = [&world, way, a = a, b = b](bool cuts, bool both) {
                world.fabric.block(way, a, b, cuts);
                if (both) world.fabric.block(way, b, a, cuts);
            };
            Rank& stops = *world.ranks[static_cast<size_t>(a)];
            switch (random.below(4)) {
            case 0:
            case 1: {
                bool both = random.chance(0.7);
                actions.emplace(begin, [=] { cut(true, both); });
                actions.emplace(end, [=] { cut(false, both); });
                break;
            }
            case 2:
                actions.emplace(begin, [&world, way, a = a, b = b] {
                    world.fabric.break_path(way, a, b, false);
                });
                break;
            default:
                actions.emplace(begin, [&stops] { stops.stopped = true; });
                actions.emplace(end, [&stops] { stops.stopped = false; });
            }
        }
    }
    bool all_done(World& world) const {
        for (auto& rank : world.ranks)
            for (int peer = 0; peer < ranks; ++peer)
                if (peer != rank->rank &&
                    (rank->next[peer] < messages || rank->released_bulks[peer] < bulks ||
                     rank->completed[peer] < bulks ||
                     rank->released_messages[peer] < rank->held_messages[peer]))
                    return false;
        return true;
    }
    std::string state_of(World& world) const {
        std::string out = "hangs:";
        for (auto& rank : world.ranks)
            for (int peer = 0; peer < ranks; ++peer) {
                Endpoint* end = rank->transport->path(peer);
                if (peer != rank->rank && rank->next[peer] < messages)
                    out += " " + std::to_string(rank->rank) + "<-" + std::to_string(peer) + ": " +
                           std::to_string(rank->next[peer]) + "/" + std::to_string(messages) +
                           " (" + (end ? end->state_text() : "") + ")";
            }
        for (Pair each : pairs)
            out += ", " + std::to_string(each.first) + "-" + std::to_string(each.second);
        return out;
    }
    void run() {
        Params params;
        if (random.chance(0.5)) params.link_window = 256 << 10;
        World world(seed, ranks, draw_ways(), params);
        world.allow_relays();
        allow_only(world, pairs);
        draw_faults(world);
        double step = 1000.0 * static_cast<double>(10 + random.below(1000));
        while (!all_done(world)) {
            ASSERT_LT(world.fabric.world().now(), 60e9) << state_of(world);
            while (!actions.empty() && actions.begin()->first <= world.fabric.world().now())
                actions.extract(actions.begin()).mapped()();
            for (auto& rank : world.ranks) {
                if (rank->stopped) continue;
                for (int peer = 0; peer < ranks; ++peer) {
                    if (peer == rank->rank) continue;
                    for (uint64_t n = random.below(8);
                         n > 0 && rank->sent_messages[peer] < messages; --n)
                        if (!world.push_message(rank->rank, peer, random)) break;
                    if (rank->begun_bulks[peer] < bulks && random.chance(0.2))
                        world.push_bulk(rank->rank, peer, random);
                }
                rank->transport->poll(*rank, 1 + static_cast<int>(random.below(32)));
            }
            world.fabric.run_until(world.fabric.world().now() + step * random.unit() + 1);
            if (testing::Test::HasFailure()) return;
        }
        for (auto& [time, action] : actions) action();
        auto pending = [](auto& rank) { return rank->transport->pending(); };
        // What was lost while a path was cut goes again after longer and longer pauses.
        for (int i = 0; i < 20; ++i) {
            world.run(4e9, 5e6);
            if (std::none_of(world.ranks.begin(), world.ranks.end(), pending)) break;
        }
        for (auto& rank : world.ranks) {
            EXPECT_FALSE(rank->transport->pending());
            for (auto& [peer, times] : rank->told) EXPECT_EQ(times, 0) << rank->why;
            for (auto& [key, in] : rank->receives)
                for (std::byte each : in.buffer) ASSERT_EQ(each, std::byte{0xee}) << "written late";
        }
    }
};

TEST(Relays, survive_what_paths_do) {
    set_log_levels("error");
    uint64_t first = number_from("POMONA_SEED", 1), seeds = number_from("POMONA_LINK_SEEDS", 100);
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("repeat with POMONA_LINK_SEEDS=1 POMONA_SEED=" + std::to_string(seed));
        RelayStorm{seed}.run();
        if (HasFailure()) return;
    }
}

// ---- single faults

struct RelaysFaults : testing::Test {
    RelaysFaults() { set_log_levels("error"); }
    static World& prepare(World& world, const std::set<Pair>& pairs) {
        world.allow_relays();
        allow_only(world, pairs);
        return world;
    }
    // Messages until the other one has them; the time that takes.
    static sim::Time exchange(World& world, int a, int b, int number = 1) {
        Random random(7);
        sim::Time begin = world.fabric.world().now();
        for (int i = 0; i < number; ++i)
            for (auto [from, to] : {Pair{a, b}, Pair{b, a}})
                while (!world.push_message(from, to, random)) world.run(1e6);
        auto arrived = [&](int from, int to) {
            return world.ranks[static_cast<size_t>(to)]->next[from] ==
                   world.ranks[static_cast<size_t>(from)]->sent_messages[to];
        };
        while (!(arrived(a, b) && arrived(b, a)) && world.fabric.world().now() < begin + 40e9)
            world.run(2e6);
        EXPECT_TRUE(arrived(a, b) && arrived(b, a));
        return world.fabric.world().now() - begin;
    }
    static std::string way(World& world, int from, int to) {
        return world.endpoint(from, to).state_text();
    }
};

TEST_F(RelaysFaults, reports_name_who_stands_between) {
    World world(3, 3, {{}});
    prepare(world, {{0, 1}, {1, 2}});
    EXPECT_LT(exchange(world, 0, 2, 20), 1e9);
    EXPECT_EQ(way(world, 0, 2), "through rank 1");
    EXPECT_EQ(way(world, 2, 0), "through rank 1");
    exchange(world, 0, 1);
    EXPECT_EQ(way(world, 0, 1), "connected");
    EXPECT_TRUE(world.ranks[1]->transport->serves());
    EXPECT_FALSE(world.ranks[0]->transport->serves());
}

TEST_F(RelaysFaults, a_chain_of_five) {
    World world(3, 5, {{}});
    prepare(world, {{0, 1}, {1, 2}, {2, 3}, {3, 4}});
    EXPECT_LT(exchange(world, 0, 4, 20), 3e9);
    EXPECT_EQ(way(world, 4, 0), "through ranks 3 2 1");
}

// Nobody looks for longer ways: the two do not meet, and learn it.
TEST_F(RelaysFaults, a_chain_of_six_is_too_long) {
    Params params;
    params.connect_timeout_ms = 3000;
    World world(3, 6, {{}}, params);
    prepare(world, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
    world.endpoint(0, 5).push({}, {});
    world.run(4e9);
    EXPECT_EQ(world.ranks[0]->told[5], 1);
    for (int rank = 1; rank < 5; ++rank)
        for (auto& [peer, times] : world.ranks[static_cast<size_t>(rank)]->told)
            EXPECT_EQ(times, 0) << rank << " was told of " << peer;
}

// A square: whoever stands between ends without a word, stands still, or is cut off.
TEST_F(RelaysFaults, another_one_is_taken) {
    for (int fault = 0; fault < 4; ++fault) {
        SCOPED_TRACE(fault);
        World world(5, 4, {{}});
        prepare(world, {{0, 1}, {1, 3}, {0, 2}, {2, 3}});
        exchange(world, 0, 3, 10);
        int between = way(world, 0, 3) == "through rank 1" ? 1 : 2;
        Rank& rank = *world.ranks[static_cast<size_t>(between)];
        if (fault == 0) rank.stopped = true, world.fabric.kill(between);
        if (fault == 1) rank.stopped = true;
        if (fault == 2) rank.stopped = true, world.fabric.vanish(between);
        if (fault == 3)
            world.fabric.block(0, between, 3, true), world.fabric.block(0, 3, between, true);
        EXPECT_LT(exchange(world, 0, 3, 10), 4e9);
        EXPECT_EQ(way(world, 0, 3), "through rank " + std::to_string(3 - between));
        EXPECT_EQ(way(world, 3, 0), "through rank " + std::to_string(3 - between));
        EXPECT_EQ(world.ranks[0]->told[3], 0);
        EXPECT_EQ(world.ranks[3]->told[0], 0);
    }
}

// Where there is no other one the grace runs as for any link.
TEST_F(RelaysFaults, without_another_one_the_process_is_gone) {
    Params params;
    params.link_grace_s = 3;
    World world(5, 3, {{}}, params);
    prepare(world, {{0, 1}, {1, 2}});
    exchange(world, 0, 2, 10);
    world.ranks[1]->stopped = true;
    world.fabric.kill(1);
    world.run(2.5e9);
    EXPECT_EQ(world.ranks[0]->told[2], 0);
    world.run(3e9);
    EXPECT_EQ(world.ranks[0]->told[2], 1);
    EXPECT_EQ(world.ranks[2]->told[0], 1);
}

// Who is at the other end and does not look is not taken for gone.
TEST_F(RelaysFaults, a_busy_process_is_waited_for) {
    Params params;
    params.link_grace_s = 3;
    World world(5, 4, {{}}, params);
    prepare(world, {{0, 1}, {1, 3}, {0, 2}, {2, 3}});
    exchange(world, 0, 3, 10);
    world.ranks[3]->stopped = true;
    Random random(3);
    ASSERT_TRUE(world.push_message(0, 3, random));
    world.run(20e9, 5e6);
    world.ranks[3]->stopped = false;
    EXPECT_LT(exchange(world, 0, 3), 3e9);
    EXPECT_EQ(world.ranks[0]->told[3], 0);
}

TEST_F(RelaysFaults, a_path_without_others_is_taken_again) {
    World world(5, 3, {{}});
    prepare(world, {{0, 1}, {1, 2}});
    exchange(world, 0, 2, 10);
    for (int round = 0; round < 3; ++round) {
        world.fabric.block(0, 0, 2, false);
        world.fabric.block(0, 2, 0, false);
        world.run(3e9);
        EXPECT_EQ(way(world, 0, 2), "connected");
        EXPECT_EQ(way(world, 2, 0), "connected");
        EXPECT_FALSE(world.ranks[1]->transport->serves());
        exchange(world, 0, 2, 10);
        world.fabric.block(0, 0, 2, true);
        world.fabric.block(0, 2, 0, true);
        EXPECT_LT(exchange(world, 0, 2, 10), 4e9);
        EXPECT_EQ(way(world, 0, 2), "through rank 1");
    }
}

// Whoever stands between may leave when the others have.
TEST_F(RelaysFaults, who_leaves_sets_the_others_free) {
    World world(5, 3, {{}});
    prepare(world, {{0, 1}, {1, 2}});
    exchange(world, 0, 2, 10);
    ASSERT_TRUE(world.ranks[1]->transport->serves());
    world.ranks[0]->transport.reset();
    world.run(0.1e9);  // what it had said gets through
    world.fabric.kill(0);
    world.run(1e9);
    EXPECT_FALSE(world.ranks[1]->transport->serves());
    EXPECT_EQ(world.ranks[2]->told[0], 1) << "its good-bye came through";
}

// The receiver does not look, the sender sends what it can: no more than a window waits between.
TEST_F(RelaysFaults, memory_between_is_bounded) {
    World world(5, 3, {{}});
    prepare(world, {{0, 1}, {1, 2}});
    exchange(world, 0, 2, 10);
    uint64_t before = world.counters.relayed_bytes;
    world.ranks[2]->stopped = true;
    Random random(3);
    for (int i = 0; i < 100; ++i) world.push_bulk(0, 2, random);
    world.run(10e9, 5e6);
    EXPECT_LT(world.counters.relayed_bytes - before, 3u << 20);
    world.ranks[2]->stopped = false;
    world.run(5e9);
    EXPECT_EQ(world.ranks[0]->released_bulks[2], 100u);
}

}  // namespace
}  // namespace pomona
