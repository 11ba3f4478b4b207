// tests/sim/coll_cost.cc: the catalog's formulas against virtual time.
// Goal: selection trusts the formulas. Method: every row runs without data in a calm network, and the
// formula must be within a stated factor of the time of the last rank.
#include "coll/catalog.h"
#include "tests/sim/schedule_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace pomona {
namespace {

using coll::Algorithm;
using coll::Collective;

struct Measured {
    double simulated, formula;
};

// Network-bound and reduction-bound machines: the terms of a formula show on one or the other.
const coll::Machine kMachines[] = {
    {{1, 1}, {1000, 100, 0.1}, {1000, 100, 0.1}, 0.05, 0.08},
    {{1, 1}, {200, 50, 0.05}, {5000, 800, 0.5}, 0.1, 0.3},
};

coll::Shape shape_of(const Algorithm& row, int p, size_t bytes, const std::vector<int>& nodes) {
    coll::Shape shape;
    shape.collective = row.collective;
    shape.size = p;
    shape.element = 8;
    shape.count = row.collective == Collective::barrier ? 0 : bytes / 8;
    shape.board = true;
    shape.nodes = nodes;
    return shape;
}

// False when the row is not for this shape.
bool measure(const Algorithm& row, int p, size_t bytes, coll::Options options,
             const coll::Machine& machine, int per_node, Measured& out) {
    std::vector<int> nodes;
    for (int r = 0; r < p && per_node; ++r) nodes.push_back(r / per_node);
    coll::Shape shape = shape_of(row, p, bytes, nodes);
    coll::Facts facts(shape, machine, options);
    if (!row.legal(facts)) return false;
    std::vector<coll::Schedule> schedules;
    for (shape.rank = 0; shape.rank < p; ++shape.rank)
        schedules.push_back(build_schedule(row, shape, options));
    sim::ScheduleWorld world(
        1, {.ranks = p, .nodes = nodes, .machine = machine, .faults = {}, .data = false});
    world.run(schedules, std::vector<coll::Binding>(p));
    EXPECT_TRUE(world.all_done()) << row.name;
    out = {world.makespan(), row.cost(facts)};
    return true;
}

// How far formula and simulation may be apart. Exact forms are held to a percent; where ports
// contend or segments overlap a formula is an estimate.
double tolerance(const Algorithm& row, int p) {
    bool power = (p & (p - 1)) == 0;
    std::string name = std::string(collective_name(row.collective)) + "/" + row.name;
    if (row.name == std::string("board")) return 1.05;
    for (const char* exact : {"barrier/dissemination", "bcast/binomial", "bcast/chain",
                              "reduce/binomial", "scan/linear", "allgather/ring"})
        if (name == exact && (power || name.find("binomial") == name.npos)) return 1.01;
    for (const char* exact : {"allreduce/recursive_doubling", "allreduce/rabenseifner",
                              "reduce_scatter/recursive_halving", "allgather/recursive_doubling"})
        if (name == exact && power) return 1.01;
    if (name.find("tree") != name.npos || name.find("hierarchical") != name.npos) return 2.0;
    return power ? 1.5 : 2.0;  // formulas round lg p up, the last ranks are reached earlier
}

class Formula : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(Formula, agrees_with_the_simulator) {
    const Algorithm& row = *GetParam();
    if (row.collective == Collective::neighbor) return;  // its graph is the user's
    int measured = 0;
    double low = 1e9, high = 0;
    for (const coll::Machine& machine : kMachines)
        for (int p : {2, 3, 4, 5, 8, 12, 16, 31, 64})
            for (size_t bytes : {512u, 4096u, 262144u, 4194304u})
                for (int segments : {1, 4, 16})
                    for (int per_node : {0, 4}) {
                        if (segments > 1 && (!row.uses_segments || bytes < 262144)) continue;
                        if (per_node && (p < 8 || p % 4)) continue;
                        Measured m;
                        bool flat = !std::string_view(row.name).starts_with("hierarchical");
                        if (per_node && flat) continue;  // one kind of link at a time
                        // Many small steps, which add nothing here.
                        if (row.name == std::string("chunks") && p * bytes > 48u << 20) continue;
                        if (!measure(row, p, bytes, {segments, 2}, machine, per_node, m)) continue;
                        ++measured;
                        double ratio = m.simulated > 0 ? m.formula / m.simulated : 1;
                        low = std::min(low, ratio), high = std::max(high, ratio);
                        double limit = tolerance(row, p);
                        EXPECT_TRUE(ratio < limit && ratio > 1 / limit)
                            << "p=" << p << " bytes=" << bytes << " segments=" << segments
                            << " simulated " << m.simulated << " formula " << m.formula << " ratio "
                            << ratio;
                    }
    EXPECT_GT(measured, 0);
    std::printf("formula / simulated: %.3f to %.3f over %d shapes\n", low, high, measured);
}

std::vector<const Algorithm*> all_rows() {
    std::vector<const Algorithm*> rows;
    for (const Algorithm& row : coll::catalog()) rows.push_back(&row);
    return rows;
}

INSTANTIATE_TEST_SUITE_P(catalog, Formula, ::testing::ValuesIn(all_rows()), [](const auto& info) {
    return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

// Goal: schedules of 1024 ranks, in seconds, with the time that the closed formula gives.
TEST(Scale, ring_and_doubling_of_1024_ranks) {
    const coll::Machine machine = kMachines[0];
    for (const char* name : {"ring", "recursive_doubling", "rabenseifner"}) {
        Measured m;
        const Algorithm& row = *coll::find_algorithm(Collective::allreduce, name);
        ASSERT_TRUE(measure(row, 1024, 8u << 20, {}, machine, 0, m));
        EXPECT_NEAR(m.formula / m.simulated, 1, 0.01) << name;
    }
}

// More than 2^31 elements: symbolic, nothing is moved.
TEST(Scale, counts_beyond_two_to_the_31) {
    const coll::Machine machine = kMachines[0];
    for (const Algorithm& row : coll::catalog()) {
        Measured m;
        if (row.collective == Collective::neighbor) continue;
        if (!measure(row, 4, size_t{5} << 32, {}, machine, 0, m)) continue;
        EXPECT_LT(std::abs(std::log(std::max(m.formula, 1.0) / std::max(m.simulated, 1.0))),
                  std::log(2.0))
            << row.name;
    }
}

}  // namespace
}  // namespace pomona
