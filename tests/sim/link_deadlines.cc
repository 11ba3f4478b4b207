// tests/sim/link_deadlines.cc: a process that ends at any moment, and a line that is cut for good
// at any moment, in virtual time.
// Goal: whatever two ranks are in the middle of (connecting, greeting, messages, long payloads,
// acknowledgements), no wait for the other side lasts longer than is stated: link_grace_s and two
// seconds where they had met, connect_timeout_ms and two seconds where they had not (where a line
// is cut in one direction, twice link_grace_s); and each is told once. Method: the same traffic of
// both ranks, ended after ever more time, in steps shorter than a message takes.
#include "tests/sim/link_world.h"

namespace pomona {
namespace {

constexpr double kStep = 7'000, kLatency = 20'000;
constexpr int kMoments = 120;  // all of the traffic takes less
constexpr double kGraceS = 3, kConnectS = 4, kMoreS = 2;

enum class End { leaves, dies, vanishes, both_directions, there, back };
constexpr End kEnds[] = {End::leaves,          End::dies,  End::vanishes,
                         End::both_directions, End::there, End::back};

bool one_way(End end) { return end == End::there || end == End::back; }

struct Lines {
    const char* name;
    std::vector<sim::WayOptions> ways;
};

sim::WayOptions line(bool reliable) {
    sim::WayOptions out;
    out.latency_ns = kLatency;
    out.reliable = reliable;
    out.buffer = 32 << 10;  // payloads wait for room
    out.fragment_max = kFragment + kLinkRoom;
    if (!reliable) out.loss = 0.1;
    return out;
}

std::vector<Lines> all_lines() {
    return {{"reliable", {line(true)}},
            {"two reliable", {line(true), line(true)}},
            {"losing", {line(false)}},
            {"losing and reliable", {line(false), line(true)}}};
}

void bring_to_end(World& world, End end) {
    if (end == End::leaves || end == End::dies || end == End::vanishes) {
        Rank& rank = *world.ranks[1];
        rank.stopped = true;
        if (end == End::leaves) rank.transport.reset();
        if (end == End::vanishes) world.fabric.vanish(1);
        else world.fabric.kill(1);
        return;
    }
    for (int way = 0; way < world.ways; ++way) {
        if (end != End::back) world.fabric.block(way, 0, 1, true);
        if (end != End::there) world.fabric.block(way, 1, 0, true);
    }
}

// Traffic until the moment, then the end: how long rank 0, and rank 1 where it lives, waits.
void try_moment(const Lines& lines, End end, int moment) {
    SCOPED_TRACE(std::string(lines.name) + ", end " + std::to_string(static_cast<int>(end)) +
                 " after " + std::to_string(moment) + " steps");
    Params params;
    params.link_grace_s = static_cast<int>(kGraceS);
    params.connect_timeout_ms = static_cast<int>(kConnectS * 1000);
    params.link_window = 64 << 10;
    World world(static_cast<uint64_t>(moment) + 1, 2, lines.ways, params);
    Random random(7);
    for (int from : {0, 1}) {
        world.push_bulk(from, 1 - from, random);
        for (int n = 0; n < 5; ++n) world.push_message(from, 1 - from, random);
    }
    for (int n = 0; n < moment; ++n) world.run(kStep, kStep);
    bring_to_end(world, end);
    bool lives = !world.ranks[1]->stopped;
    // Something that is never answered, at each end.
    auto wants = [&](int from) {
        Rank& rank = *world.ranks[static_cast<size_t>(from)];
        if (rank.told[1 - from] == 0) world.push_bulk(from, 1 - from, random);
    };
    wants(0);
    if (lives) wants(1);
    auto all_told = [&] {
        return world.ranks[0]->told[1] != 0 && (!lives || world.ranks[1]->told[0] != 0);
    };
    sim::Time begin = world.fabric.world().now();
    // By lines that lose, who still hears the other one learns it when that one has given up.
    double grace_s = one_way(end) ? 2 * kGraceS : kGraceS;
    bool met = world.ranks[0]->next[1] != 0 && world.ranks[1]->next[0] != 0;
    double most = ((met ? grace_s : std::max(grace_s, kConnectS)) + kMoreS) * 1e9;
    while (!all_told() && world.fabric.world().now() < begin + most) world.run(1e7, 2e6);
    EXPECT_EQ(world.ranks[0]->told[1], 1);
    EXPECT_EQ(world.ranks[1]->told[0], lives ? 1 : 0);
    double least = lives && met ? (kGraceS - 1) * 1e9 : 0;  // it may come back
    EXPECT_GE(world.fabric.world().now() - begin, least);
    for (int from : {0, 1}) {
        if (from == 1 && !lives) continue;
        EXPECT_EQ(world.endpoint(from, 1 - from).push({}, {}), Push::gone);
        EXPECT_FALSE(world.ranks[static_cast<size_t>(from)]->transport->pending());
    }
    world.run(2e9, 1e7);
    EXPECT_EQ(world.ranks[0]->told[1], 1) << "told again";
}

TEST(LinkDeadlines, at_any_moment_an_end_is_told_in_time) {
    set_log_levels("error");
    for (const Lines& lines : all_lines())
        for (End end : kEnds)
            for (int moment = 0; moment < kMoments; ++moment) {
                try_moment(lines, end, moment);
                if (HasFailure()) return;
            }
}

}  // namespace
}  // namespace pomona
