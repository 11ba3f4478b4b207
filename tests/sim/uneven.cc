// tests/sim/uneven.cc: an allreduce with uneven shares by speed (coll/uneven.h).
// Goal: where some machines have slow lines, a slow line carries the vector once either way, the
// quick machines share the sums by their speed, results are right in all forms, the formula holds,
// and what is chosen with the row in the catalog takes less time than without. Method: 3 to 8
// machines whose pairs have the rate of the slower one's line, or rates of their own; contributions
// followed through all ranks' schedules; virtual time against the best of the other rows but those
// of islands, and against what a slow line must carry in any schedule.
#include "coll/uneven.h"

#include "coll/catalog.h"
#include "coll/ring_order.h"
#include "coll/select.h"
#include "coll/verify.h"
#include "tests/property/coll_case.h"
#include "tests/sim/collective_time.h"
#include "tests/sim/messages_of.h"
#include "tests/sim/seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string_view>

namespace pomona {
namespace {

using coll::Collective;

// Machines by the time that their lines take for a byte; a message between two takes the longer.
struct Cluster {
    std::vector<double> lines;
    std::vector<int> nodes, places;
    coll::Machine machine;
};

constexpr double kNear = 15000, kFar = 40000, kWifi = 1.5e6;  // latencies

Cluster cluster_of(std::vector<double> lines, int ranks_each, double slow_latency = kFar) {
    Cluster made;
    made.lines = std::move(lines);
    auto machines = static_cast<int>(made.lines.size());
    for (int r = 0; r < machines * ranks_each; ++r) made.nodes.push_back(r % machines);
    double quickest = *std::min_element(made.lines.begin(), made.lines.end());
    coll::Links links;
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b) {
            double byte =
                std::max(made.lines[static_cast<size_t>(a)], made.lines[static_cast<size_t>(b)]);
            links.pairs.push_back({a, b, {byte > quickest ? slow_latency : kNear, 2500, byte}});
        }
    made.machine = coll::Machine::among(links, true, made.nodes);
    // Quick machines are an island, and its trees do as well in many cases: not measured here.
    made.machine.by_island = nullptr;
    made.places = coll::with_ring(made.nodes, coll::ring_order(made.machine, made.nodes));
    return made;
}

// One slow machine, or several but not all, of 4, 10 or 30 times as long for a byte.
Cluster drawn(Random& random, bool one_slow) {
    int machines = random.between(3, 8);
    double quick = random.chance(0.5) ? 0.25 : 0.9, times[] = {4, 10, 30};
    double longer = times[random.below(3)];
    std::vector<double> lines(static_cast<size_t>(machines), quick);
    for (int left = one_slow ? 1 : random.between(2, machines - 1); left > 0; --left)
        lines[random.below(lines.size())] = quick * longer;
    int ranks_each = machines <= 6 && random.chance(0.3) ? 2 : 1;
    return cluster_of(std::move(lines), ranks_each, longer == 30 ? kWifi : kFar);
}

coll::Shape shape_of(const Cluster& cluster, size_t bytes) {
    coll::Shape shape;
    shape.collective = Collective::allreduce;
    shape.size = static_cast<int>(cluster.nodes.size());
    shape.element = 8, shape.count = bytes / 8;
    shape.place(cluster.places);
    return shape;
}

const coll::Algorithm& uneven() { return *coll::find_algorithm(Collective::allreduce, "uneven"); }

const coll::Forest& forest_of(const Cluster& cluster) { return cluster.machine.by_speed->at(0); }

double time_of(const Cluster& cluster, const coll::Shape& shape, const coll::Plan& plan) {
    return sim::collective_time(*plan.algorithm, shape, plan.options, cluster.machine,
                                coll::links_of(cluster.machine, cluster.nodes));
}

// How often a machine's line carries the vector, in either direction.
double carried(const Cluster& cluster, int machine) {
    double sum = 0, edges = 0;
    for (const coll::Tree& tree : forest_of(cluster).trees) {
        sum += tree.share;
        for (size_t rank = 0; rank < cluster.nodes.size(); ++rank) {
            if (tree.parents[rank] < 0) continue;
            int from = cluster.nodes[rank];
            int to = cluster.nodes[static_cast<size_t>(tree.parents[rank])];
            edges += from != to && (from == machine || to == machine) ? tree.share : 0;
        }
    }
    return edges / sum;
}

// What share of the vector a machine's ranks own.
double owned(const Cluster& cluster, int machine) {
    double sum = 0, own = 0;
    for (const coll::Tree& tree : forest_of(cluster).trees) {
        sum += tree.share;
        own += cluster.nodes[static_cast<size_t>(tree.root())] == machine ? tree.share : 0;
    }
    return own / sum;
}

TEST(Uneven, a_slow_line_carries_the_vector_once) {
    Random random(number_from("POMONA_SEED", 20261127) ^ 80);
    for (int i = 0; i < 100; ++i) {
        Cluster cluster = drawn(random, true);
        ASSERT_TRUE(cluster.machine.by_speed);
        EXPECT_EQ(verify_forest(forest_of(cluster)), "") << forest_text(forest_of(cluster));
        double quick = *std::min_element(cluster.lines.begin(), cluster.lines.end()), least = 1;
        for (int machine = 0; machine < static_cast<int>(cluster.lines.size()); ++machine) {
            double own = owned(cluster, machine);
            if (cluster.lines[static_cast<size_t>(machine)] > quick) {
                // Of 3 machines with 4 times the rate, and of 8, quick lines have more to carry.
                if (cluster.lines[static_cast<size_t>(machine)] >= 10 * quick) {
                    EXPECT_EQ(own, 0);
                    EXPECT_DOUBLE_EQ(carried(cluster, machine), 1);
                }
                EXPECT_LT(own, 0.1);
            } else {
                least = std::min(least, own);
            }
        }
        // Quick ones are alike.
        EXPECT_GT(least, 0.5 / static_cast<double>(cluster.lines.size()));
    }
}

TEST(Uneven, shares_go_by_speed) {
    // 1 : 2 : 4 of the rate, and one that sets the pace.
    Cluster cluster = cluster_of({0.25, 0.5, 1, 0.25, 4}, 1);
    double first = owned(cluster, 0), second = owned(cluster, 1), third = owned(cluster, 2);
    std::printf("shares %.3f %.3f %.3f %.3f %.3f\n", first, second, third, owned(cluster, 3),
                owned(cluster, 4));
    EXPECT_GE(first, second);
    EXPECT_GE(second, third);
    EXPECT_GT(first, third);
    EXPECT_EQ(owned(cluster, 4), 0);
    // Ranks of one machine have equal parts of its share.
    Cluster pairs = cluster_of({0.25, 0.25, 2.5}, 2);
    for (const coll::Tree& tree : forest_of(pairs).trees)
        EXPECT_EQ(tree.share, forest_of(pairs).trees[0].share);
    EXPECT_EQ(forest_of(pairs).trees.size(), 4u);
    EXPECT_DOUBLE_EQ(carried(pairs, 2), 1);
}

// Two machines reach each other slowly, and the others quickly: through these.
TEST(Uneven, goes_round_a_slow_edge) {
    coll::Links links;
    for (int a = 0; a < 4; ++a)
        for (int b = a + 1; b < 4; ++b)
            links.pairs.push_back({a, b, {kNear, 2500, a == 1 && b == 2 ? 9 : 0.9}});
    std::vector<int> nodes{0, 1, 2, 3};
    coll::Machine machine = coll::Machine::among(links, true, nodes);
    ASSERT_TRUE(machine.by_speed);
    const coll::Forest& forest = machine.by_speed->at(0);
    EXPECT_EQ(verify_forest(forest), "");
    for (const coll::Tree& tree : forest.trees) {
        EXPECT_NE(tree.parents[1], 2) << forest_text(forest);
        EXPECT_NE(tree.parents[2], 1) << forest_text(forest);
    }
}

TEST(Uneven, limits) {
    EXPECT_FALSE(cluster_of({0.9, 0.9, 0.9, 0.9}, 1).machine.by_speed);
    EXPECT_FALSE(cluster_of({0.9, 0.9, 1.5}, 1).machine.by_speed);  // less than twice as slow
    EXPECT_FALSE(cluster_of({0.9, 9}, 4).machine.by_speed);
    EXPECT_TRUE(cluster_of({0.9, 0.9, 0.9, 9}, 4).machine.by_speed);
    EXPECT_FALSE(cluster_of({0.9, 0.9, 9}, 6).machine.by_speed);  // 18 ranks
    EXPECT_FALSE(cluster_of({1, 1, 1, 1, 1, 1, 1, 1, 9}, 1).machine.by_speed);
    EXPECT_TRUE(cluster_of({0, 0, 9, 1}, 1).machine.by_speed);  // lines that take no time
    EXPECT_TRUE(cluster_of({1e-12, 1e-12, 1e15}, 1).machine.by_speed);
    Cluster cluster = cluster_of({0.9, 0.9, 9}, 1);
    coll::Shape shape = shape_of(cluster, 1 << 20);
    coll::Choice wanted;
    wanted.algorithm = "uneven";
    EXPECT_STREQ(select(shape, cluster.machine, wanted).algorithm->name, "uneven");
    shape.commutative = false;  // parts come in another order
    EXPECT_STRNE(select(shape, cluster.machine, wanted).algorithm->name, "uneven");
    EXPECT_STRNE(select(shape, cluster.machine).algorithm->name, "uneven");
    cluster.machine.by_speed = nullptr;
    shape.commutative = true;
    EXPECT_STRNE(select(shape, cluster.machine, wanted).algorithm->name, "uneven");
}

// In place or not, no elements, fewer than ranks, and many; in jitter and out of order.
TEST(Uneven, gives_all_the_sum) {
    Random random(number_from("POMONA_SEED", 20261127) ^ 81);
    for (int i = 0; i < 40; ++i) {
        Cluster cluster = drawn(random, random.chance(0.5));
        if (!cluster.machine.by_speed) continue;
        auto p = cluster.nodes.size();
        for (size_t count : {size_t{0}, size_t{1}, p - 1, p + 1, size_t{200}, size_t{5003}})
            for (bool in_place : {false, true}) {
                property::Case c;
                c.algorithm = &uneven();
                c.p = static_cast<int>(p), c.count = count, c.in_place = in_place;
                c.options = {random.between(1, 9), 2, &forest_of(cluster)};
                c.seed = random.next();
                ASSERT_EQ(run_case(c), "");
            }
    }
}

TEST(Uneven, formula_holds_to_the_price) {
    Random random(number_from("POMONA_SEED", 20261127) ^ 82);
    double low = 1e9, high = 0;
    for (int i = 0; i < 60; ++i) {
        Cluster cluster = drawn(random, random.chance(0.5));
        if (!cluster.machine.by_speed) continue;
        cluster.machine.asks_far = false;  // formulas know no questions
        for (size_t bytes : {size_t{1} << 10, size_t{256} << 10, size_t{8} << 20})
            for (int segments : {1, 8, 64}) {
                if (bytes / static_cast<size_t>(segments) < 4096 && segments > 1) continue;
                coll::Shape shape = shape_of(cluster, bytes);
                coll::Options options{segments, 2, &forest_of(cluster)};
                coll::PricedNetwork network{
                    cluster.machine, coll::links_of(cluster.machine, cluster.nodes), {}};
                std::string problem;
                auto price = coll::price(uneven(), shape, options, network, problem);
                ASSERT_TRUE(price.ok()) << problem;
                double ratio =
                    uneven().cost(coll::Facts(shape, cluster.machine, options)) / price->ns;
                low = std::min(low, ratio), high = std::max(high, ratio);
                EXPECT_TRUE(ratio > 0.5 && ratio < 2.1)
                    << bytes << " in " << segments << " among " << shape.size << " on "
                    << cluster.lines.size() << ": " << ratio;
            }
    }
    std::printf("the formula is %.2f to %.2f of the price\n", low, high);
}

// Goal: the row pays. Method: what is chosen with it and without it, in virtual time; the bound is
// that the slowest line takes the vector in once.
TEST(Uneven, choices_take_less_time) {
    Random random(number_from("POMONA_SEED", 20261127) ^ 83);
    struct Row {
        size_t bytes;
        int cases = 0, taken = 0, slower = 0;
        double gain = 0, best = 1, bound_with = 0, bound_without = 0;
    };
    Row rows[] = {{64}, {16 << 10}, {256 << 10}, {1 << 20}, {8 << 20}};
    for (int i = 0; i < 24; ++i) {
        Cluster cluster = drawn(random, i % 3 != 0), without = cluster;
        if (!cluster.machine.by_speed) continue;
        without.machine.by_speed = nullptr;
        double slowest = *std::max_element(cluster.lines.begin(), cluster.lines.end());
        for (Row& row : rows) {
            coll::Shape shape = shape_of(cluster, row.bytes);
            coll::Plan plan = select(shape, cluster.machine), old = select(shape, without.machine);
            double took = time_of(cluster, shape, plan), before = time_of(cluster, shape, old);
            double bound = slowest * static_cast<double>(row.bytes);
            ++row.cases, row.taken += plan.algorithm == &uneven();
            row.slower += took > 1.001 * before;
            row.gain += std::log(took / before), row.best = std::min(row.best, took / before);
            row.bound_with += bound / took, row.bound_without += bound / before;
            EXPECT_LE(bound, 1.0001 * took) << "else it is no bound";
        }
    }
    for (const Row& row : rows)
        std::printf(
            "%zu bytes: taken in %d of %d; %.3f of the time without it in the mean, %.3f at best, "
            "%d slower; %.3f of what the slowest line must carry, without it %.3f\n",
            row.bytes, row.taken, row.cases, std::exp(row.gain / row.cases), row.best, row.slower,
            row.bound_with / row.cases, row.bound_without / row.cases);
    for (const Row& row : rows) EXPECT_EQ(row.slower, 0) << row.bytes;
    EXPECT_LT(std::exp(rows[3].gain / rows[3].cases), 0.9);
    EXPECT_LT(std::exp(rows[4].gain / rows[4].cases), 0.85);
    EXPECT_GT(rows[4].taken, rows[4].cases * 3 / 4);
}

// Mutants: a rank that takes another line to be slow has other trees; its messages do not fit
// others'.
TEST(Uneven, shares_of_a_rank_with_another_table_do_not_fit) {
    Random random(number_from("POMONA_SEED", 20261127) ^ 84);
    int differ = 0, found = 0;
    for (int i = 0; i < 60; ++i) {
        Cluster cluster = drawn(random, true);
        std::vector<double> lines = cluster.lines;
        std::rotate(lines.begin(), lines.begin() + 1, lines.end());
        auto each = static_cast<int>(cluster.nodes.size() / lines.size());
        Cluster other = cluster_of(lines, each);
        coll::Shape shape = shape_of(cluster, 4800);
        auto build = [&](const Cluster& by) {
            return build_schedule(uneven(), shape, {2, 2, &forest_of(by)});
        };
        std::vector<coll::Schedule> schedules;
        for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
            schedules.push_back(build(cluster));
        EXPECT_TRUE(coll::verify(schedules).ok());
        shape.rank = static_cast<int>(random.below(cluster.nodes.size()));
        coll::Schedule mutant = build(other);
        auto at = static_cast<size_t>(shape.rank);
        bool others = messages_of(mutant) != messages_of(schedules[at]);
        schedules[at] = std::move(mutant);
        differ += others, found += others && !coll::verify(schedules).ok();
    }
    std::printf("%d of %d were found\n", found, differ);
    EXPECT_GT(differ, 20);
    EXPECT_EQ(found, differ);
}

}  // namespace
}  // namespace pomona
