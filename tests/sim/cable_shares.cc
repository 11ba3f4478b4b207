// tests/sim/cable_shares.cc: what share of the cables' rate collectives reach among 2 to 4 machines
// that cables join: in a mesh, a chain, a ring, a star, and a mesh without one of its cables.
// Goal: to see how near what is chosen comes to what no schedule can beat. Method: virtual time,
// 4.2 us and 75 Gb/s either way on each cable; all cables of a machine at once, each byte copied
// once at either end; machines without a cable go through others. Each row is printed as a line of
// JSON (tests/bench/cables.py keeps them).
// Bounds, of a vector of n bytes with blocks of n / p:
//   allreduce       each part of a vector takes 2 (k - 1) messages between k groups of machines, of
//                   whatever groups (Harary, Schwenk, "The communication problem on graphs and
//                   digraphs", J. Franklin Institute 297, 1974), by the cables between groups
//   allgather       what machines of a group have leaves it by its cables; a reduce_scatter is the
//                   same turned round
//   alltoall        the same with the blocks for those outside; and each block takes as many cables
//                   as its way is long at least
//   all             the message over the longest way
#include "coll/catalog.h"
#include "coll/ring_order.h"
#include "coll/select.h"
#include "tests/sim/schedule_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace pomona {
namespace {

using coll::Collective;

constexpr double kMessage = 4200, kByte = 8 / 75.0, kOverhead = 300;

struct Cables {
    const char* name;
    int machines;
    std::vector<std::pair<int, int>> pairs;
};

const std::vector<Cables>& all_cables() {
    static const std::vector<Cables> all = {
        {"mesh", 2, {{0, 1}}},
        {"mesh", 3, {{0, 1}, {0, 2}, {1, 2}}},
        {"mesh", 4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}},
        {"chain", 3, {{0, 1}, {1, 2}}},
        {"chain", 4, {{0, 1}, {1, 2}, {2, 3}}},
        {"ring", 4, {{0, 1}, {1, 2}, {2, 3}, {0, 3}}},
        {"mesh_but_one", 4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}}},
        {"star", 4, {{0, 1}, {0, 2}, {0, 3}}},
    };
    return all;
}

struct Cluster {
    std::vector<int> nodes, places;
    Roads roads;
    coll::Machine machine;  // as a job sees it, from its addresses
    LinkMap links;          // as it is
};

Cluster cluster_of(const Cables& cables) {
    Cluster made;
    int p = cables.machines;
    auto count = static_cast<size_t>(p);
    made.nodes.resize(count);
    std::iota(made.nodes.begin(), made.nodes.end(), 0);
    std::vector<bool> direct(count * count);
    std::vector<int> lines(count * count, -1);
    coll::Links links;
    links.net = {kMessage - 2 * kOverhead, kOverhead, kByte};
    LinkCost cost{links.net.latency_ns, links.net.overhead_ns, links.net.byte_ns};
    std::vector<LinkMap::Between> between(count * count, {cost, -1});
    for (size_t i = 0; i < cables.pairs.size(); ++i) {
        auto a = static_cast<size_t>(cables.pairs[i].first);
        auto b = static_cast<size_t>(cables.pairs[i].second);
        for (auto [at, to] : {std::pair{a, b}, std::pair{b, a}}) {
            direct[at * count + to] = true;
            lines[at * count + to] = static_cast<int>(to);
            between[at * count + to].cable = static_cast<int>(i);
        }
    }
    made.roads = Roads(p, direct, lines);
    made.machine = coll::Machine::among(links, true, made.nodes, made.roads);
    made.places = coll::with_ring(made.nodes, coll::ring_order(made.machine, made.nodes));
    made.links = coll::links_of(coll::Machine::of(links, true, true), made.nodes);
    made.links.roads = made.roads;
    made.links.within.assign(count, made.links.near);
    made.links.between = between;
    made.links.port_byte_ns = links.copy_ns;
    return made;
}

// Bits of a group's machines; the cables that leave it.
int leaving(const Cables& cables, int group) {
    return static_cast<int>(
        std::count_if(cables.pairs.begin(), cables.pairs.end(), [&](const auto& pair) {
            return (group >> pair.first & 1) != (group >> pair.second & 1);
        }));
}

int hops(const Cluster& cluster, int a, int b) {
    return a == b ? 0 : static_cast<int>(cluster.roads.between(a, b).size()) + 1;
}

