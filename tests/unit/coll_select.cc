// tests/unit/coll_select.cc: which algorithm a collective takes: the cache of schedules, the
// selection and the user's choice.
#include "coll/cache.h"
#include "coll/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pomona::coll {
namespace {

TEST(Cache, keeps_by_shape_and_drops_the_oldest) {
    ScheduleCache cache(2);
    Machine machine = Machine::shared_memory();
    Shape shape{.collective = Collective::allreduce, .size = 4, .count = 1, .element = 8};
    bool built = false;
    auto first = cache.get(shape, machine, {}, &built);
    EXPECT_TRUE(built);
    EXPECT_EQ(cache.get(shape, machine, {}, &built), first);
    EXPECT_FALSE(built);
    for (size_t count : {2u, 3u}) shape.count = count, cache.get(shape, machine, {}, &built);
    EXPECT_EQ(cache.size(), 2u);
    shape.count = 3;
    cache.get(shape, machine, {}, &built);
    EXPECT_FALSE(built);
    shape.count = 1;
    cache.get(shape, machine, {}, &built);
    EXPECT_TRUE(built);
}

TEST(Cache, tells_block_lists_apart) {
    ScheduleCache cache;
    Machine machine = Machine::shared_memory();
    std::vector<Block> blocks{{0, 8}, {8, 8}}, others{{0, 8}, {16, 8}};
    Shape shape{.collective = Collective::allgather, .size = 2, .element = 8, .irregular = true};
    bool built = false;
    shape.result_blocks = blocks;
    cache.get(shape, machine);
    shape.result_blocks = others;
    cache.get(shape, machine, {}, &built);
    EXPECT_TRUE(built);
    shape.result_blocks = blocks;
    cache.get(shape, machine, {}, &built);
    EXPECT_FALSE(built);
}

TEST(Select, takes_short_ways_for_short_vectors_and_rings_for_long_ones) {
    Machine machine = Machine::tcp_loopback();
    Shape shape{.collective = Collective::allreduce, .size = 16, .count = 1, .element = 4};
    Plan small = select(shape, machine);
    shape.count = 64u << 20;
    Plan large = select(shape, machine);
    EXPECT_STRNE(small.algorithm->name, "ring");
    EXPECT_LT(small.cost_ns, 1e6);
    Facts facts(shape, machine, {});
    EXPECT_LT(large.cost_ns,
              find_algorithm(Collective::allreduce, "recursive_doubling")->cost(facts) / 2);
    // A row that is not legal is not taken, however cheap.
    shape.commutative = false;
    EXPECT_STRNE(select(shape, machine).algorithm->name, "ring");
}

TEST(Select, follows_the_user_where_that_is_legal) {
    std::string problem;
    auto choice = parse_choice_for(Collective::allreduce, "ring:segments=4", problem);
    ASSERT_TRUE(choice.ok()) << problem;
    Shape shape{.collective = Collective::allreduce, .size = 4, .count = 9, .element = 8};
    Plan plan = select(shape, Machine::shared_memory(), *choice);
    EXPECT_STREQ(plan.algorithm->name, "ring");
    EXPECT_EQ(plan.options.segments, 4);
    shape.commutative = false;
    EXPECT_STRNE(select(shape, Machine::shared_memory(), *choice).algorithm->name, "ring");
}

// So that a piece that comes late stalls nobody, into pieces of 64 KiB at least, 8 at most; and by
// lines of 1 and 10 Gb/s such a ring is what is taken.
TEST(Select, cuts_rings_between_machines_finely) {
    for (int ranks : {3, 4, 8}) {
        std::vector<int> nodes;
        for (int r = 0; r < ranks; ++r) nodes.push_back(r);
        for (double gigabits : {1.0, 10.0}) {
            Links links;
            links.net = {25'000, 2500, 8 / gigabits};
            for (size_t mib : {1, 2, 4, 16, 64, 256}) {
                Shape shape{.collective = Collective::allreduce,
                            .size = ranks,
                            .count = mib << 18,
                            .element = 4,
                            .nodes = nodes};
                Plan plan = select(shape, Machine::among(links, false, nodes));
                EXPECT_STREQ(plan.algorithm->name, "ring") << ranks << ' ' << mib;
                auto block = static_cast<double>(mib << 20) / ranks;
                EXPECT_GE(plan.options.segments, std::min(block / (128 << 10), 8.0))
                    << ranks << ' ' << mib << ' ' << gigabits;
                EXPECT_GE(block / plan.options.segments, 64 << 10)
                    << ranks << ' ' << mib << ' ' << gigabits;
            }
        }
    }
}

TEST(Select, knows_where_ranks_come_late) {
    // The machines, and whether lateness counts among them.
    for (auto [nodes, late] : {std::pair{std::vector<int>{0, 1, 2, 3}, true},
                               {{0, 1}, false},
                               {{0, 0, 1, 1, 2, 2, 3, 3}, false},
                               {{0, 0, 0, 0}, false}}) {
        Shape shape{.collective = Collective::allreduce,
                    .size = static_cast<int>(nodes.size()),
                    .count = 4 << 18,
                    .element = 4,
                    .nodes = nodes};
        for (Collective collective : {Collective::allreduce, Collective::bcast}) {
            shape.collective = collective;
            bool found = false;
            for (const Plan& plan : rank_algorithms(shape, Machine::among({}, false, nodes))) {
                if (plan.why_not) continue;
                found |= plan.counts_ns() > plan.cost_ns;
                EXPECT_TRUE(plan.late == 1 || plan.options.segments == 1) << plan.algorithm->name;
            }
            EXPECT_EQ(found, late && collective == Collective::allreduce) << nodes.size();
        }
    }
}

// Small ones go over the board where there is one, the more so where ranks share cores.
TEST(Select, takes_the_board_for_small_collectives) {
    Links crowded;
    crowded.crowd = 4;
    for (Machine machine : {Machine::shared_memory(), Machine::of(crowded, true, false)})
        for (Collective collective : {Collective::barrier, Collective::allreduce,
                                      Collective::allgather, Collective::bcast}) {
            Shape shape{.collective = collective, .size = 8, .count = 2, .element = 8};
            EXPECT_STRNE(select(shape, machine).algorithm->name, "board");
            shape.board = true;
            EXPECT_STREQ(select(shape, machine).algorithm->name, "board");
            shape.count = 1000;  // 8000 bytes
            if (collective != Collective::barrier) {
                EXPECT_STRNE(select(shape, machine).algorithm->name, "board");
            }
        }
}

// Of the built-in costs, by what 16 cores of a Xeon do: docs/bench/README.md (choices_16.json).
TEST(Select, goes_through_chunks_where_many_ranks_share_a_memory) {
    auto taken = [](Collective collective, int ranks, size_t bytes) {
        Shape shape{.collective = collective, .size = ranks, .count = bytes / 4, .element = 4};
        shape.board = true;
        return std::string(select(shape, Machine::shared_memory()).algorithm->name);
    };
    for (int ranks : {8, 16}) {
        for (size_t bytes : {16u << 10, 256u << 10, 4u << 20})
            EXPECT_EQ(taken(Collective::allreduce, ranks, bytes), "chunks")
                << ranks << " " << bytes;
        EXPECT_EQ(taken(Collective::alltoall, ranks, 16 << 10), "chunks") << ranks;
        EXPECT_NE(taken(Collective::alltoall, ranks, 256 << 10), "chunks") << ranks;
    }
    EXPECT_EQ(taken(Collective::reduce_scatter, 16, 1 << 10), "recursive_halving");
    EXPECT_EQ(taken(Collective::allreduce, 16, 8), "board");
}

// What goes through shared memory is bounded by a machine's ranks, not by the communicator's.
TEST(Select, lets_many_machines_use_their_chunks) {
    std::vector<int> nodes;
    for (int rank = 0; rank < 100; ++rank) nodes.push_back(rank / 10);
    Shape shape{.collective = Collective::allreduce, .size = 100, .count = 1 << 18, .element = 4};
    shape.board = true;
    shape.nodes = nodes;
    const Algorithm& chunks = *find_algorithm(Collective::allreduce, "hierarchical_chunks");
    EXPECT_TRUE(chunks.legal(Facts(shape, Machine::cluster(), {})));
    for (int& node : nodes) node = node / 9;  // 90 ranks on one of them
    EXPECT_FALSE(chunks.legal(Facts(shape, Machine::cluster(), {})));
}

// Every option that an algorithm reads can be set, and no number of pieces is too many to be
// numbered.
TEST(Select, knows_the_options_of_each_row) {
    std::string problem;
    EXPECT_TRUE(parse_choice_for(Collective::alltoall, "pairwise:radix=4", problem).ok())
        << problem;
    EXPECT_TRUE(parse_choice_for(Collective::allgather, "ring:segments=3", problem).ok());
    EXPECT_TRUE(parse_choice_for(Collective::bcast, "scatter_allgather:segments=3", problem).ok());
    EXPECT_FALSE(parse_choice_for(Collective::allgather, "bruck:segments=3", problem).ok());
    EXPECT_FALSE(parse_choice_for(Collective::allreduce, "ring:radix=3", problem).ok());
    EXPECT_FALSE(parse_choice_for(Collective::allreduce, "ring:segments=65536", problem).ok());
    EXPECT_NE(problem.find("32768 at most among 2 ranks"), std::string::npos) << problem;
    auto choice = parse_choice_for(Collective::allreduce, "ring:segments=32768", problem);
    ASSERT_TRUE(choice.ok()) << problem;
    for (int p : {2, 8, 100}) {
        Shape shape{.collective = Collective::allreduce, .size = p, .count = 10 << 20};
        Plan plan = select(shape, Machine::shared_memory(), *choice);
        EXPECT_EQ(plan.options.segments, std::min(segments_most(p), 32768));
        EXPECT_LE(2 * (p - 1) * plan.options.segments, 1 << 16);
        EXPECT_GT(plan.options.segments, 1);
    }
}

// A wider tree pays where a message costs much and its handing over little.
TEST(Select, tries_wider_trees) {
    Machine machine = Machine::cluster();
    machine.far.latency_ns = 1e6;
    std::vector<int> nodes;
    for (int rank = 0; rank < 64; ++rank) nodes.push_back(rank);
    Shape shape{.collective = Collective::bcast, .size = 64, .count = 8, .nodes = nodes};
    for (const Plan& plan : rank_algorithms(shape, machine))
        if (std::string(plan.algorithm->name) == "tree") { EXPECT_EQ(plan.options.radix, 8); }
}

TEST(Select, explains_every_row) {
    Shape shape{.collective = Collective::allreduce, .size = 4, .count = 1 << 17, .element = 8};
    std::string text = explain(shape, Machine::shared_memory());
    for (const Algorithm& row : catalog_of(Collective::allreduce))
        EXPECT_NE(text.find(row.name), std::string::npos) << text;
    EXPECT_NE(text.find("not here: needs levels"), std::string::npos) << text;
}

TEST(Choice, is_read_and_refused_with_a_reason) {
    std::string problem;
    auto parsed = parse_choice("ring:segments=4,radix=3", problem);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->algorithm, "ring");
    EXPECT_EQ(parsed->options.segments, 4);
    EXPECT_EQ(parsed->options.radix, 3);
    EXPECT_TRUE(parse_choice("", problem)->algorithm.empty());
    EXPECT_TRUE(parse_choice("auto", problem)->algorithm.empty());
    for (const char* bad : {"ring:", "ring:segments", "ring:segments=", "ring:segments=0", "Ring",
                            "ring:segments=99999999999", "ring:segments=4x", "ring:colour=3", ":",
                            "auto:segments=2", "ring:segments=1,", "a b"}) {
        problem.clear();
        EXPECT_FALSE(parse_choice(bad, problem).ok()) << bad;
        EXPECT_FALSE(problem.empty()) << bad;
    }
    EXPECT_FALSE(parse_choice_for(Collective::allreduce, "rnig", problem).ok());
    EXPECT_NE(problem.find("did you mean ring?"), std::string::npos) << problem;
    EXPECT_FALSE(parse_choice_for(Collective::bcast, "binomial:segments=2", problem).ok());
    EXPECT_NE(problem.find("has no segments"), std::string::npos) << problem;
}

}  // namespace
}  // namespace pomona::coll
