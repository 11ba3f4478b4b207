// tests/sim/islands.cc: collectives among islands of machines (coll/islands.h).
// Goal: islands are found where there are some and nowhere else, nothing crosses a slow line twice,
// results are right in all forms, formulas hold to prices, and what is chosen with the rows takes
// no more time than without, and half as much where it should. Method: 3 to 8 machines in islands
// with one line each to a switch and cables within; contributions followed through all ranks'
// schedules; virtual time in which the ranks of a machine share its line.
#include "coll/islands.h"

#include "btl/base/random.h"
#include "coll/catalog.h"
#include "coll/forest.h"
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
#include <ctime>
#include <map>
#include <string>
#include <string_view>

namespace pomona {
namespace {

using coll::Collective;

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::allgather,
                                       Collective::reduce_scatter, Collective::bcast,
                                       Collective::reduce};

struct Cluster {
    std::vector<int> islands;  // by machine
    std::vector<int> nodes, places;
    coll::Machine machine;
};

// Machines of these islands by cables of 38 Gb/s, all others by a switch of 1 Gb/s.
Cluster cluster_of(std::vector<int> islands, std::vector<int> nodes, double within = 0.21,
                   double between = 8.5) {
    Cluster made;
    made.islands = std::move(islands);
    made.nodes = std::move(nodes);
    auto machines = static_cast<int>(made.islands.size());
    coll::Links links;
    links.net = {50000, 2500, between};
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b)
            if (made.islands[static_cast<size_t>(a)] == made.islands[static_cast<size_t>(b)])
                links.pairs.push_back({a, b, {20000, 2500, within}});
    made.machine = coll::Machine::among(links, true, made.nodes);
    made.places = coll::with_ring(made.nodes, coll::ring_order(made.machine, made.nodes));
    return made;
}

std::vector<int> ranks_of(int machines, int each) {
    std::vector<int> nodes;
    for (int r = 0; r < machines * each; ++r) nodes.push_back(r / each);
    return nodes;
}

// Two to four islands, ranks in any order.
Cluster drawn(Random& random, int most_ranks = 16) {
    int machines = random.between(3, 8), each = random.between(1, most_ranks / machines);
    std::vector<int> islands{0, 0, 1};
    while (static_cast<int>(islands.size()) < machines)
        islands.push_back(random.between(0, std::min(3, machines - 3)));
    std::vector<int> nodes;
    for (int node : ranks_of(machines, each))
        nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(random.below(nodes.size() + 1)),
                     node);
    return cluster_of(std::move(islands), std::move(nodes));
}

coll::Shape shape_of(const Cluster& cluster, Collective collective, size_t bytes, int root = 0) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(cluster.nodes.size());
    shape.root = coll::has_root(collective) ? root : 0;
    shape.element = 8, shape.count = bytes / 8;
    shape.place(cluster.places);
    return shape;
}

const coll::Algorithm& row_of(Collective collective) {
    return *coll::find_algorithm(collective, "islands");
}

double time_of(const Cluster& cluster, const coll::Shape& shape, const coll::Plan& plan) {
    return sim::collective_time(*plan.algorithm, shape, plan.options, cluster.machine,
                                coll::links_of(cluster.machine, cluster.nodes));
}

TEST(Islands, are_found) {
    using Levels = std::vector<std::vector<int>>;
    Cluster two = cluster_of({0, 0, 1, 1}, {0, 1, 2, 3});
    EXPECT_EQ(coll::levels_of(two.machine, two.nodes), (Levels{{0, 0, 1, 1}, {0, 1, 2, 3}}));
    // By rank, with several on a machine, in any order.
    Cluster mixed = cluster_of({0, 1, 0}, {2, 1, 0, 0});
    EXPECT_EQ(coll::levels_of(mixed.machine, mixed.nodes), (Levels{{0, 1, 0, 0}, {2, 1, 0, 0}}));
    // Islands within islands: cables of 38 and of 10 Gb/s, and a switch of 1.
    coll::Links links;
    links.net = {50000, 2500, 8.5};
    for (int a = 0; a < 4; ++a)
        for (int b = a + 1; b < 4; ++b)
            links.pairs.push_back({a, b, {20000, 2500, a / 2 == b / 2 ? 0.21 : 0.85}});
    std::vector<int> nodes{0, 1, 2, 3, 4};
    EXPECT_EQ(coll::levels_of(coll::Machine::among(links, true, nodes), nodes),
              (Levels{{0, 0, 0, 0, 1}, {0, 0, 1, 1, 2}, nodes}));
}

