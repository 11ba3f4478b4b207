// tests/sim/coll_cost.cc: the catalog's formulas against the price of the schedules (coll/price.h).
// Goal: selection trusts the formulas, which are shortcuts of that price. Method: every row is
// priced, and the formula must be within a stated factor of the time of the last rank.
#include "coll/price.h"
#include "coll/select.h"

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

// All ranks on one machine; or four on each, one machine after the other or the machines in turn.
enum Placing { kOneNode, kBlocks, kInTurn };
constexpr int kPerNode = 4;

std::vector<int> nodes_of(int p, Placing placing, int per_node) {
    std::vector<int> nodes;
    for (int r = 0; r < p && placing != kOneNode; ++r)
        nodes.push_back(placing == kBlocks ? r / per_node : r % (p / per_node));
    return nodes;
}

// False when the row is not for this shape.
bool measure(const Algorithm& row, int p, size_t bytes, coll::Options options,
             const coll::Machine& machine, Placing placing, Measured& out,
             int per_node = kPerNode) {
    std::vector<int> nodes = nodes_of(p, placing, per_node);
    coll::Shape shape = shape_of(row, p, bytes, nodes);
    coll::Facts facts(shape, machine, options);
    if (!row.legal(facts)) return false;
    std::string problem;
    auto price =
        coll::price(row, shape, options, {machine, coll::links_of(machine, nodes), {}}, problem);
    EXPECT_TRUE(price.ok()) << row.name << ": " << problem;
    if (!price.ok()) return false;
    out = {price->ns, row.cost(facts)};
    return true;
}

