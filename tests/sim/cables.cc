// tests/sim/cables.cc: the trees by which collectives fill cables (coll/cables.h).
// Goal: on any network of cables they go by cables alone, give each rank what its collective
// promises, load the busiest cable about as little as can be, and take about as long as their
// formulas say. Method: random networks of 3 to 8 machines; contributions followed through all
// ranks' schedules; bounds by cuts and partitions; virtual time.
#include "coll/cables.h"

#include "btl/base/random.h"
#include "coll/catalog.h"
#include "coll/forest.h"
#include "coll/select.h"
#include "coll/verify.h"
#include "tests/sim/cable_bounds.h"
#include "tests/sim/messages_of.h"
#include "tests/sim/schedule_world.h"
#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <set>
#include <string>

namespace pomona {
namespace {

using coll::Collective;

constexpr Collective kCollectives[] = {Collective::allreduce,      Collective::allgather,
                                       Collective::reduce_scatter, Collective::alltoall,
                                       Collective::bcast,          Collective::reduce};
constexpr size_t kCount = std::size(kCollectives);

// A random tree and some cables more.
CabledMachines random_cables(Random& random, int machines) {
    CabledMachines made{"random", machines, {}};
    std::set<std::pair<int, int>> joined;
    for (int to = 1; to < machines; ++to) joined.insert({random.between(0, to - 1), to});
    for (int more = random.between(0, machines); more > 0; --more) {
        int a = random.between(0, machines - 2), b = random.between(a + 1, machines - 1);
        joined.insert({a, b});
    }
    made.pairs.assign(joined.begin(), joined.end());
    return made;
}

std::vector<int> numbers(int count) {
    std::vector<int> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    return out;
}

coll::Machine machine_of(const CabledMachines& cables, std::span<const int> nodes) {
    auto count = static_cast<size_t>(cables.machines);
    std::vector<bool> direct(count * count);
    std::vector<int> lines(count * count, -1);
    for (auto [a, b] : cables.pairs)
        for (auto [at, to] : {std::pair{a, b}, std::pair{b, a}}) {
            auto place = static_cast<size_t>(at) * count + static_cast<size_t>(to);
            direct[place] = true, lines[place] = to;
        }
    coll::Links links;
    links.net = {3600, 300, 8 / 75.0};
    return coll::Machine::among(links, true, nodes, Roads(cables.machines, direct, lines));
}

bool is_mesh(const CabledMachines& cables) {
    return static_cast<int>(cables.pairs.size()) == cables.machines * (cables.machines - 1) / 2;
}

coll::Shape shape_of(Collective collective, std::span<const int> nodes, size_t bytes) {
    coll::Shape shape;
    shape.collective = collective, shape.size = static_cast<int>(nodes.size());
    shape.element = 8, shape.count = bytes / 8;
    if (collective != Collective::allreduce && !is_rooted(collective)) shape.count /= nodes.size();
    shape.nodes = nodes;
    return shape;
}

TEST(Cables, trees_are_right_and_go_by_cables_alone) {
    Random random(number_from("POMONA_SEED", 20260601) ^ 70);
    for (int i = 0; i < 60; ++i) {
        CabledMachines cables = random_cables(random, random.between(3, 8));
        std::vector<int> nodes = numbers(cables.machines);
        std::set<std::pair<int, int>> joined(cables.pairs.begin(), cables.pairs.end());
        coll::Machine machine = machine_of(cables, nodes);
        ASSERT_TRUE(machine.by_cable);
        EXPECT_EQ(machine.by_cable->size(), (is_mesh(cables) ? 1u : 4u) + 2 * nodes.size());
        for (const coll::Forest& forest : *machine.by_cable) {
            if (forest.collective != Collective::alltoall &&
                forest.collective != Collective::reduce) {
                EXPECT_EQ(verify_forest(forest), "") << forest_text(forest);
            }
            for (const coll::Tree& tree : forest.trees)
                for (int rank = 0; rank < cables.machines; ++rank) {
                    int parent = tree.parents[static_cast<size_t>(rank)];
                    if (parent < 0) continue;
                    EXPECT_TRUE(joined.count(std::minmax(rank, parent))) << forest_text(forest);
                }
        }
    }
}

TEST(Cables, are_laden_about_as_little_as_can_be) {
    Random random(number_from("POMONA_SEED", 20260601) ^ 71);
    double worst[kCount] = {1, 1, 1, 1, 1, 1}, sum[kCount] = {};
    int cases = 0;
    for (int i = 0; i < 200; ++i) {
        CabledMachines cables = random_cables(random, random.between(3, 8));
        if (is_mesh(cables)) continue;
        std::vector<int> nodes = numbers(cables.machines);
        coll::Machine machine = machine_of(cables, nodes);
        ++cases;
        for (size_t each = 0; each < kCount; ++each) {
            Collective collective = kCollectives[each];
            coll::Shape shape = shape_of(collective, nodes, 1 << 20);
            shape.root = i % cables.machines;
            coll::Options options;
            options.forest = find_forest(machine.by_cable, shape, 0, true);
            double laden = coll::Facts(shape, machine, options).laden;
            if (collective != Collective::allreduce && !is_rooted(collective))
                laden /= cables.machines;
            double ratio = laden / least_laden(cables, collective, shape.root);
            EXPECT_GE(ratio, 0.999) << "else it is no bound";
            worst[each] = std::max(worst[each], ratio), sum[each] += ratio;
        }
    }
    for (size_t each = 0; each < kCount; ++each) {
        std::printf("%s: %.3f of the least in the mean, %.2f at most\n",
                    collective_name(kCollectives[each]), sum[each] / cases, worst[each]);
        EXPECT_LE(sum[each] / cases, 1.05);
        EXPECT_LE(worst[each], 1.5);
    }
}

TEST(Cables, formulas_hold_to_virtual_time) {
    Random random(number_from("POMONA_SEED", 20260601) ^ 72);
    double low = 1e9, high = 0;
    for (int i = 0; i < 20; ++i) {
        CabledMachines cables = random_cables(random, random.between(3, 6));
        std::vector<int> nodes = numbers(cables.machines);
        coll::Machine machine = machine_of(cables, nodes);
        for (Collective collective : kCollectives)
            for (size_t bytes : {size_t{1} << 10, size_t{1} << 20, size_t{16} << 20})
                for (int segments : {1, 16}) {
                    if (segments > 1 && bytes < 1 << 20) continue;  // pieces are longer
                    coll::Shape shape = shape_of(collective, nodes, bytes);
                    coll::Options options{segments, 2,
                                          find_forest(machine.by_cable, shape, 0, true)};
                    const coll::Algorithm& row = *coll::find_algorithm(collective, "cables");
                    coll::Facts facts(shape, machine, options);
                    if (!row.legal(facts)) continue;
                    coll::PricedNetwork network{machine, coll::links_of(machine, nodes), {}};
                    std::string problem;
                    auto price = coll::price(row, shape, options, network, problem);
                    ASSERT_TRUE(price.ok()) << problem;
                    double ratio = row.cost(facts) / price->ns;
                    low = std::min(low, ratio), high = std::max(high, ratio);
                    EXPECT_TRUE(ratio > 0.5 && ratio < 2)
                        << collective_name(collective) << " of " << bytes << " in " << segments
                        << " among " << cables.machines << ": " << ratio;
                }
    }
    std::printf("formulas are %.2f to %.2f of virtual time\n", low, high);
}

// A chain of cables beside a switch of a tenth of their rate, as `links` names them: long vectors
// go by the cables, although each two machines have a path of their own.
TEST(Cables, count_beside_a_switch) {
    coll::Links links;
    links.net = {15000, 2500, 1.07};
    for (int a = 0; a < 3; ++a) links.pairs.push_back({a, a + 1, {3600, 300, 0.107}, true});
    std::vector<int> nodes = numbers(4);
    coll::Machine machine = coll::Machine::among(links, true, nodes);
    ASSERT_TRUE(machine.by_cable);
    EXPECT_FALSE(machine.apart);
    for (Collective collective : kCollectives) {
        coll::Shape shape = shape_of(collective, nodes, 16 << 20);
        coll::Plan plan = select(shape, machine);
        // A chain's cables are filled by the row `chain` as well, and in an allreduce by trees of
        // quick links with shares by speed: those of the cables are the same.
        if (collective == Collective::allreduce) {
            std::string name = plan.algorithm->name;
            EXPECT_TRUE(name == "cables" || name == "uneven") << name;
        } else if (!is_rooted(collective)) {
            EXPECT_STREQ(plan.algorithm->name, "cables") << collective_name(collective);
        }
        double least = least_laden({"chain", 4, {{0, 1}, {1, 2}, {2, 3}}}, collective);
        EXPECT_LT(plan.cost_ns, 1.1 * least * (16 << 20) * 0.107) << collective_name(collective);
    }
}

// Mutants: a rank that knows of a cable more packs other trees: its messages do not fit others'.
TEST(Cables, trees_of_a_rank_with_another_table_do_not_fit) {
    Random random(number_from("POMONA_SEED", 20260601) ^ 73);
    int differ = 0, found = 0;
    for (int i = 0; i < 60; ++i) {
        CabledMachines cables = random_cables(random, random.between(4, 6)), other = cables;
        std::pair<int, int> more{0, cables.machines - 1};
        if (std::count(cables.pairs.begin(), cables.pairs.end(), more)) continue;
        other.pairs.push_back(more);
        if (is_mesh(other)) continue;
        std::vector<int> nodes = numbers(cables.machines);
        coll::Machine machine = machine_of(cables, nodes), altered = machine_of(other, nodes);
        for (Collective collective : kCollectives) {
            const coll::Algorithm& row = *coll::find_algorithm(collective, "cables");
            coll::Shape shape = shape_of(collective, nodes, 4800);
            auto build = [&](const coll::Machine& by) {
                return build_schedule(row, shape, {2, 2, find_forest(by.by_cable, shape, 0, true)});
            };
            std::vector<coll::Schedule> schedules;
            for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
                schedules.push_back(build(machine));
            EXPECT_TRUE(coll::verify(schedules).ok()) << collective_name(collective);
            shape.rank = 1;
            coll::Schedule mutant = build(altered);
            bool other_messages = messages_of(mutant) != messages_of(schedules[1]);
            schedules[1] = std::move(mutant);
            differ += other_messages;
            found += other_messages && !coll::verify(schedules).ok();
        }
    }
    std::printf("%d of %d were found\n", found, differ);
    EXPECT_GT(differ, 60);
    EXPECT_EQ(found, differ);
}

// Several ranks on a machine, machines that no cable joins, and too many: none.
TEST(Cables, limits) {
    CabledMachines chain{"chain", 4, {{0, 1}, {1, 2}, {2, 3}}};
    EXPECT_TRUE(machine_of(chain, std::vector<int>{0, 1, 2}).by_cable);
    EXPECT_TRUE(machine_of(chain, std::vector<int>{3, 1, 2}).by_cable);
    EXPECT_FALSE(machine_of(chain, std::vector<int>{0, 1, 1, 2}).by_cable);
    EXPECT_FALSE(machine_of(chain, std::vector<int>{0, 1, 3}).by_cable);
    EXPECT_FALSE(machine_of(chain, std::vector<int>{0, 1}).by_cable);
    CabledMachines many{"chain", 9, {}};
    for (int a = 0; a < 8; ++a) many.pairs.push_back({a, a + 1});
    EXPECT_FALSE(machine_of(many, numbers(9)).by_cable);
}

}  // namespace
}  // namespace pomona