TEST(Islands, limits) {
    auto any = [](const Cluster& cluster) { return cluster.machine.by_island != nullptr; };
    EXPECT_TRUE(any(cluster_of({0, 0, 1}, {0, 1, 2})));
    EXPECT_FALSE(any(cluster_of({0, 0, 1}, {0, 1, 1})));  // two machines take part
    EXPECT_FALSE(any(cluster_of({0, 1, 2}, {0, 1, 2})));
    EXPECT_FALSE(any(cluster_of({0, 0, 0}, {0, 1, 2})));
    EXPECT_FALSE(any(cluster_of({0, 0, 1, 1}, {0, 1, 2, 3}, 0.5, 0.9)));  // not twice as quick
    EXPECT_TRUE(any(cluster_of({0, 0, 1, 1}, ranks_of(4, 16))));
    EXPECT_FALSE(any(cluster_of({0, 0, 1, 1}, ranks_of(4, 17))));  // 68 ranks
    EXPECT_FALSE(any(cluster_of({0, 0, 0, 0, 1, 1, 1, 1, 1}, ranks_of(9, 1))));
    // 0 reaches 1 and 1 reaches 2 quickly, but 0 does not reach 2 so: no island of three.
    coll::Links links;
    links.net = {50000, 2500, 8.5};
    links.pairs = {{0, 1, {20000, 2500, 0.21}}, {1, 2, {20000, 2500, 0.21}}};
    std::vector<int> nodes{0, 1, 2};
    EXPECT_FALSE(coll::Machine::among(links, true, nodes).by_island);
    Cluster cluster = cluster_of({0, 0, 1}, {0, 1, 2});
    coll::Shape shape = shape_of(cluster, Collective::reduce, 1 << 20);
    shape.commutative = false;
    coll::Choice wanted;
    wanted.algorithm = "islands";
    EXPECT_STRNE(select(shape, cluster.machine, wanted).algorithm->name, "islands");
}

// Into each island a tree goes once, and by no line twice.
TEST(Islands, trees_cross_once) {
    Random random(number_from("POMONA_SEED", 20261201) ^ 90);
    for (int i = 0; i < 30; ++i) {
        Cluster cluster = drawn(random);
        if (!cluster.machine.by_island) continue;
        auto island = [&](int rank) {
            return cluster.islands[static_cast<size_t>(cluster.nodes[static_cast<size_t>(rank)])];
        };
        int count = *std::max_element(cluster.islands.begin(), cluster.islands.end()) + 1;
        std::vector<bool> there(static_cast<size_t>(count));
        for (int each : cluster.islands) there[static_cast<size_t>(each)] = true;
        auto islands = std::count(there.begin(), there.end(), true);
        for (const coll::Forest& forest : *cluster.machine.by_island) {
            if (forest.collective != Collective::reduce) {  // it is a bcast's, upwards
                ASSERT_EQ(verify_forest(forest), "") << forest_text(forest);
            }
            for (const coll::Tree& tree : forest.trees) {
                int slow = 0;
                std::vector<std::pair<int, int>> between;
                for (int rank = 0; rank < forest.size(); ++rank) {
                    int parent = tree.parents[static_cast<size_t>(rank)];
                    if (parent < 0) continue;
                    slow += island(rank) != island(parent);
                    int from = cluster.nodes[static_cast<size_t>(parent)];
                    int to = cluster.nodes[static_cast<size_t>(rank)];
                    if (from != to) between.emplace_back(from, to);
                }
                EXPECT_EQ(slow, islands - 1) << forest_text(forest);
                std::sort(between.begin(), between.end());
                EXPECT_EQ(std::adjacent_find(between.begin(), between.end()), between.end())
                    << "a byte goes twice from machine to machine: " << forest_text(forest);
            }
        }
    }
}

TEST(Islands, give_what_collectives_promise) {
    Random random(number_from("POMONA_SEED", 20261201) ^ 91);
    for (int i = 0; i < 15; ++i) {
        Cluster cluster = drawn(random, i < 3 ? 64 : 16);
        if (!cluster.machine.by_island) continue;
        auto p = static_cast<int>(cluster.nodes.size());
        for (Collective collective : kCollectives)
            for (size_t count : {size_t{0}, size_t{1}, static_cast<size_t>(p + 1), size_t{3001}})
                for (bool in_place : {false, true}) {
                    property::Case c;
                    c.algorithm = &row_of(collective);
                    c.p = p, c.count = count;
                    c.root = coll::has_root(collective) ? random.between(0, p - 1) : 0;
                    c.in_place = in_place && collective != Collective::bcast;
                    coll::Shape shape = shape_of(cluster, collective, 64, c.root);
                    c.options = {random.between(1, 5), 2,
                                 find_forest(cluster.machine.by_island, shape, 0, true)};
                    if (!c.options.forest) continue;  // of a bcast or reduce among many
                    c.seed = random.next();
                    ASSERT_EQ(run_case(c), "") << text_of(c);
                }
    }
}

