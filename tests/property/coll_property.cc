// tests/property/coll_property.cc: every algorithm of the catalog against the sequential reference.
// Method: each test walks a grid of ranks, counts, roots and forms for every row, under a network
// drawn from the seed (jitter, reordering, rendezvous, immediate completion, slow ranks).
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace pomona::property {
namespace {

std::vector<size_t> counts_for(int p) {
    auto n = static_cast<size_t>(p);
    return {0, 1, n - 1, n, n + 1, 7 * n + 3};
}

class EveryAlgorithm : public ::testing::TestWithParam<const coll::Algorithm*> {
protected:
    // All forms of one configuration; counts how many were legal. The root is drawn unless given.
    void walk(int p, size_t count, uint64_t seed, std::optional<int> root = {}) {
        for (const Case& c : legal_forms(*GetParam(), p, count, seed, {root})) {
            ++walked_;
            ASSERT_EQ(run_case(c), "");
        }
    }
    int walked_ = 0;
};

TEST_P(EveryAlgorithm, small_and_odd_sizes) {
    Random random(base_seed());
    for (int p = 1; p <= 17; ++p)
        for (size_t count : counts_for(p)) {
            walk(p, count, random.next());
            if (HasFatalFailure()) return;
        }
    EXPECT_GT(walked_, 0);
}

// Every root of few ranks; of more the first, the last, the middle and two drawn ones.
TEST_P(EveryAlgorithm, roots) {
    Collective kind = GetParam()->collective;
    if (kind != Collective::bcast && kind != Collective::reduce && kind != Collective::gather &&
        kind != Collective::scatter)
        return;
    Random random(base_seed() ^ 5);
    for (int p : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 32, 33}) {
        std::set<int> roots;
        for (int r = 0; r < p && p <= 5; ++r) roots.insert(r);
        roots.insert({0, p / 2, p - 1, static_cast<int>(random.below(p)),
                      static_cast<int>(random.below(p))});
        for (int root : roots)
            for (size_t count : {size_t{1}, static_cast<size_t>(p) + 1}) {
                walk(p, count, random.next(), root);
                if (HasFatalFailure()) return;
            }
    }
    EXPECT_GT(walked_, 0);
}

TEST_P(EveryAlgorithm, around_powers_of_two_and_primes) {
    Random random(base_seed() ^ 2);
    // Schedules by given trees know no powers of two, and take long among many ranks.
    std::string_view name = GetParam()->name;
    bool by_trees = name == "cables" || name == "forest" || name == "uneven";
    for (int p : by_trees ? std::vector{31, 33} : std::vector{31, 32, 33, 37, 61})
        for (size_t count : {size_t{1}, static_cast<size_t>(p) + 1, size_t{200}}) {
            walk(p, count, random.next());
            if (HasFatalFailure()) return;
        }
}

TEST_P(EveryAlgorithm, long_vectors) {
    Random random(base_seed() ^ 3);
    for (int p : {2, 3, 4, 7, 8}) {
        walk(p, 20011, random.next());
        if (HasFatalFailure()) return;
    }
}

// The bits of floating point sums do not depend on when messages arrive.
TEST_P(EveryAlgorithm, float_sums_repeat_bitwise) {
    const coll::Algorithm& row = *GetParam();
    Random random(base_seed() ^ 4);
    for (int p : {2, 3, 5, 8, 13}) {
        Case c;
        c.algorithm = &row;
        c.p = p, c.count = 101, c.op = TestOp::sum_f32, c.seed = random.next();
        give_trees(c, random);
        if (std::string_view(row.name).starts_with("hierarchical")) c.ranks_per_node = 2;
        if (!legal(c)) continue;
        std::vector<std::vector<std::byte>> calm, stormy;
        c.calm = true;
        ASSERT_EQ(run_case(c, nullptr, &calm), "");
        c.calm = false;
        ASSERT_EQ(run_case(c, nullptr, &stormy), "");
        ASSERT_EQ(calm, stormy) << text_of(c);
        for (size_t r = 1; r < calm.size() && row.collective == Collective::allreduce; ++r) {
            ASSERT_EQ(calm[r], calm[0]) << text_of(c);
        }
    }
}

// Goal: the simulator is a function of its seed. Method: two runs, one event hash.
TEST_P(EveryAlgorithm, two_runs_are_one) {
    Case c;
    c.algorithm = GetParam();
    c.p = 12, c.count = 40, c.seed = base_seed();
    if (std::string_view(c.algorithm->name).starts_with("hierarchical")) c.ranks_per_node = 3;
    Random random(base_seed() ^ 6);
    give_trees(c, random);
    if (!legal(c)) c.p = 16;
    ASSERT_TRUE(legal(c)) << text_of(c);
    uint64_t first = 0, second = 0, other = 0;
    ASSERT_EQ(run_case(c, &first), "");
    ASSERT_EQ(run_case(c, &second), "");
    EXPECT_EQ(first, second);
    c.seed ^= 99;
    ASSERT_EQ(run_case(c, &other), "");
    EXPECT_NE(first, other);
}

// The Builder's promise, without algorithms: any program ends as if executed step by step.
TEST(RandomPrograms, end_as_if_executed_in_order) {
    for (uint64_t i = 0; i < 2000; ++i) ASSERT_EQ(run_random_program(base_seed() + i), "");
}

std::vector<const coll::Algorithm*> all_rows() {
    std::vector<const coll::Algorithm*> rows;
    for (const coll::Algorithm& row : coll::catalog()) rows.push_back(&row);
    return rows;
}

INSTANTIATE_TEST_SUITE_P(catalog, EveryAlgorithm, ::testing::ValuesIn(all_rows()),
                         [](const auto& info) {
                             return std::string(collective_name(info.param->collective)) + "_" +
                                    info.param->name;
                         });

}  // namespace
}  // namespace pomona::property
