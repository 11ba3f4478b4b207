// tests/sim/rdma_bounds.cc: allreduce among 2 to 4 machines joined by cables as quick as
// Thunderbolt 5 is said to be.
// Goal: what is chosen comes near to what no schedule can beat. Method: virtual time, 4.2 us and 75
// Gb/s; machines in a mesh, or in a chain, where messages between the ends share the lines of those
// between. A machine is taken to have one line for all its cables, as collectives do
// (docs/architecture.md): with p machines each has to send at least 2 (p - 1) / p of the vector,
// and one within a chain all of it in both directions.
#include "coll/catalog.h"
#include "coll/select.h"
#include "tests/sim/schedule_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace pomona {
namespace {

constexpr double kMessage = 4200, kByte = 8 / 75.0, kOverhead = 300;

Roads roads_of(int machines, bool chain) {
    std::vector<bool> direct;
    for (int a = 0; a < machines; ++a)
        for (int b = 0; b < machines; ++b) direct.push_back(!chain || (a - b <= 1 && b - a <= 1));
    return {machines, direct};
}

struct Found {
    double time, bound;
    std::string name;
};

Found allreduce(int machines, bool chain, size_t bytes) {
    coll::Shape shape;
    shape.collective = coll::Collective::allreduce;
    shape.size = machines;
    shape.element = 8;
    shape.count = bytes / 8;
    std::vector<int> nodes;
    for (int i = 0; i < machines; ++i) nodes.push_back(i);
    shape.nodes = nodes;
    coll::Links links;
    links.net = {kMessage - 2 * kOverhead, kOverhead, kByte};
    Roads roads = roads_of(machines, chain);
    coll::Machine machine = coll::Machine::of(links, true, true, detours_of(roads, nodes));
    coll::Machine direct = coll::Machine::of(links, true, true);
    coll::Plan plan = select(shape, machine);
    std::vector<coll::Schedule> schedules;
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
        schedules.push_back(build_schedule(*plan.algorithm, shape, plan.options));
    sim::ScheduleOptions options;
    options.ranks = machines;
    options.nodes = nodes;
    options.machine = direct;
    options.links = coll::links_of(direct, options.nodes);
    if (chain) options.links->roads = roads;
    options.data = false;
    sim::ScheduleWorld world(1, options);
    world.run(schedules, std::vector<coll::Binding>(schedules.size()));
    EXPECT_TRUE(world.all_done());
    auto p = static_cast<double>(machines), n = static_cast<double>(bytes);
    double through = chain && machines > 2 ? 2 : 2 * (p - 1) / p;
    double rounds = chain ? p - 1 : 1;
    return {world.makespan(), std::max(rounds * kMessage, through * n * kByte),
            plan.algorithm->name};
}

TEST(RdmaBounds, allreduce_is_near_them) {
    for (bool chain : {false, true})
        for (int machines : {2, 3, 4})
            for (size_t bytes : {size_t{8}, size_t{16} << 20, size_t{64} << 20}) {
                Found found = allreduce(machines, chain, bytes);
                std::printf("%d in a %s, %zu bytes: %s, %.1f us, %.2f of the bound's pace\n",
                            machines, chain ? "chain" : "mesh", bytes, found.name.c_str(),
                            found.time / 1e3, found.bound / found.time);
                if (bytes > 8) EXPECT_GE(found.bound / found.time, 0.85);
                else EXPECT_LE(found.time / found.bound, 1.5);
            }
}

}  // namespace
}  // namespace pomona
