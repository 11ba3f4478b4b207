// tests/property/forests.cc: forests of the user's: their text, the verifier, and the search for
// them.
#include "coll/contributions.h"
#include "coll/forest.h"
#include "coll/synthesize.h"
#include "coll/verify.h"
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace pomona::property {
namespace {

using coll::Forest;
using coll::Schedule;
using coll::Shape;

constexpr Collective kCollectives[] = {Collective::allreduce, Collective::bcast,
                                       Collective::allgather, Collective::reduce_scatter};

// All ranks' schedules; `mend` may change a rank's shape or options first.
template <class F> std::string judge(const coll::Algorithm& row, Shape shape, coll::Options options,
                                     F mend, coll::HazardRules rules = {}) {
    std::vector<Schedule> schedules;
    std::vector<Shape> shapes;
    for (shape.rank = 0; shape.rank < shape.size; ++shape.rank) {
        coll::Options own = options;
        mend(shape.rank, own);
        schedules.push_back(build_schedule(row, shape, own, rules));
        shapes.push_back(shape);
    }
    if (!coll::follows_contributions(schedules, shape)) return "not followed";
    coll::Verdict verdict = coll::verify(schedules);
    return verdict.ok() ? coll::check_contributions(schedules, shapes) : verdict.problem;
}
void nothing(int, coll::Options&) {}

TEST(Forests, are_read_as_they_are_written) {
    Random random(base_seed());
    for (int i = 0; i < 200; ++i) {
        coll::ForestNetwork network;
        int hosts = random.between(2, 8);
        for (int host = 0; host < hosts; ++host) {
            network.hosts.push_back("host" + std::to_string(host));
            network.ranks.push_back(random.between(1, 2));
        }
        network.pairs.push_back({0, 1, 9.375});
        for (Collective each : kCollectives) {
            Forest forest = *random_forest(each, network.size(), random);
            if (random.chance(0.5)) forest.from = 4096, forest.to = 1 << 20;
            network.forests.push_back(forest);
        }
        std::string problem, text = network_lines(network);
        auto again = coll::parse_forests(text, problem);
        ASSERT_TRUE(again.ok()) << problem << "\n" << text;
        ASSERT_EQ(again->size(), 1u);
        for (Forest& each : (*again)[0].forests) each.line = 0;
        EXPECT_EQ((*again)[0], network) << text;
    }
}

TEST(Forests, what_is_wrong_is_told_with_its_line) {
    const std::pair<const char*, const char*> cases[] = {
        {"allreduce: 1 (- 0)", "Line 1: a line 'network HOST:RANKS ...' must come first"},
        {"network a\nallreduce: 1 (-)", "Line 1: a network has 2 to 64 ranks, not 1"},
        {"network a b:x", "'b:x' is no host"},
        {"network a b\n\nbarrier: 1 (- 0)", "Line 3: 'barrier' is not understood"},
        {"network a b\nallreduce 1 (- 0)", "no ':'"},
        {"network a b\nallreduce 4K: 1 (- 0)", "no range of bytes"},
        {"network a b\nallreduce segment=0: 1 (- 0)", "no size of pieces"},
        {"network a b\nallreduce: 1 (- 0 0)",
         "names the parents of 3 ranks, but the network has 2"},
        {"network a b\nallreduce: 0 (- 0)", "a tree is a share"},
        {"network a b\nallreduce: 1 (- 2)", "rank 1 has the parent 2, but there are 2 ranks"},
        {"network a b\nallreduce: 1 (- -)", "2 roots"},
        {"network a b:2\nallreduce: 1 (- 2 1)", "on a ring"},
        {"network a b\nallreduce: 1 (- 0),", "behind the last comma"},
        {"network a b\nallgather: 1 (- 0)", "no tree has the root 1; allgather needs one for each"},
        {"network a b\ngigabits 0-2=1", "no rate of two hosts"},
    };
    for (auto [text, part] : cases) {
        std::string problem;
        EXPECT_FALSE(coll::parse_forests(text, problem).ok()) << text;
        EXPECT_NE(problem.find(part), std::string::npos) << text << ": " << problem;
    }
    std::string problem;
    EXPECT_TRUE(coll::parse_forests("none", problem).ok());
    EXPECT_TRUE(coll::parse_forests("", problem).ok());
}

TEST(Forests, fit_the_ranks_of_their_machines_only) {
    std::string problem;
    auto read = coll::parse_forests("network 3:2 5\nallreduce: 1 (- 0 1)", problem);
    ASSERT_TRUE(read.ok()) << problem;
    const coll::ForestNetwork& network = (*read)[0];
    int in_order[] = {3, 3, 5}, turned[] = {5, 3, 3}, other[] = {3, 5, 5}, more[] = {3, 3, 5, 1};
    ASSERT_EQ(coll::forests_for(network, in_order).size(), 1u);
    EXPECT_EQ(coll::forests_for(network, in_order)[0].trees[0].parents, (std::vector{-1, 0, 1}));
    // Rank 0 is on machine 5 now.
    EXPECT_EQ(coll::forests_for(network, turned)[0].trees[0].parents, (std::vector{2, -1, 1}));
    EXPECT_TRUE(coll::forests_for(network, other).empty());
    EXPECT_TRUE(coll::forests_for(network, more).empty());
}

TEST(Forests, random_ones_are_right) {
    Random random(base_seed() ^ 1);
    for (int i = 0; i < 60; ++i)
        for (Collective each : kCollectives) {
            const Forest& forest = *random_forest(each, random.between(2, 8), random);
            ASSERT_EQ(coll::verify_forest(forest), "") << coll::forest_text(forest);
        }
}

// Goal: more pieces than may be under way, so that places are used again and leaves wait for sums.
// Method: random trees cut in 60 to 120 pieces, by rows with data in a rough network; without one
// of the dependencies' rules it must show.
TEST(Forests, in_many_pieces) {
    Random random(base_seed() ^ 5);
    int cases = 0, wrong = 0;
    for (const char* name : {"forest", "cables"})
        for (Collective each :
             {Collective::allreduce, Collective::allgather, Collective::reduce_scatter,
              Collective::alltoall, Collective::bcast, Collective::reduce})
            for (int i = 0; i < 12; ++i) {
                Case c;
                c.algorithm = coll::find_algorithm(each, name);
                if (!c.algorithm) continue;
                c.p = random.between(2, 5), c.count = 300 + random.below(300);
                c.in_place = random.chance(0.5), c.seed = random.next();
                Forest forest = *random_forest(each, c.p, random);
                bool options = std::string_view(name) == "cables";
                forest.segment = options ? 0 : 32;
                c.options = {options ? random.between(60, 120) : 1, 2, &forest};
                if (!legal(c)) continue;
                ASSERT_EQ(run_case(c), "");
                ++cases;
                c.rules.write_after_read = false;
                wrong += !run_case(c).empty();
            }
    std::printf("%d cases; %d wrong without a rule\n", cases, wrong);
    EXPECT_GT(cases, 50);
    EXPECT_GT(wrong, 5);
}

// The verifier follows the catalog's rows too: all that go by messages.
TEST(Contributions, rows_of_the_catalog_are_right) {
    int followed = 0;
    Random random(base_seed() ^ 2);
    for (const coll::Algorithm& row : coll::catalog())
        for (int p : {2, 3, 4, 5, 8, 9}) {
            Shape shape;
            shape.collective = row.collective, shape.size = p;
            shape.root = static_cast<int>(random.below(static_cast<uint64_t>(p)));
            shape.count = 2 * static_cast<size_t>(p) + 1;
            std::vector<int> nodes;
            for (int r = 0; r < p; ++r) nodes.push_back(r / 2);
            if (std::string_view(row.name).starts_with("hierarchical")) shape.nodes = nodes;
            coll::Options options;
            if (row.tunables & coll::by_trees)
                options.forest = random_forest(row.collective, p, random);
            if (!row.legal(coll::Facts(shape, coll::Machine::cluster(), options))) continue;
            std::string problem = judge(row, shape, options, nothing);
            if (problem == "not followed") continue;
            ++followed;
            EXPECT_EQ(problem, "")
                << row.name << " " << collective_name(row.collective) << " " << p;
        }
    EXPECT_GT(followed, 150);
}

// Mutants: what the verifier must say of schedules that are wrong in one respect.
TEST(Contributions, mutants_are_caught) {
    Random random(base_seed() ^ 3);
    int hazards = 0;
    for (int i = 0; i < 40; ++i) {
        int p = random.between(3, 8);
        for (Collective each : kCollectives) {
            const coll::Algorithm& row = *find_algorithm(each, "forest");
            const Forest& forest = *random_forest(each, p, random);
            Shape shape;
            shape.collective = each, shape.size = p, shape.count = 50;
            coll::Options options;
            options.forest = &forest;
            ASSERT_EQ(judge(row, shape, options, nothing), "");
            // One rank goes by other shares, or by other trees.
            Forest other = forest;
            other.trees[0].share += 40;
            auto one = [&](int rank, coll::Options& own) {
                if (rank == 1) own.forest = &other;
            };
            if (each == Collective::allreduce && forest.trees.size() > 1) {
                EXPECT_NE(judge(row, shape, options, one), "") << coll::forest_text(forest);
            }
            other = *random_forest(each, p, random);
            other.segment = forest.segment;
            bool rooted = each == Collective::bcast;
            auto parents = [&](const Forest& of) {
                std::vector<std::vector<int>> out;
                for (const coll::Tree* tree : of.of_root(rooted ? 0 : -1))
                    out.push_back(tree->parents);
                return out;
            };
            if (parents(other).size() == 1 && parents(forest).size() > 1) {
                EXPECT_NE(judge(row, shape, options, one), "") << coll::forest_text(forest);
            }
            hazards += judge(row, shape, options, nothing, {.read_after_write = false}) != "";
        }
    }
    // Not in each: where leaves only send there is nothing to wait for.
    EXPECT_GT(hazards, 120);
}

// One message that is added twice, and one contribution that is left out.
TEST(Contributions, doubled_and_lost_ones_are_named) {
    for (bool twice : {true, false}) {
        std::vector<Schedule> schedules;
        std::vector<Shape> shapes;
        for (int rank = 0; rank < 2; ++rank) {
            Shape shape{.collective = Collective::allreduce, .rank = rank, .size = 2, .count = 8};
            coll::Builder s(shape);
            coll::Region mine = s.input(0, 8), out = s.result(0, 8), theirs = s.scratch(8);
            s.send(1 - rank, mine);
            s.recv(1 - rank, theirs);
            if (twice || rank == 0) s.reduce(mine, theirs, out);
            else s.copy(mine, out);
            if (twice) s.reduce(out, theirs, out);
            schedules.push_back(s.finish());
            shapes.push_back(shape);
        }
        ASSERT_TRUE(coll::verify(schedules).ok());
        std::string problem = coll::check_contributions(schedules, shapes);
        EXPECT_NE(
            problem.find(
                twice ? "a second time"
                      : "Byte 0 of rank 1's result is made of byte 0 of 1, not of byte 0 of 0, 1"),
            std::string::npos)
            << problem;
    }
}

// A network of one description: lines of unlike rates, some cables, one or two ranks a host.
coll::PricedNetwork random_network(Random& random) {
    coll::PricedNetwork network;
    int hosts = random.between(2, 5);
    coll::Links links;
    LinkMap& map = network.links;
    for (int host = 0; host < hosts; ++host)
        for (int ranks = random.chance(0.3) ? 2 : 1; ranks > 0; --ranks) map.hosts.push_back(host);
    map.near = {links.shm.latency_ns, links.shm.overhead_ns, links.shm.byte_ns};
    map.within.assign(static_cast<size_t>(hosts), map.near);
    map.between.resize(static_cast<size_t>(hosts * hosts));
    map.port_byte_ns = links.tcp.byte_ns;
    int cables = 0;
    for (int a = 0; a < hosts; ++a) map.line_byte_ns.push_back(8 / (0.5 + 10 * random.unit()));
    for (int a = 0; a < hosts; ++a)
        for (int b = a + 1; b < hosts; ++b) {
            LinkMap::Between each{{5e3 + 1e5 * random.unit(), 2500, 8 / (0.2 + 20 * random.unit())},
                                  random.chance(0.4) ? cables++ : -1};
            map.between[static_cast<size_t>(a * hosts + b)] = each;
            map.between[static_cast<size_t>(b * hosts + a)] = each;
            links.pairs.push_back({a, b, {each.cost.latency_ns, 2500, each.cost.byte_ns}});
        }
    network.machine = coll::Machine::among(links, true, map.hosts);
    return network;
}

TEST(Synthesize, finds_right_forests_for_random_networks) {
    Random random(base_seed() ^ 4);
    int better = 0, cases = 0;
    double sum = 0;
    for (int i = 0; i < 8; ++i) {
        coll::PricedNetwork network = random_network(random);
        for (Collective each : kCollectives)
            for (size_t bytes : {size_t{512}, size_t{256} << 10}) {
                coll::Wanted wanted{.collective = each, .bytes = bytes, .tries = 120};
                wanted.root = static_cast<int>(random.below(network.links.hosts.size()));
                wanted.seed = random.next();
                coll::Synthesis made = coll::synthesize(wanted, network);
                ASSERT_EQ(coll::verify_forest(made.forest), "") << forest_text(made.forest);
                if (i < 2) {
                    EXPECT_EQ(coll::synthesize(wanted, network).forest, made.forest) << "seed";
                }
                double row = best_row(shape_of(wanted, network, bytes), network).cost_ns;
                ++cases, better += made.ns < row, sum += made.ns / row;
            }
    }
    std::printf("better than the best row in %d of %d cases, in the mean %.3f of its time\n",
                better, cases, sum / cases);
    EXPECT_GT(better, cases / 2);
}

}  // namespace
}  // namespace pomona::property