double price_of(const coll::Plan& plan, const coll::Shape& shape,
                const coll::PricedNetwork& network, double most_ns = coll::kAnyPrice) {
    std::string problem;
    auto price = coll::price(*plan.algorithm, shape, plan.options, network, problem, most_ns);
    EXPECT_TRUE(price.ok() || most_ns < coll::kAnyPrice) << plan.algorithm->name << problem;
    return price.ok() ? price->ns : most_ns;
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

// Of k-ary and double trees the formulas take all messages as going between machines.
double shared_line_tolerance(const Algorithm& row) {
    std::string_view name = row.name;
    if (row.collective != Collective::barrier && name.find("tree") != name.npos) return 2.8;
    return name == "ring" || name == "scatter_allgather" ? 1.7 : 1.5;
}

class Formula : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(Formula, agrees_with_the_simulator) {
    const Algorithm& row = *GetParam();
    if (row.collective == Collective::neighbor) return;  // its graph is the user's
    if (row.tunables & coll::by_trees) return;           // nothing is chosen by their formula
    int measured = 0;
    double low = 1e9, high = 0;
    for (const coll::Machine& machine : kMachines)
        for (int p : {2, 3, 4, 5, 8, 12, 16, 31, 64})
            for (size_t bytes : {512u, 4096u, 262144u, 4194304u})
                for (int segments : {1, 4, 16})
                    for (Placing placing : {kOneNode, kBlocks, kInTurn}) {
                        if (segments > 1 && (!row.uses_segments || bytes < 262144)) continue;
                        if (placing != kOneNode && (p < 8 || p % 4)) continue;
                        if (placing == kInTurn && p > 16) continue;  // larger ones show the same
                        Measured m;
                        bool flat = !std::string_view(row.name).starts_with("hierarchical");
                        if (placing != kOneNode && flat) continue;  // see below
                        // Many small steps, which add nothing here.
                        if (row.name == std::string("chunks") && p * bytes > 48u << 20) continue;
                        if (!measure(row, p, bytes, {segments, 2}, machine, placing, m)) continue;
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

// Goal: flat rows are compared with hierarchical ones, so their formulas must hold where the ranks
// of a machine share its line. Method: long messages, whose time is the lines'; ranks in both
// orders.
TEST_P(Formula, of_flat_rows_agrees_where_ranks_share_a_line) {
    const Algorithm& row = *GetParam();
    std::string_view name = row.name;
    if (row.collective == Collective::neighbor || name.starts_with("hierarchical")) return;
    double low = 1e9, high = 0;
    for (int p : {8, 16, 32})
        for (size_t bytes : {65536u, 1048576u})
            for (Placing placing : {kBlocks, kInTurn}) {
                Measured m;
                if (!measure(row, p, bytes, {}, kMachines[1], placing, m)) continue;
                double ratio = m.formula / m.simulated;
                low = std::min(low, ratio), high = std::max(high, ratio);
                double limit = shared_line_tolerance(row);
                EXPECT_TRUE(ratio < limit && ratio > 1 / limit)
                    << "p=" << p << " bytes=" << bytes << (placing == kInTurn ? " in turn" : "")
                    << " simulated " << m.simulated << " formula " << m.formula << " ratio "
                    << ratio;
            }
    std::printf("formula / simulated: %.3f to %.3f\n", low, high);
}

// Goal: FSDP's collectives on 4 hosts of 2 ranks, where the hosts' lines are the limit. Of 8 blocks
// 6 must cross each line; a flat ring carries 7 where the ranks of a host are neighbours, and 14
// where the hosts take turns. So two levels take 0.86 of the ring's time at best, or 0.43.
TEST(Lines, of_four_hosts_with_two_ranks_are_spared_by_levels) {
    coll::Machine machine = coll::Machine::cluster();
    machine.far = {30000, 2500, 8};  // 1 Gb/s
    for (Collective collective : {Collective::allgather, Collective::reduce_scatter})
        for (Placing placing : {kBlocks, kInTurn}) {
            double took[3] = {};
            const char* const names[] = {"ring", "hierarchical_ring", "hierarchical"};
            for (int i = 0; i < 3; ++i) {
                Measured m;
                const Algorithm& row = *coll::find_algorithm(collective, names[i]);
                ASSERT_TRUE(measure(row, 8, 2 << 20, {}, machine, placing, m, 2));
                took[i] = m.simulated;
            }
            double levels = took[2] / took[0], by_node = took[1] / took[0];
            bool in_turn = placing == kInTurn;
            std::printf("%s%s: by node %.3f, two levels %.3f of the ring's time\n",
                        collective_name(collective), in_turn ? ", hosts in turn" : "", by_node,
                        levels);
            EXPECT_LE(levels, in_turn ? 0.6 : 0.95);
            EXPECT_GE(levels, in_turn ? 6.0 / 14 * 0.99 : 6.0 / 7 * 0.99);
            if (in_turn) { EXPECT_LE(by_node, 0.6); }
        }
}

// Goal: of more ranks than whose schedules are priced, too, a quicker line or another machine makes
// no collective slower because a formula takes the wrong row. Method: hosts with several ranks, and
// numbers of them that are no powers of two, on lines of several rates, ranks numbered host by host
// and dealt out over hosts in turns; what the formulas choose is priced beside the rows whose
// formulas are up to three times as much.
void choose_about_the_best(Placing placing) {
    struct Hosts {
        int count, ranks;
    };
    double sum = 0, worst = 0;
    int cases = 0;
    for (Hosts hosts :
         {Hosts{4, 4}, Hosts{4, 8}, Hosts{8, 4}, Hosts{8, 8}, Hosts{12, 2}, Hosts{5, 6}})
        for (double byte_ns : {8.0, 0.8, 0.08})
            for (Collective collective :
                 {Collective::allreduce, Collective::bcast, Collective::reduce,
                  Collective::allgather, Collective::reduce_scatter, Collective::alltoall}) {
                coll::Links links;
                links.net = {25000, 2500, byte_ns};
                int p = hosts.count * hosts.ranks;
                std::vector<int> nodes = nodes_of(p, placing, hosts.ranks);
                coll::Machine machine = coll::Machine::among(links, true, nodes);
                coll::PricedNetwork network{machine, coll::links_of(machine, nodes), {}};
                bool blocks = collective == Collective::allgather ||
                              collective == Collective::reduce_scatter ||
                              collective == Collective::alltoall;
                for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
                    coll::Shape shape;
                    shape.collective = collective;
                    shape.size = p;
                    shape.element = 4,
                    shape.count = bytes / 4 / static_cast<size_t>(blocks ? p : 1);
                    shape.board = true;
                    shape.nodes = nodes;
                    coll::Plan taken = coll::select(shape, machine);
                    double own = price_of(taken, shape, network), best = own;
                    for (const coll::Plan& other : coll::rank_algorithms(shape, machine)) {
                        // Many small steps.
                        bool chunks = std::string_view(other.algorithm->name).ends_with("chunks");
                        if (other.why_not || other.cost_ns > 3 * taken.cost_ns || chunks) continue;
                        best = std::min(best, price_of(other, shape, network, best));
                    }
                    sum += own / best, ++cases, worst = std::max(worst, own / best);
                    EXPECT_LE(own, 1.5 * best)
                        << collective_name(collective) << " of " << bytes << " among "
                        << hosts.count << " hosts of " << hosts.ranks << ", " << byte_ns
                        << " ns a byte: " << taken.algorithm->name;
                }
            }
    std::printf("taken / best: %.3f in the mean, %.3f at worst of %d\n", sum / cases, worst, cases);
    EXPECT_LE(sum / cases, 1.05);
}

TEST(Lines, of_many_ranks_choose_about_the_best) { choose_about_the_best(kBlocks); }
TEST(Lines, of_many_ranks_in_turn_choose_about_the_best) { choose_about_the_best(kInTurn); }

// Goal: on a mesh of cables, whose machines send by all lines at once, formulas know so: of what
// goes to all others at once, and of what goes to one after the other. Method: long messages; one
// rank or two on each machine.
TEST(Lines, of_a_mesh_are_counted_one_by_one) {
    struct Row {
        Collective collective;
        const char* name;
    };
    for (Row each :
         {Row{Collective::allreduce, "direct"}, Row{Collective::allreduce, "linear"},
          Row{Collective::allgather, "direct"}, Row{Collective::allgather, "linear"},
          Row{Collective::reduce_scatter, "direct"}, Row{Collective::reduce_scatter, "linear"},
          Row{Collective::reduce_scatter, "pairwise"}, Row{Collective::alltoall, "linear"},
          Row{Collective::alltoall, "pairwise"}})
        for (int per_node : {1, 2})
            for (int machines : {3, 4, 6})
                for (size_t bytes : {size_t{65536}, size_t{4} << 20})
                    for (int segments : {1, 8}) {
                        const Algorithm& row = *coll::find_algorithm(each.collective, each.name);
                        if (segments > 1 && !row.uses_segments) continue;
                        coll::Machine machine = kMachines[1];
                        machine.join_all(machines);
                        Measured m{};
                        int p = machines * per_node;
                        ASSERT_TRUE(
                            measure(row, p, bytes, {segments, 2}, machine, kBlocks, m, per_node));
                        double ratio = m.formula / m.simulated, limit = tolerance(row, p);
                        EXPECT_TRUE(ratio < limit && ratio > 1 / limit)
                            << collective_name(each.collective) << " " << each.name << " p=" << p
                            << " on " << machines << " bytes=" << bytes << " segments=" << segments
                            << " simulated " << m.simulated << " formula " << m.formula << " ratio "
                            << ratio;
                    }
}

// Goal: schedules of 1024 ranks, in seconds, with the time that the closed formula gives.
TEST(Scale, ring_and_doubling_of_1024_ranks) {
    const coll::Machine machine = kMachines[0];
    for (const char* name : {"ring", "recursive_doubling", "rabenseifner"}) {
        Measured m;
        const Algorithm& row = *coll::find_algorithm(Collective::allreduce, name);
        ASSERT_TRUE(measure(row, 1024, 8u << 20, {}, machine, kOneNode, m));
        EXPECT_NEAR(m.formula / m.simulated, 1, 0.01) << name;
    }
}

// More than 2^31 elements: symbolic, nothing is moved.
TEST(Scale, counts_beyond_two_to_the_31) {
    const coll::Machine machine = kMachines[0];
    for (const Algorithm& row : coll::catalog()) {
        Measured m;
        if (row.collective == Collective::neighbor) continue;
        if (!measure(row, 4, size_t{5} << 32, {}, machine, kOneNode, m)) continue;
        EXPECT_LT(std::abs(std::log(std::max(m.formula, 1.0) / std::max(m.simulated, 1.0))),
                  std::log(2.0))
            << row.name;
    }
}

}  // namespace
}  // namespace pomona
