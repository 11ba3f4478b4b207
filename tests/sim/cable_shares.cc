// tests/sim/cable_shares.cc: what share of the cables' rate collectives reach among 2 to 4 machines
// that cables join: in a mesh, a chain, a ring, a star, and meshes without some of their cables.
// Goal: what is chosen comes near to what no schedule can beat. Method: virtual time, 4.2 us and 75
// Gb/s either way on each cable; all cables of a machine at once, each byte copied once at either
// end; machines without a cable go through others. Each row is printed as a line of JSON
// (tests/bench/cables.py keeps them).
// A bound is what the busiest cable must carry (cable_bounds.h), or a message over the longest way.
#include "coll/catalog.h"
#include "coll/ring_order.h"
#include "coll/select.h"
#include "tests/sim/cable_bounds.h"
#include "tests/sim/collective_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

namespace pomona {
namespace {

using coll::Collective;

constexpr double kMessage = 4200, kByte = 8 / 75.0, kOverhead = 300;

const std::vector<CabledMachines>& all_cables() {
    static const std::vector<CabledMachines> all = {
        {"mesh", 2, {{0, 1}}},
        {"mesh", 3, {{0, 1}, {0, 2}, {1, 2}}},
        {"mesh", 4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}},
        {"chain", 3, {{0, 1}, {1, 2}}},
        {"chain", 4, {{0, 1}, {1, 2}, {2, 3}}},
        {"ring", 4, {{0, 1}, {1, 2}, {2, 3}, {0, 3}}},
        {"mesh_but_one", 4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}}},
        {"triangle_with_tail", 4, {{0, 1}, {0, 2}, {1, 2}, {2, 3}}},
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

Cluster cluster_of(const CabledMachines& cables) {
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

double bound_ns(const CabledMachines& cables, Collective collective, size_t bytes) {
    int way = is_rooted(collective) ? longest_way(cables, 0) : longest_way(cables);
    return std::max(way * kMessage,
                    least_laden(cables, collective) * static_cast<double>(bytes) * kByte);
}

coll::Shape shape_of(const Cluster& cluster, Collective collective, size_t bytes) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(cluster.nodes.size());
    shape.element = 8;
    bool whole = collective == Collective::allreduce || is_rooted(collective);
    shape.count = bytes / 8 / static_cast<size_t>(whole ? 1 : shape.size);
    shape.place(cluster.places);
    return shape;
}

// How much of the bound's pace is reached, as chosen.
double share_of(const CabledMachines& cables, Collective collective, size_t bytes) {
    Cluster cluster = cluster_of(cables);
    coll::Shape shape = shape_of(cluster, collective, bytes);
    coll::Plan plan = select(shape, cluster.machine);
    double time =
        sim::collective_time(*plan.algorithm, shape, plan.options, cluster.machine, cluster.links);
    double share = bound_ns(cables, collective, bytes) / time;
    std::printf(
        "{\"network\": \"%s\", \"machines\": %d, \"collective\": \"%s\", \"bytes\": %zu, "
        "\"algorithm\": \"%s\", \"segments\": %d, \"us\": %.1f, \"share\": %.3f}\n",
        cables.name, cables.machines, collective_name(collective), bytes, plan.algorithm->name,
        plan.options.segments, time / 1e3, share);
    return share;
}

constexpr size_t kSizes[] = {64 << 10, 1 << 20, 16 << 20, 64 << 20};

TEST(CableShares, of_long_vectors) {
    for (const CabledMachines& cables : all_cables())
        for (Collective collective :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter,
              Collective::alltoall, Collective::bcast, Collective::reduce})
            for (size_t bytes : kSizes) {
                double share = share_of(cables, collective, bytes);
                EXPECT_LE(share, 1.001);  // else it is no bound
                // A reduce's root adds up all parts by itself, which takes longer than its cables.
                double least = collective == Collective::reduce ? 0.65 : 0.85;
                if (bytes < 16 << 20) least = 0;
                EXPECT_GE(share, least) << cables.name << " of " << cables.machines << ", "
                                        << collective_name(collective) << " of " << bytes;
            }
}

TEST(CableShares, of_8_bytes) {
    for (const CabledMachines& cables : all_cables())
        EXPECT_GE(share_of(cables, Collective::allreduce, 8), 1 / 1.5)
            << cables.name << " of " << cables.machines;
}

}  // namespace
}  // namespace pomona
