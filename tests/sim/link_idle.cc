// tests/sim/link_idle.cc: what a turn costs a rank that has many links with nothing to do.
// Goal: a turn does not get dearer with each process that a rank has spoken to, also while one of
// the paths to all of these is down and tried again, or loses frames and is watched for that.
// Method: one rank exchanges messages with many others; then turns are counted in which a link of
// its was looked after, in virtual time.
#include "btl/link/state.h"
#include "tests/sim/link_world.h"

namespace pomona {
namespace {

constexpr int kPeers = 40;

sim::WayOptions a_way(bool reliable) {
    sim::WayOptions way;
    way.latency_ns = 5000;
    way.reliable = reliable;
    way.fragment_max = kFragment + kLinkRoom;
    return way;
}

struct LinkIdle : testing::Test {
    // All of them exchange a message with rank 0, and have nothing more to do.
    void exchange(World& world) {
        Random random(7);
        for (int peer = 1; peer <= kPeers; ++peer) {
            ASSERT_TRUE(world.push_message(0, peer, random));
            ASSERT_TRUE(world.push_message(peer, 0, random));
        }
        world.run(2e9);
        for (int peer = 1; peer <= kPeers; ++peer) ASSERT_EQ(world.ranks[0]->next[peer], 1u);
    }
    // How often a link is looked after in 5000 turns that take a microsecond each.
    uint64_t looked_after(World& world) {
        auto& links = static_cast<link::Links&>(*world.ranks[0]->transport);
        uint64_t before = links.looked_after();
        for (int turn = 0; turn < 5000; ++turn) {
            links.poll(*world.ranks[0], 16);
            world.fabric.run_until(world.fabric.world().now() + 1000);
        }
        return links.looked_after() - before;
    }
};

TEST_F(LinkIdle, links_with_all_their_paths_are_not_looked_after) {
    World world(1, kPeers + 1, {a_way(true), a_way(true)});
    exchange(world);
    EXPECT_EQ(looked_after(world), 0u);
}

// Each 2 ms is soon enough to look whether to try again.
TEST_F(LinkIdle, links_with_a_path_that_is_down_cost_a_turn_nothing) {
    World world(1, kPeers + 1, {a_way(true), a_way(true)});
    for (int peer = 1; peer <= kPeers; ++peer) {
        world.fabric.block(1, 0, peer, true);
        world.fabric.block(1, peer, 0, true);
    }
    exchange(world);
    uint64_t sum = looked_after(world);
    EXPECT_GT(sum, 0u);  // else the path would not come back
    EXPECT_LE(sum, 5u * kPeers);
    for (int peer = 1; peer <= kPeers; ++peer) {
        world.fabric.block(1, 0, peer, false);
        world.fabric.block(1, peer, 0, false);
    }
    world.run(3e9);
    EXPECT_EQ(looked_after(world), 0u);
    for (int peer = 1; peer <= kPeers; ++peer) {
        auto& links = static_cast<link::Links&>(*world.ranks[0]->transport);
        for (const LinkPath& path : links.existing(peer)->describe_paths())
            EXPECT_EQ(path.state, "up") << peer;
    }
}

TEST_F(LinkIdle, links_that_may_lose_cost_a_turn_nothing) {
    World world(1, kPeers + 1, {a_way(true), a_way(false)});
    exchange(world);
    uint64_t sum = looked_after(world);
    EXPECT_LE(sum, 5u * kPeers);
}

}  // namespace
}  // namespace pomona
