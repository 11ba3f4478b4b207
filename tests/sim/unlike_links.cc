// tests/sim/unlike_links.cc: collectives among machines that unlike links join.
// Goal: rings go through the machines as their links allow, formulas of rings know it, and what is
// chosen by the links of each pair is quicker than what one number for all pairs would choose.
// Method: chains, meshes without an edge, machines on cables, lines and Wi-Fi, drawn or as people
// have them; schedules run in the simulated network, which has the same links.
#include "coll/catalog.h"
#include "coll/ring_order.h"
#include "coll/select.h"
#include "tests/sim/collective_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

namespace pomona {
namespace {

using coll::Collective;
using coll::Link;
using testing::ElementsAre;
using testing::IsEmpty;

const Link kCable{15000, 2500, 0.25}, kLine{40000, 2500, 0.9}, kWifi{1.5e6, 5000, 25};

// Ranks on machines, what joins these, and how a communicator of all sees it.
struct Cluster {
    std::vector<int> nodes;
    coll::Machine machine;
    std::vector<int> ring, places;
};

Cluster cluster_of(std::vector<int> nodes, const coll::Links& links, const Roads& roads = {}) {
    Cluster made;
    made.nodes = std::move(nodes);
    made.machine = coll::Machine::among(links, true, made.nodes, roads);
    made.ring = coll::ring_order(made.machine, made.nodes);
    made.places = coll::with_ring(made.nodes, made.ring);
    return made;
}

coll::Shape shape_of(const Cluster& cluster, Collective collective, size_t bytes) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = static_cast<int>(cluster.nodes.size());
    shape.element = 8;
    shape.count = bytes / 8;
    shape.place(cluster.places);
    return shape;
}

double time_of(const Cluster& cluster, const coll::Algorithm& row, const coll::Shape& shape,
               const coll::Options& options) {
    return sim::collective_time(row, shape, options, cluster.machine,
                                coll::links_of(cluster.machine, cluster.nodes));
}

double time_of(const Cluster& cluster, Collective collective, const char* name, size_t bytes) {
    return time_of(cluster, *coll::find_algorithm(collective, name),
                   shape_of(cluster, collective, bytes), {});
}

// Cables between these machines and nothing else, each at an interface of its own.
Roads cables(int machines, const std::vector<std::pair<int, int>>& joined) {
    auto count = static_cast<size_t>(machines);
    std::vector<bool> direct(count * count);
    std::vector<int> lines(count * count), next(count);
    for (size_t a = 0; a < count; ++a) direct[a * count + a] = true;
    for (auto [x, y] : joined) {
        auto a = static_cast<size_t>(x), b = static_cast<size_t>(y);
        direct[a * count + b] = direct[b * count + a] = true;
        lines[a * count + b] = next[a]++, lines[b * count + a] = next[b]++;
    }
    return {machines, direct, lines};
}

std::vector<int> one_each(int machines) {
    std::vector<int> nodes(static_cast<size_t>(machines));
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
}

coll::Links all_cables() {
    coll::Links links;
    links.net = kCable;
    return links;
}

TEST(RingOrder, stays_by_number_where_links_are_alike) {
    EXPECT_THAT(cluster_of({0, 1, 2, 3}, {}).ring, IsEmpty());
    coll::Links links;
    for (int a = 0; a < 4; ++a)
        for (int b = a + 1; b < 4; ++b) links.pairs.push_back({a, b, kLine});
    Cluster alike = cluster_of({0, 1, 2, 3}, links);
    EXPECT_FALSE(alike.machine.unlike());
    EXPECT_EQ(alike.machine.far, kLine);
    EXPECT_THAT(alike.ring, IsEmpty());
    // A slow pair among members counts for them alone.
    links.pairs[5].link = kWifi;  // 2-3
    EXPECT_TRUE(cluster_of({0, 1, 2, 3}, links).machine.unlike());
    EXPECT_FALSE(cluster_of({0, 1, 2}, links).machine.unlike());
    EXPECT_EQ(cluster_of({2, 3}, links).machine.far, kWifi);
}

TEST(RingOrder, goes_along_a_chain_and_round_a_missing_edge) {
    Cluster chain = cluster_of({0, 1, 2, 3}, all_cables(), cables(4, {{0, 2}, {2, 1}, {1, 3}}));
    // There over some machines and back over the others: no cable twice in one direction.
    EXPECT_THAT(chain.ring, ElementsAre(0, 1, 3, 2));
    coll::Links mesh = all_cables();
    mesh.pairs = {{1, 2, kLine}};
    EXPECT_THAT(cluster_of({0, 1, 2, 3}, mesh).ring, ElementsAre(0, 1, 3, 2));
    // Ranks of one machine stay together.
    Cluster wide =
        cluster_of({0, 1, 2, 3, 0, 1, 2, 3}, all_cables(), cables(4, {{0, 2}, {2, 1}, {1, 3}}));
    EXPECT_THAT(wide.ring, ElementsAre(0, 4, 1, 5, 3, 7, 2, 6));
}

// Goal: the ordered ring takes as much less time as its busiest cable carries less.
TEST(RingOrder, saves_time_on_chains_and_meshes) {
    struct Row {
        const char* what;
        int machines;
        std::vector<std::pair<int, int>> joined;
        double most;  // of the time by number
    };
    const Row rows[] = {
        {"chain of 4", 4, {{0, 2}, {2, 1}, {1, 3}}, 0.65},
        {"chain of 5", 5, {{0, 2}, {2, 4}, {4, 1}, {1, 3}}, 0.6},
        {"ring of 6", 6, {{0, 3}, {3, 1}, {1, 4}, {4, 2}, {2, 5}, {5, 0}}, 0.6},
        // Each cable carries one message a step either way; what is saved is the way through
        // others.
        {"mesh of 4 without two cables", 4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}}, 1}};
    for (const Row& row : rows) {
        Cluster known =
            cluster_of(one_each(row.machines), all_cables(), cables(row.machines, row.joined));
        for (Collective collective :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter}) {
            double by_number = time_of(known, collective, "ring", 4 << 20);
            double ordered = time_of(known, collective, "hierarchical_ring", 4 << 20);
            std::printf("%s, %s: %.3f of the ring by number\n", row.what,
                        collective_name(collective), ordered / by_number);
            EXPECT_LT(ordered, row.most * by_number) << row.what;
        }
    }
}

