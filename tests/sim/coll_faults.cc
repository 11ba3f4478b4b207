// tests/sim/coll_faults.cc: collectives in bad networks: late, clogged and split ones end right;
// with a dead rank every other one ends once, with an error, or had its whole result already.
#include "coll/catalog.h"
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

namespace pomona::property {
namespace {

class Faulty : public ::testing::TestWithParam<const coll::Algorithm*> {
protected:
    // Runs the row on p ranks; the outcome of each, and whether its result is right.
    void run(int p, sim::Faults faults, uint64_t seed, double rendezvous = 0.3) {
        Case c;
        c.algorithm = GetParam();
        c.p = p, c.count = 33, c.seed = seed;
        c.root = static_cast<int>(seed % p);
        c.ranks_per_node =
            std::string(c.algorithm->limits).find("levels") != std::string::npos ? 3 : 0;
        c.options.segments = c.algorithm->uses_segments ? 2 : 1;
        property::Setup setup(c);
        legal_ = c.algorithm->legal(
            coll::Facts(setup.shape(0), coll::Machine::shared_memory(), c.options));
        if (!legal_) return;
        std::vector<coll::Schedule> schedules;
        std::vector<coll::Binding> bindings;
        for (int r = 0; r < p; ++r) {
            schedules.push_back(build_schedule(*c.algorithm, setup.shape(r), c.options));
            bindings.push_back(setup.binding(r));
        }
        sim::ScheduleOptions options;
        options.ranks = p;
        options.nodes = setup.nodes;
        options.faults = faults;
        options.rendezvous_chance = rendezvous;
        sim::ScheduleWorld world(seed, options);
        outcomes_ = world.run(schedules, bindings);
        time_ = world.makespan();
        right_.clear();
        for (int r = 0; r < p; ++r)
            right_.push_back(std::equal(setup.expected[r].begin(), setup.expected[r].end(),
                                        setup.buffers[r].result.begin()));
    }
    bool legal_ = false;
    sim::Time time_ = 0;
    std::vector<sim::Outcome> outcomes_;
    std::vector<bool> right_;
};

TEST_P(Faulty, slow_clogged_and_split_networks_end_right) {
    Random random(base_seed());
    for (int round = 0; round < 10; ++round) {
        int p = random.between(2, 16);
        sim::Faults faults;
        faults.jitter_ns = 5e4 * random.unit();
        faults.slow_rank = static_cast<int>(random.below(p));
        faults.clogged_from = static_cast<int>(random.below(p));
        faults.clogged_to = static_cast<int>(random.below(p));
        faults.clogged_until = 1e6;
        faults.partition_below = static_cast<int>(random.below(p));
        faults.partition_until = 2e6;
        run(p, faults, random.next());
        for (size_t r = 0; r < outcomes_.size() && legal_; ++r) {
            ASSERT_TRUE(outcomes_[r].done) << "rank " << r << " POMONA_SEED=" << base_seed();
            ASSERT_FALSE(outcomes_[r].error) << "rank " << r << " POMONA_SEED=" << base_seed();
            ASSERT_TRUE(right_[r]) << "rank " << r << " POMONA_SEED=" << base_seed();
        }
    }
}

// Nobody hangs, nobody is told twice, and who is told of success has the right result.
TEST_P(Faulty, a_dead_rank_ends_the_others) {
    Random random(base_seed() ^ 0xdead);
    int failed = 0;
    for (int round = 0; round < 30; ++round) {
        int p = random.between(2, 12);
        sim::Faults faults;
        faults.dead_rank = static_cast<int>(random.below(p));
        faults.dead_at = 2e4 * random.unit() * random.unit();
        faults.jitter_ns = 1e3 * random.unit();
        run(p, faults, random.next(), random.unit());
        if (!legal_) continue;
        for (int r = 0; r < p; ++r) {
            if (r == faults.dead_rank) continue;
            ASSERT_EQ(outcomes_[r].completions, 1)
                << "rank " << r << " of " << p << ", dead " << faults.dead_rank << " at "
                << faults.dead_at << " POMONA_SEED=" << base_seed();
            failed += outcomes_[r].error.has_value();
            if (!outcomes_[r].error) {
                ASSERT_TRUE(right_[r]) << "rank " << r << " POMONA_SEED=" << base_seed();
            }
        }
    }
    EXPECT_GT(failed, 0);
}

std::vector<const coll::Algorithm*> all_rows() {
    std::vector<const coll::Algorithm*> rows;
    for (const coll::Algorithm& row : coll::catalog()) rows.push_back(&row);
    return rows;
}

INSTANTIATE_TEST_SUITE_P(catalog, Faulty, ::testing::ValuesIn(all_rows()), [](const auto& info) {
    return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

}  // namespace
}  // namespace pomona::property
