// tests/sim/rdma_bounds.cc: collectives among 2 to 4 machines joined by cables as quick as
// Thunderbolt 5 is said to be.
// Goal: what is chosen comes near to what no schedule can beat. Method: virtual time, 4.2 us and 75
// Gb/s; machines in a mesh, where all cables of a machine are busy at once; in a chain, where
// messages between the ends share the lines of those between; or at a switch, by one line each.
// Of a vector each of p machines has to send at least (p - 1) / p for a reduce_scatter or an
// allgather, and twice that for an allreduce: in a mesh by p - 1 cables. One within a chain sends
// all of it in both directions.
#include "coll/catalog.h"
#include "coll/select.h"
#include "tests/sim/collective_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace pomona {
namespace {

using coll::Collective;

constexpr double kMessage = 4200, kByte = 8 / 75.0, kOverhead = 300;
enum Network { mesh, chain, at_a_switch };
constexpr const char* kNames[] = {"in a mesh", "in a chain", "at a switch"};

struct Cluster {
    std::vector<int> nodes;
    coll::Machine machine;  // as collectives see it
    LinkMap links;          // as it is
};

Cluster cluster_of(int machines, Network network) {
    Cluster made;
    made.nodes.resize(static_cast<size_t>(machines));
    std::iota(made.nodes.begin(), made.nodes.end(), 0);
    coll::Links links;
    links.net = {kMessage - 2 * kOverhead, kOverhead, kByte};
    auto count = static_cast<size_t>(machines);
    std::vector<bool> direct;
    std::vector<int> lines;
    std::vector<LinkMap::Between> between;
    for (int a = 0; a < machines; ++a)
        for (int b = 0; b < machines; ++b) {
            direct.push_back(network != chain || (a - b <= 1 && b - a <= 1));
            lines.push_back(network == mesh ? b : 0);
            between.push_back({{links.net.latency_ns, links.net.overhead_ns, links.net.byte_ns},
                               network == mesh ? std::min(a, b) * machines + std::max(a, b) : -1});
        }
    Roads roads(machines, direct, lines);
    if (network == mesh) {
        made.machine = coll::Machine::among(links, true, made.nodes, roads);
        EXPECT_EQ(made.machine.apart, machines > 2);
    } else {
        made.machine = coll::Machine::of(links, true, true, detours_of(roads, made.nodes));
    }
    made.links = coll::links_of(coll::Machine::of(links, true, true), made.nodes);
    if (network == chain) made.links.roads = roads;
    if (network != mesh) return made;
    made.links.within.assign(count, made.links.near);
    made.links.between = between;
    made.links.port_byte_ns = links.copy_ns;
    return made;
}

struct Found {
    double time, bound;
    std::string name;
};

// `bytes`: of the whole vector. `choice`: instead of what is chosen.
Found run(Collective collective, int machines, Network network, size_t bytes,
          const coll::Choice& choice = {}) {
    Cluster cluster = cluster_of(machines, network);
    bool whole = collective == Collective::allreduce;
    coll::Shape shape;
    shape.collective = collective;
    shape.size = machines;
    shape.element = 8;
    shape.count = bytes / 8 / static_cast<size_t>(whole ? 1 : machines);
    shape.nodes = cluster.nodes;
    coll::Plan plan = select(shape, cluster.machine, choice);
    double time =
        sim::collective_time(*plan.algorithm, shape, plan.options, cluster.machine, cluster.links);
    auto p = static_cast<double>(machines), n = static_cast<double>(bytes);
    double sent = (whole ? 2 : 1) * (p - 1) / p, rounds = 1;
    if (network == mesh) sent /= p - 1;
    if (network == chain && machines > 2) sent = whole ? 2 : 1;
    if (network == chain) rounds = p - 1;
    return {time, std::max(rounds * kMessage, sent * n * kByte), plan.algorithm->name};
}

TEST(RdmaBounds, allreduce_is_near_them) {
    for (Network network : {mesh, chain, at_a_switch})
        for (int machines : {2, 3, 4})
            for (size_t bytes : {size_t{8}, size_t{16} << 20, size_t{64} << 20}) {
                Found found = run(Collective::allreduce, machines, network, bytes);
                std::printf("%d %s, %zu bytes: %s, %.1f us, %.2f of the bound's pace\n", machines,
                            kNames[network], bytes, found.name.c_str(), found.time / 1e3,
                            found.bound / found.time);
                if (bytes > 8) EXPECT_GE(found.bound / found.time, 0.85);
                else EXPECT_LE(found.time / found.bound, 1.5);
            }
}

TEST(RdmaBounds, of_a_mesh_allgather_and_reduce_scatter_use_all_cables) {
    for (Collective collective : {Collective::allgather, Collective::reduce_scatter})
        for (int machines : {3, 4})
            for (size_t bytes : {size_t{16} << 20, size_t{64} << 20}) {
                Found found = run(collective, machines, mesh, bytes);
                std::printf("%s among %d, %zu bytes: %s, %.1f us, %.2f of the bound's pace\n",
                            collective_name(collective), machines, bytes, found.name.c_str(),
                            found.time / 1e3, found.bound / found.time);
                EXPECT_GE(found.bound / found.time, 0.85);
            }
}

// Goal: the bound of a mesh is one that a ring cannot reach, so that the tests above see what is
// taken. Where there is one line for all, direct exchanges are not compared with rings.
TEST(RdmaBounds, a_ring_fills_one_cable_and_a_switch_stays_one_line) {
    coll::Choice ring;
    ring.algorithm = "ring";
    for (int machines : {3, 4}) {
        Found found = run(Collective::allreduce, machines, mesh, 16 << 20, ring);
        EXPECT_NEAR(found.bound / found.time, 1.0 / (machines - 1), 0.03);
        for (Network network : {chain, at_a_switch})
            for (Collective collective : {Collective::allreduce, Collective::reduce_scatter})
                for (size_t bytes = 8 * static_cast<size_t>(machines); bytes < 64 << 20; bytes *= 8)
                    EXPECT_NE(run(collective, machines, network, bytes).name, "direct");
    }
}

}  // namespace
}  // namespace pomona