// Four machines with cables, of which two have a line of a switch between them instead.
TEST(RingOrder, saves_time_on_a_mesh_with_a_slow_edge) {
    coll::Links links = all_cables();
    links.pairs = {{1, 2, {40000, 2500, 9}}};
    Cluster cluster = cluster_of(one_each(4), links);
    for (Collective collective :
         {Collective::allreduce, Collective::allgather, Collective::reduce_scatter}) {
        double by_number = time_of(cluster, collective, "ring", 4 << 20);
        double ordered = time_of(cluster, collective, "hierarchical_ring", 4 << 20);
        std::printf("mesh of 4 with a slow edge, %s: %.3f of the ring by number\n",
                    collective_name(collective), ordered / by_number);
        EXPECT_LT(ordered, 0.1 * by_number);
    }
}

// Of drawn links, and sometimes ways through others.
Cluster drawn(Random& random, int machines, int ranks_each) {
    coll::Links links;
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b) {
            const Link kinds[] = {kCable, kLine, kWifi, {30000, 2500, 8}};
            Link link = kinds[random.below(4)];
            link.byte_ns *= 0.9 + 0.2 * random.unit();
            links.pairs.push_back({a, b, link});
        }
    std::vector<int> nodes;
    for (int r = 0; r < machines * ranks_each; ++r) nodes.push_back(r % machines);
    if (!random.chance(0.3)) return cluster_of(nodes, links);
    std::vector<std::pair<int, int>> joined;
    for (int a = 0; a < machines; ++a)
        for (int b = a + 1; b < machines; ++b)
            if (b == a + 1 || random.chance(0.5)) joined.emplace_back(a, b);
    return cluster_of(nodes, links, cables(machines, joined));
}