double most_of_groups(const Cables& cables, Collective collective) {
    int p = cables.machines;
    double most = 0;
    for (int group = 1; group + 1 < 1 << p; ++group) {
        int inside = 0;
        for (int r = 0; r < p; ++r) inside += group >> r & 1;
        int blocks = inside * (collective == Collective::alltoall ? p - inside : 1);
        most = std::max(most, static_cast<double>(blocks) / leaving(cables, group) / p);
    }
    return most;
}

// All ways to part the machines: group[r] is at most one above those before.
double most_of_partitions(const Cables& cables) {
    auto p = static_cast<size_t>(cables.machines);
    double most = 0;
    std::vector<int> group(p);
    auto part = [&](auto&& self, size_t at, int groups) -> void {
        if (at < p) {
            for (group[at] = 0; group[at] <= groups; ++group[at])
                self(self, at + 1, std::max(groups, group[at] + 1));
            return;
        }
        auto between =
            std::count_if(cables.pairs.begin(), cables.pairs.end(), [&](const auto& pair) {
                return group[static_cast<size_t>(pair.first)] !=
                       group[static_cast<size_t>(pair.second)];
            });
        if (groups > 1) most = std::max(most, (groups - 1) / static_cast<double>(between));
    };
    part(part, 0, 0);
    return most;
}

double bound_ns(const Cables& cables, const Cluster& cluster, Collective collective, size_t bytes) {
    int p = cables.machines, longest = 0, all = 0;
    for (int a = 0; a < p; ++a)
        for (int b = 0; b < p; ++b)
            longest = std::max(longest, hops(cluster, a, b)), all += hops(cluster, a, b);
    double vectors = collective == Collective::allreduce ? most_of_partitions(cables)
                                                         : most_of_groups(cables, collective);
    if (collective == Collective::alltoall)
        vectors = std::max(vectors, all / 2.0 / static_cast<double>(cables.pairs.size()) / p);
    return std::max(longest * kMessage, vectors * static_cast<double>(bytes) * kByte);
}

coll::Shape shape_of(const Cluster& cluster, Collective collective, size_t bytes) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(cluster.nodes.size());
    shape.element = 8;
    bool whole = collective == Collective::allreduce;
    shape.count = bytes / 8 / static_cast<size_t>(whole ? 1 : shape.size);
    shape.place(cluster.places);
    return shape;
}

double time_of(const Cluster& cluster, coll::Shape shape, const coll::Plan& plan) {
    std::vector<coll::Schedule> schedules;
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
        schedules.push_back(build_schedule(*plan.algorithm, shape, plan.options));
    sim::ScheduleOptions options;
    options.ranks = shape.size;
    options.nodes = cluster.nodes;
    options.machine = cluster.machine;
    options.links = cluster.links;
    options.data = false;
    sim::ScheduleWorld world(1, options);
    world.run(schedules, std::vector<coll::Binding>(schedules.size()));
    EXPECT_TRUE(world.all_done()) << plan.algorithm->name;
    return world.makespan();
}

// How much of the bound's pace is reached, as chosen.
double share_of(const Cables& cables, Collective collective, size_t bytes) {
    Cluster cluster = cluster_of(cables);
    coll::Shape shape = shape_of(cluster, collective, bytes);
    coll::Plan plan = select(shape, cluster.machine);
    double time = time_of(cluster, shape, plan);
    double share = bound_ns(cables, cluster, collective, bytes) / time;
    std::printf(
        "{\"network\": \"%s\", \"machines\": %d, \"collective\": \"%s\", \"bytes\": %zu, "
        "\"algorithm\": \"%s\", \"segments\": %d, \"us\": %.1f, \"share\": %.3f}\n",
        cables.name, cables.machines, collective_name(collective), bytes, plan.algorithm->name,
        plan.options.segments, time / 1e3, share);
    return share;
}

constexpr size_t kSizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};

TEST(CableShares, of_long_vectors) {
    for (const Cables& cables : all_cables())
        for (Collective collective : {Collective::allreduce, Collective::allgather,
                                      Collective::reduce_scatter, Collective::alltoall})
            for (size_t bytes : kSizes) {
                double share = share_of(cables, collective, bytes);
                EXPECT_LE(share, 1.001);  // else it is no bound
            }
}

TEST(CableShares, of_8_bytes) {
    for (const Cables& cables : all_cables()) {
        double share = share_of(cables, Collective::allreduce, 8);
        EXPECT_GE(share, std::string_view(cables.name) == "ring" ? 1 / 1.6 : 1 / 1.5);
    }
}

}  // namespace
}  // namespace pomona
