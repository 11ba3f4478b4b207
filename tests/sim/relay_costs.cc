// tests/sim/relay_costs.cc: collectives among machines in a chain, whose ends have no path of their
// own.
// Goal: who knows of the ways through others chooses differently where that pays, and is not slower
// for it.
// Method: both choices run in the simulated network, in which messages share the lines between.
#include "coll/catalog.h"
#include "coll/select.h"
#include "tests/sim/collective_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace pomona {
namespace {

using coll::Collective;

// A chain of machines with a rank each, in the order of the ranks.
Roads chain(int machines) {
    std::vector<bool> direct;
    for (int a = 0; a < machines; ++a)
        for (int b = 0; b < machines; ++b) direct.push_back(a - b <= 1 && b - a <= 1);
    return {machines, direct};
}

coll::Shape shape_of(Collective collective, const std::vector<int>& nodes, size_t bytes) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(nodes.size());
    shape.element = 8;
    shape.count = bytes / 8;
    shape.nodes = nodes;
    return shape;
}

double time_of(const coll::Plan& plan, coll::Shape shape, const coll::Machine& direct,
               const Roads& roads) {
    // The network adds what is between.
    LinkMap links = coll::links_of(direct, {shape.nodes.begin(), shape.nodes.end()});
    links.roads = roads;
    return sim::collective_time(*plan.algorithm, shape, plan.options, direct, std::move(links));
}

TEST(RelayCosts, choices_know_of_the_machines_between) {
    int changed = 0, kept_up = 0;
    double ratios = 0;  // logarithms
    for (int machines : {3, 4, 5}) {
        std::vector<int> nodes;
        for (int i = 0; i < machines; ++i) nodes.push_back(i);
        Roads roads = chain(machines);
        coll::Machine direct = coll::Machine::of({}, true, true);
        coll::Machine relayed = coll::Machine::of({}, true, true, detours_of(roads, nodes));
        for (Collective collective :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter,
              Collective::alltoall, Collective::bcast})
            for (size_t bytes = 64; bytes <= 4 << 20; bytes *= 4) {
                coll::Shape shape = shape_of(collective, nodes, bytes);
                coll::Plan old_plan = select(shape, direct), plan = select(shape, relayed);
                if (old_plan.algorithm == plan.algorithm) continue;
                double old_time = time_of(old_plan, shape, direct, roads);
                double time = time_of(plan, shape, direct, roads);
                std::printf("%d machines, %s of %zu: %s %.0f ns, %s %.0f ns\n", machines,
                            collective_name(collective), bytes, old_plan.algorithm->name, old_time,
                            plan.algorithm->name, time);
                ++changed;
                kept_up += time < 1.01 * old_time;
                ratios += std::log(time / old_time);
            }
    }
    ASSERT_GT(changed, 0);
    EXPECT_GE(3 * kept_up, 2 * changed);
    EXPECT_LT(std::exp(ratios / changed), 0.9);  // in the mean
}

// What the formulas say of the detours is about what the network does.
TEST(RelayCosts, formulas_hold_to_virtual_time) {
    std::vector<int> nodes{0, 1, 2};
    Roads roads = chain(3);
    coll::Machine direct = coll::Machine::of({}, true, true);
    coll::Machine relayed = coll::Machine::of({}, true, true, detours_of(roads, nodes));
    for (const char* name : {"ring", "bruck", "linear"})
        for (size_t bytes : {size_t{64}, size_t{1} << 20}) {
            coll::Shape shape = shape_of(Collective::allgather, nodes, bytes);
            coll::Plan plan;
            plan.algorithm = coll::find_algorithm(Collective::allgather, name);
            double formula = plan.algorithm->cost(coll::Facts(shape, relayed, plan.options));
            double unaware = plan.algorithm->cost(coll::Facts(shape, direct, plan.options));
            double time = time_of(plan, shape, direct, roads);
            std::printf("allgather/%s of %zu: %.0f ns, formula %.0f, without detours %.0f\n", name,
                        bytes, time, formula, unaware);
            EXPECT_LT(formula, 2 * time) << name;
            EXPECT_GT(formula, time / 2) << name;
        }
}

// A ring by number mostly goes to neighbours, and only its last step through all between.
TEST(RelayCosts, a_ring_is_reckoned_by_its_neighbours) {
    for (int machines : {4, 5}) {
        std::vector<int> nodes;
        for (int i = 0; i < machines; ++i) nodes.push_back(i);
        Roads roads = chain(machines);
        coll::Machine direct = coll::Machine::of({}, true, true);
        coll::Machine relayed = coll::Machine::of({}, true, true, detours_of(roads, nodes));
        coll::Shape shape = shape_of(Collective::allgather, nodes, 64);
        coll::Plan plan;
        plan.algorithm = coll::find_algorithm(Collective::allgather, "ring");
        double formula = plan.algorithm->cost(coll::Facts(shape, relayed, plan.options));
        double time = time_of(plan, shape, direct, roads);
        std::printf("%d machines: %.0f ns, formula %.0f\n", machines, time, formula);
        EXPECT_LT(formula, 1.3 * time);
        EXPECT_GT(formula, time / 2);
    }
}

}  // namespace
}  // namespace pomona