// Goal: the formulas of rings hold on unlike links; they choose segments, and for many ranks the
// algorithm.
TEST(Formulas, of_rings_hold_to_virtual_time_on_unlike_links) {
    Random random(31);
    double low = 1e9, high = 0;
    for (int i = 0; i < 60; ++i) {
        Cluster cluster = drawn(random, random.between(3, 6), random.between(1, 2));
        cluster.machine.asks_far = false;  // formulas know no questions
        for (Collective collective :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter})
            for (const char* name : {"ring", "hierarchical_ring"})
                for (size_t bytes : {size_t{64}, size_t{1} << 20}) {
                    const coll::Algorithm& row = *coll::find_algorithm(collective, name);
                    coll::Shape shape = shape_of(cluster, collective, bytes);
                    coll::Facts facts(shape, cluster.machine, {});
                    if (!row.legal(facts)) continue;
                    double ratio = row.cost(facts) / time_of(cluster, row, shape, {});
                    low = std::min(low, ratio), high = std::max(high, ratio);
                }
    }
    std::printf("formula / virtual time: %.3f to %.3f\n", low, high);
    EXPECT_GT(low, 1 / 2.5);
    EXPECT_LT(high, 2.5);
}

constexpr Collective kCollectives[] = {Collective::allreduce,      Collective::allgather,
                                       Collective::reduce_scatter, Collective::bcast,
                                       Collective::reduce,         Collective::alltoall};

// Goal: choosing by pairs beats choosing by the slowest pair for all, and nothing of the catalog
// would have been much better. Method: the choice, the old one, and every row with many options in
// virtual time.
TEST(Choices, by_pairs_are_about_the_best) {
    Random random(32);
    int cases = 0, near_best = 0, slower = 0;
    double gain = 0, worst = 1, seconds = 0;
    for (int i = 0; i < 40; ++i) {
        Cluster cluster = drawn(random, random.between(3, 5), random.chance(0.3) ? 2 : 1);
        if (!cluster.machine.unlike()) continue;
        coll::Machine one_number = cluster.machine;
        one_number.pairs = {}, one_number.roads = {}, one_number.by_speed = {},
        one_number.by_island = {};
        for (Collective collective : kCollectives)
            for (size_t bytes : {size_t{64}, size_t{16} << 10, size_t{1} << 20}) {
                coll::Shape shape = shape_of(cluster, collective, bytes), blind = shape;
                blind.place(cluster.nodes);
                auto begin = std::chrono::steady_clock::now();
                coll::Plan plan = select(shape, cluster.machine);
                seconds +=
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                coll::Plan old = select(blind, one_number);
                double took = time_of(cluster, *plan.algorithm, shape, plan.options);
                double before = time_of(cluster, *old.algorithm, blind, old.options);
                double best = took;
                for (const coll::Algorithm& row : coll::catalog_of(collective)) {
                    if (!row.legal(coll::Facts(shape, cluster.machine, {}))) continue;
                    for (int segments : {1, 2, 4, 8, 16, 32, 64, 128})
                        for (int radix : {2, 4}) {
                            bool cut = row.tunables & (coll::segments | coll::ring_segments);
                            if ((segments > 1 && !cut) || (radix > 2 && !row.uses_radix)) continue;
                            if (bytes / static_cast<size_t>(segments) < 1024 && segments > 1)
                                continue;
                            best = std::min(best, time_of(cluster, row, shape, {segments, radix}));
                        }
                }
                if (took > 1.15 * best || took > 1.02 * before)
                    std::printf(
                        "  %s of %zu among %d on %d: %s:segments=%d,radix=%d %.0f, before %s %.0f, best %.0f\n",
                        collective_name(collective), bytes, shape.size,
                        1 + *std::max_element(cluster.nodes.begin(), cluster.nodes.end()),
                        plan.algorithm->name, plan.options.segments, plan.options.radix, took,
                        old.algorithm->name, before, best);
                ++cases, near_best += took <= 1.15 * best, worst = std::max(worst, took / best);
                slower += took > 1.02 * before;
                gain += std::log(took / before);
            }
    }
    std::printf(
        "%d cases: %.3f of the time of one number for all pairs; %d slower; %.1f %% within "
        "1.15 of the best row, worst %.2f; %.2f ms to choose\n",
        cases, std::exp(gain / cases), slower, 100.0 * near_best / cases, worst,
        1e3 * seconds / cases);
    EXPECT_LT(std::exp(gain / cases), 0.8);
    EXPECT_LT(slower, cases / 50 + 1);
    EXPECT_GE(near_best, cases * 95 / 100);
    EXPECT_LT(worst, 1.4);
}