TEST(Islands, formulas_hold_to_prices) {
    Random random(number_from("POMONA_SEED", 20261201) ^ 92);
    for (Collective collective : kCollectives) {
        double low = 1e9, high = 0;
        for (int i = 0; i < 20; ++i) {
            Cluster cluster = drawn(random);
            if (!cluster.machine.by_island) continue;
            cluster.machine.asks_far = false;  // formulas know no questions
            for (size_t bytes : {size_t{1} << 10, size_t{64} << 10, size_t{2} << 20})
                for (int segments : {1, 8}) {
                    if (bytes < 65536 && segments > 1) continue;
                    coll::Shape shape = shape_of(cluster, collective, bytes);
                    coll::Options options{segments, 2,
                                          find_forest(cluster.machine.by_island, shape, 0, true)};
                    coll::PricedNetwork network{
                        cluster.machine, coll::links_of(cluster.machine, cluster.nodes), {}};
                    std::string problem;
                    auto price = coll::price(row_of(collective), shape, options, network, problem);
                    ASSERT_TRUE(price.ok()) << problem;
                    double cost =
                        row_of(collective).cost(coll::Facts(shape, cluster.machine, options));
                    double ratio = cost / price->ns;
                    low = std::min(low, ratio), high = std::max(high, ratio);
                    EXPECT_TRUE(ratio > 0.4 && ratio < 2.5)
                        << collective_name(collective) << " of " << bytes << " in " << segments
                        << " among " << shape.size << " on " << cluster.islands.size() << ": "
                        << ratio;
                }
        }
        std::printf("%s: the formula is %.2f to %.2f of the price\n", collective_name(collective),
                    low, high);
    }
}

// Goal: the rows pay. Two pairs of machines are half as long busy with their lines; some other rows
// do as well where ranks are numbered as suits them, none does so with both numberings.
TEST(Islands, choices_take_less_time) {
    std::map<Collective, double> best;  // of long vectors
    for (auto nodes : {ranks_of(4, 1), std::vector<int>{0, 2, 1, 3}, ranks_of(4, 2)}) {
        Cluster cluster = cluster_of({0, 0, 1, 1}, nodes), without = cluster;
        without.machine.by_island = nullptr;
        for (Collective collective : kCollectives)
            for (size_t bytes : {size_t{64}, size_t{64} << 10, size_t{4} << 20}) {
                coll::Shape shape = shape_of(cluster, collective, bytes);
                coll::Plan plan = select(shape, cluster.machine);
                coll::Plan old = select(shape, without.machine);
                double took = time_of(cluster, shape, plan);
                double before = time_of(cluster, shape, old);
                std::printf("%-14s %8zu bytes, %zu ranks: %-20s %9.1f us, without %-20s %9.1f us\n",
                            collective_name(collective), bytes, nodes.size(), plan.algorithm->name,
                            took / 1000, old.algorithm->name, before / 1000);
                EXPECT_LE(took, 1.01 * before);
                if (bytes < size_t{4} << 20) continue;
                best[collective] = best.count(collective)
                                       ? std::min(best[collective], took / before)
                                       : took / before;
            }
    }
    for (auto [collective, ratio] : best) EXPECT_LT(ratio, 0.55) << collective_name(collective);
}

TEST(Islands, choices_are_no_worse_elsewhere) {
    Random random(number_from("POMONA_SEED", 20261201) ^ 93);
    double gain = 0;
    int cases = 0, taken = 0;
    for (int i = 0; i < 12; ++i) {
        Cluster cluster = drawn(random), without = cluster;
        if (!cluster.machine.by_island) continue;
        without.machine.by_island = nullptr;
        for (Collective collective : kCollectives)
            for (size_t bytes : {size_t{256}, size_t{32} << 10, size_t{1} << 20}) {
                coll::Shape shape =
                    shape_of(cluster, collective, bytes,
                             random.between(0, static_cast<int>(cluster.nodes.size()) - 1));
                coll::Plan plan = select(shape, cluster.machine);
                double took = time_of(cluster, shape, plan);
                double before = time_of(cluster, shape, select(shape, without.machine));
                EXPECT_LE(took, 1.02 * before) << collective_name(collective) << " of " << bytes;
                gain += std::log(took / before), ++cases;
                taken += plan.algorithm == &row_of(collective);
            }
    }
    std::printf("taken in %d of %d; %.3f of the time without\n", taken, cases,
                std::exp(gain / cases));
    EXPECT_GT(taken, cases / 6);
}