// Goal: the same holds for more machines. What choosing takes, once for each size and form of a
// call, is printed; more ranks than are priced go by formulas.
TEST(Choices, of_many_ranks_are_no_slower) {
    Random random(33);
    for (int machines : {8, 16, 32}) {
        Cluster cluster = drawn(random, machines, 1);
        for (Collective collective : kCollectives) {
            coll::Shape shape = shape_of(cluster, collective, 1 << 20);
            auto begin = std::chrono::steady_clock::now();
            coll::Plan plan = select(shape, cluster.machine);
            std::chrono::duration<double, std::milli> took =
                std::chrono::steady_clock::now() - begin;
            std::printf("%s among %d: %s in %.1f ms\n", collective_name(collective), machines,
                        plan.algorithm->name, took.count());
            coll::Machine one_number = cluster.machine;
            one_number.pairs = {}, one_number.roads = {}, one_number.by_speed = {},
            one_number.by_island = {};
            coll::Shape blind = shape;
            blind.place(cluster.nodes);
            coll::Plan old = select(blind, one_number);
            EXPECT_LT(time_of(cluster, *plan.algorithm, shape, plan.options),
                      1.02 * time_of(cluster, *old.algorithm, blind, old.options));
        }
    }
}

// Goal: the first call of each size does not price what need not be: it comes to about what pricing
// every row to its end finds. Method: 8 machines with one rank or two; the processor time that a
// choice takes is printed, in the mean and at most (docs/tuning.md).
TEST(Choices, of_eight_machines_are_soon_made) {
    Random random(35);
    double sum = 0, most = 0;
    int cases = 0;
    for (int ranks : {1, 2})
        for (int i = 0; i < 2; ++i) {
            Cluster cluster = drawn(random, 8, ranks);
            for (Collective collective : kCollectives)
                for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
                    coll::Shape shape = shape_of(cluster, collective, bytes);
                    std::clock_t begin = std::clock();
                    coll::Plan plan = select(shape, cluster.machine);
                    double took = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
                    sum += took, ++cases, most = std::max(most, took);
                    if (i > 0) continue;
                    coll::Plan best = rank_algorithms(shape, cluster.machine).front();
                    double own = time_of(cluster, *plan.algorithm, shape, plan.options);
                    double least = time_of(cluster, *best.algorithm, shape, best.options);
                    EXPECT_LE(own, 1.05 * least)
                        << collective_name(collective) << " of " << bytes << " among " << shape.size
                        << ": " << plan.algorithm->name << ", not " << best.algorithm->name;
                }
        }
    std::printf("%.1f ms of a processor to choose in the mean of %d, %.0f at most\n", sum / cases,
                cases, most);
}

// Two Macs on a cable, one on Wi-Fi, a Linux box at 10 Gb/s.
TEST(Choices, of_the_cluster_that_people_have) {
    coll::Links links;
    links.pairs = {{0, 1, kCable}, {0, 2, kWifi}, {0, 3, kLine},
                   {1, 2, kWifi},  {1, 3, kLine}, {2, 3, kWifi}};
    Cluster cluster = cluster_of({0, 1, 2, 3}, links);
    coll::Machine one_number = cluster.machine;
    one_number.pairs = {}, one_number.by_speed = {}, one_number.by_island = {};
    for (Collective collective : kCollectives)
        for (size_t bytes : {size_t{64}, size_t{64} << 10, size_t{8} << 20}) {
            coll::Shape shape = shape_of(cluster, collective, bytes), blind = shape;
            blind.place(cluster.nodes);
            coll::Plan plan = select(shape, cluster.machine), old = select(blind, one_number);
            double took = time_of(cluster, *plan.algorithm, shape, plan.options);
            double before = time_of(cluster, *old.algorithm, blind, old.options);
            std::printf("%s of %zu: %s:segments=%d %.3f ms; by one number %s:segments=%d %.3f ms\n",
                        collective_name(collective), bytes, plan.algorithm->name,
                        plan.options.segments, took / 1e6, old.algorithm->name,
                        old.options.segments, before / 1e6);
            EXPECT_LT(took, 1.02 * before);
        }
}

}  // namespace
}  // namespace pomona