// What is left out when a call chooses costs it little. How long choosing takes is printed.
TEST(Islands, choices_are_near_the_best_row) {
    double sum = 0, most = 0;
    int cases = 0;
    for (const auto& islands :
         {std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}, std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}})
        for (int each : {1, 2}) {
            Cluster cluster = cluster_of(islands, ranks_of(8, each));
            for (Collective collective : kCollectives)
                for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
                    coll::Shape shape = shape_of(cluster, collective, bytes);
                    std::clock_t begin = std::clock();
                    coll::Plan plan = select(shape, cluster.machine);
                    double took = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
                    sum += took, ++cases, most = std::max(most, took);
                    if (each > 1 || bytes > size_t{1} << 20) continue;
                    coll::Plan best = rank_algorithms(shape, cluster.machine).front();
                    EXPECT_LE(time_of(cluster, shape, plan), 1.05 * time_of(cluster, shape, best))
                        << collective_name(collective) << " of " << bytes << ": "
                        << plan.algorithm->name << ", not " << best.algorithm->name;
                }
        }
    std::printf("%.1f ms of a processor to choose in the mean of %d, %.0f at most\n", sum / cases,
                cases, most);
}

// Of more ranks formulas choose alone.
TEST(Islands, choices_of_many_ranks_are_no_worse) {
    Random random(number_from("POMONA_SEED", 20261201) ^ 94);
    double gain = 0, worst = 0;
    int cases = 0, taken = 0;
    for (int i = 0; i < 16; ++i) {
        Cluster cluster = drawn(random, 64), without = cluster;
        if (!cluster.machine.by_island || cluster.nodes.size() <= 16) continue;
        without.machine.by_island = nullptr;
        EXPECT_EQ(cluster.machine.by_island->size(), 3u);  // none of a bcast or reduce
        for (Collective collective :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter})
            for (size_t bytes : {size_t{256}, size_t{8} << 10, size_t{256} << 10}) {
                coll::Shape shape = shape_of(cluster, collective, bytes);
                coll::Plan plan = select(shape, cluster.machine);
                double took = time_of(cluster, shape, plan);
                double before = time_of(cluster, shape, select(shape, without.machine));
                worst = std::max(worst, took / before);
                gain += std::log(took / before), ++cases;
                taken += plan.algorithm == &row_of(collective);
            }
    }
    std::printf("taken in %d of %d; %.3f of the time without, %.2f at worst\n", taken, cases,
                std::exp(gain / cases), worst);
    EXPECT_GT(taken, cases / 6);
    EXPECT_LT(worst, 1.2);
}

// Mutants: a rank that sees other islands has other trees; its messages do not fit others'.
TEST(Islands, trees_of_a_rank_with_another_table_do_not_fit) {
    Cluster cluster = cluster_of({0, 0, 1, 1}, {0, 1, 2, 3});
    Cluster other = cluster_of({0, 1, 0, 1}, {0, 1, 2, 3});
    int differ = 0;
    for (Collective collective : kCollectives) {
        coll::Shape shape = shape_of(cluster, collective, 4800);
        auto build = [&](const Cluster& by) {
            return build_schedule(row_of(collective), shape,
                                  {2, 2, find_forest(by.machine.by_island, shape, 0, true)});
        };
        for (int odd = 0; odd < 4; ++odd) {
            std::vector<coll::Schedule> schedules;
            for (shape.rank = 0; shape.rank < 4; ++shape.rank) schedules.push_back(build(cluster));
            ASSERT_TRUE(coll::verify(schedules).ok());
            shape.rank = odd;
            coll::Schedule mutant = build(other);
            auto at = static_cast<size_t>(odd);
            if (messages_of(mutant) == messages_of(schedules[at])) continue;
            ++differ;
            schedules[at] = std::move(mutant);
            EXPECT_FALSE(coll::verify(schedules).ok()) << collective_name(collective);
        }
    }
    EXPECT_GT(differ, 10);
}

}  // namespace
}  // namespace pomona
