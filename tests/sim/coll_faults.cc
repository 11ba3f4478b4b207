// tests/sim/coll_faults.cc: collectives in bad networks: late, clogged and split ones end right;
// with a dead rank every other one ends once, with an error, or had its whole result already. The
// same with nobody but the watches (coll/watch.h) to pass it on, and for members whose calls do not
// meet.
#include "coll/catalog.h"
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

namespace pomona::property {
namespace {

// A device that reduces later than asked, in virtual time, and may fail in one of its reductions.
struct Device : coll::Reducer {
    explicit Device(const coll::Reducer& cpu) : Reducer(cpu), cpu(&cpu) {
        begin = [](const coll::Reducer* self, void* out, const void* left, const void* right,
                   size_t count, coll::Completion& done) {
            return const_cast<Device*>(static_cast<const Device*>(self))
                ->start({nullptr, out, left, right, count, &done});
        };
    }
    struct Work {
        Device* device;
        void* out;
        const void *left, *right;
        size_t count;
        coll::Completion* done;
    };
    bool start(Work work) {
        if (refuses > 0 && started % refuses == 0) return ++started, false;
        work.device = this;
        works.push_back(work);
        world->at(
            world->now() + 3e4 * world->random().unit(),
            [](void* context, uint64_t) {
                auto& own = *static_cast<Work*>(context);
                own.device->end(own);
            },
            &works.back(), static_cast<uint64_t>(started));
        ++started;
        return true;
    }
    void end(const Work& work) {
        bool in_place = work.out == work.left || work.out == work.right;
        if (ended++ == fails_at) {
            lost = in_place;
            std::memset(work.out, 0xa5, work.count * element);
            Error error{Code::data_lost, "The simulated device failed", -1, 0};
            return work.done->function(work.done, &error);
        }
        if (work.out == work.right) cpu->into(cpu, work.out, work.left, work.count);
        else cpu->to(cpu, work.out, work.left, work.right, work.count);
        work.done->function(work.done, nullptr);
    }

    const coll::Reducer* cpu;
    sim::World* world = nullptr;
    std::deque<Work> works;
    size_t element = 8;
    int started = 0, ended = 0;
    int refuses = 0;    // every so many-th
    int fails_at = -1;  // which of its reductions
    bool lost = false;  // failed, and an operand was overwritten
};

class Faulty : public ::testing::TestWithParam<const coll::Algorithm*> {
protected:
    // Runs the row on p ranks; the outcome of each, and whether its result is right.
    void run(int p, sim::Faults faults, uint64_t seed, double rendezvous = 0.3,
             int failing_device = -1) {
        Case c;
        c.algorithm = GetParam();
        c.p = p, c.count = 33, c.seed = seed;
        c.root = static_cast<int>(seed % p);
        c.ranks_per_node = std::string_view(c.algorithm->name).starts_with("hierarchical") ? 3 : 0;
        c.options.segments = c.algorithm->uses_segments ? 2 : 1;
        Random trees(seed);
        property::give_trees(c, trees);
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
        options.revokes = !with_devices_;
        sim::ScheduleWorld world(seed, options);
        devices_.assign(with_devices_ ? static_cast<size_t>(p) : 0, Device(setup.reducer));
        for (int r = 0; r < p && with_devices_; ++r) {
            Device& device = devices_[static_cast<size_t>(r)];
            device.world = &world.world();
            device.refuses = r % 3 ? 0 : 4;
            if (r == failing_device) device.fails_at = static_cast<int>(seed % 3);
            bindings[static_cast<size_t>(r)].reducer = &device;
        }
        outcomes_ = world.run(schedules, bindings);
        time_ = world.makespan();
        right_.clear();
        for (int r = 0; r < p; ++r)
            right_.push_back(std::equal(setup.expected[r].begin(), setup.expected[r].end(),
                                        setup.buffers[r].result.begin()));
    }
    bool with_devices_ = false;
    std::vector<Device> devices_;
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
        if (round % 3 == 0) faults.dead_at = 0;  // before it has posted anything
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

// Reductions by devices that take their time end right; when one fails, nobody hangs, who is told
// of success has the right result, and where no operand was lost there is no error at all.
TEST_P(Faulty, devices_reduce_and_one_fails) {
    Random random(base_seed() ^ 0xde71ce);
    with_devices_ = true;
    int lost = 0, told = 0, reduced = 0, runs = 0;
    for (int round = 0; round < 40; ++round) {
        int p = random.between(2, 12);
        sim::Faults faults;
        faults.jitter_ns = 2e4 * random.unit();
        int failing = round % 4 == 0 ? -1 : static_cast<int>(random.below(p));
        run(p, faults, random.next(), random.unit(), failing);
        if (!legal_) continue;
        ++runs;
        bool any_lost = false;
        for (const Device& device : devices_) any_lost |= device.lost, reduced += device.ended;
        lost += any_lost;
        for (int r = 0; r < p; ++r) {
            ASSERT_EQ(outcomes_[r].completions, 1)
                << "rank " << r << " of " << p << " POMONA_SEED=" << base_seed();
            if (!outcomes_[r].error) {
                ASSERT_TRUE(right_[r]) << "rank " << r << " POMONA_SEED=" << base_seed();
                ASSERT_FALSE(devices_[r].lost);
                continue;
            }
            ++told;
            ASSERT_TRUE(any_lost) << "rank " << r << " POMONA_SEED=" << base_seed();
            ASSERT_EQ(outcomes_[r].error->code, Code::data_lost);
        }
    }
    EXPECT_GE(told, lost);
    coll::Collective kind = GetParam()->collective;
    bool reduces = kind == coll::Collective::reduce || kind == coll::Collective::allreduce ||
                   kind == coll::Collective::reduce_scatter || kind == coll::Collective::scan ||
                   kind == coll::Collective::exscan;
    EXPECT_EQ(reduced > 0, reduces && runs > 0) << "no reduction went to a device";
}

// ---- watched collectives (coll/watch.h), which go by messages

class Watched : public ::testing::TestWithParam<const coll::Algorithm*> {
protected:
    // One setup for each rank; they may differ.
    void run(std::vector<Case> cases, sim::ScheduleOptions options, uint64_t seed) {
        int p = static_cast<int>(cases.size());
        std::vector<std::unique_ptr<property::Setup>> setups;
        std::vector<coll::Schedule> schedules;
        std::vector<coll::Binding> bindings;
        legal_ = true;
        for (int r = 0; r < p; ++r) {
            const Case& c = cases[static_cast<size_t>(r)];
            setups.push_back(std::make_unique<property::Setup>(c));
            coll::Shape shape = setups.back()->shape(r);
            coll::Facts facts(shape, coll::Machine::shared_memory(), c.options);
            legal_ = legal_ && c.algorithm->legal(facts);
            if (!legal_) return;
            schedules.push_back(build_schedule(*c.algorithm, shape, c.options));
            legal_ = legal_ && !schedules.back().uses_board();
            if (!legal_) return;
            bindings.push_back(setups.back()->binding(r));
            options.calls.push_back(coll::Call::of(schedules.back(), shape));
        }
        options.ranks = p;
        options.revokes = false;
        sim::ScheduleWorld world(seed, options);
        outcomes_ = world.run(schedules, bindings);
        notes_ = world.notes();
        texts_.clear();
        for (const sim::Outcome& each : outcomes_)
            texts_.emplace_back(each.error ? each.error->what : "");
        right_.clear();
        for (size_t r = 0; r < cases.size(); ++r)
            right_.push_back(std::equal(setups[r]->expected[r].begin(),
                                        setups[r]->expected[r].end(),
                                        setups[r]->buffers[r].result.begin()));
    }
    Case make(int p, uint64_t seed, const coll::Algorithm* algorithm = GetParam()) const {
        Case c;
        c.algorithm = algorithm;
        c.p = p, c.count = 33, c.seed = seed;
        c.root = static_cast<int>(seed % static_cast<uint64_t>(p));
        c.options.segments = algorithm->uses_segments ? 2 : 1;
        return c;
    }
    bool legal_ = false;
    uint64_t notes_ = 0;
    std::vector<sim::Outcome> outcomes_;
    std::vector<std::string> texts_;  // of their errors
    std::vector<bool> right_;
};

// A member that comes late, or networks that are slow, end nothing; nobody is asked in the first
// 100 ms.
TEST_P(Watched, slow_members_are_waited_for) {
    Random random(base_seed() ^ 0x510);
    for (int round = 0; round < 10; ++round) {
        int p = random.between(2, 12);
        sim::ScheduleOptions options;
        options.faults.jitter_ns = 5e4 * random.unit();
        options.rendezvous_chance = random.unit();
        options.late_rank = static_cast<int>(random.below(p));
        options.late_ns = round % 2 ? 9e7 * random.unit() : 1e8 + 3e9 * random.unit();
        run(std::vector<Case>(static_cast<size_t>(p), make(p, random.next())), options,
            random.next());
        if (!legal_) continue;
        if (round % 2) { EXPECT_EQ(notes_, 0u) << " POMONA_SEED=" << base_seed(); }
        for (size_t r = 0; r < outcomes_.size(); ++r) {
            ASSERT_EQ(outcomes_[r].completions, 1)
                << "rank " << r << " POMONA_SEED=" << base_seed();
            ASSERT_FALSE(outcomes_[r].error)
                << outcomes_[r].error->what << " rank " << r << " POMONA_SEED=" << base_seed();
            ASSERT_TRUE(right_[r]) << "rank " << r << " POMONA_SEED=" << base_seed();
        }
    }
}

// One member calls another function, or with another length or root: nobody hangs, and every error
// names two calls. Members of the same call that all members must come to all get an error.
TEST_P(Watched, members_that_do_not_meet_are_told) {
    Random random(base_seed() ^ 0x3157);
    auto rows = coll::catalog();
    for (int round = 0; round < 60; ++round) {
        int p = random.between(2, 9);
        uint64_t seed = random.next();
        Case own = make(p, seed);
        std::vector<Case> cases(static_cast<size_t>(p), own);
        size_t other = random.below(p);
        if (round % 3 == 0) cases[other].count = 1 + random.below(5000);
        else if (round % 3 == 1) cases[other].root = (own.root + 1) % p;
        else cases[other] = make(p, seed, &rows[random.below(rows.size())]);
        sim::ScheduleOptions options;
        options.faults.jitter_ns = 1e4 * random.unit();
        options.rendezvous_chance = random.unit();
        options.start_spread_ns = round % 2 ? 1e3 : 3e8;
        run(cases, options, random.next());
        if (!legal_) continue;
        bool other_function = cases[other].algorithm->collective != own.algorithm->collective;
        coll::Collective kind = own.algorithm->collective;
        bool needs_all = kind == coll::Collective::allreduce ||
                         kind == coll::Collective::allgather ||
                         kind == coll::Collective::reduce_scatter ||
                         kind == coll::Collective::alltoall || kind == coll::Collective::barrier;
        for (size_t r = 0; r < cases.size(); ++r) {
            ASSERT_EQ(outcomes_[r].completions, 1)
                << "rank " << r << " of " << p << ", unlike " << other << ", round " << round
                << ", " << text_of(cases[other]) << " POMONA_SEED=" << base_seed();
            if (other_function && needs_all && r != other) {
                ASSERT_TRUE(outcomes_[r].error) << "rank " << r << " POMONA_SEED=" << base_seed();
            }
            if (!outcomes_[r].error) continue;
            const std::string& what = texts_[r];
            ASSERT_NE(what.find(" called "), std::string::npos)
                << what << " POMONA_SEED=" << base_seed();
            if (other_function) {
                EXPECT_NE(what.find(cases[other].algorithm->name), std::string::npos) << what;
                EXPECT_NE(what.find(own.algorithm->name), std::string::npos) << what;
            }
        }
    }
}

// Without anybody who tells all: the death of one, or a failure of its own, is passed on.
TEST_P(Watched, what_ends_one_ends_all) {
    Random random(base_seed() ^ 0xe4d);
    int failed = 0;
    for (int round = 0; round < 40; ++round) {
        int p = random.between(2, 12);
        int victim = static_cast<int>(random.below(p));
        double when = round % 4 == 0 ? 0 : 2e4 * random.unit() * random.unit();
        sim::ScheduleOptions options;
        options.faults.jitter_ns = 1e3 * random.unit();
        options.rendezvous_chance = random.unit();
        bool dies = round % 2 == 0;
        if (dies) options.faults.dead_rank = victim, options.faults.dead_at = when;
        else options.failing_rank = victim, options.failing_at = when;
        run(std::vector<Case>(static_cast<size_t>(p), make(p, random.next())), options,
            random.next());
        if (!legal_) continue;
        for (int r = 0; r < p; ++r) {
            if (dies && r == victim) continue;
            const sim::Outcome& outcome = outcomes_[static_cast<size_t>(r)];
            ASSERT_EQ(outcome.completions, 1)
                << "rank " << r << " of " << p << ", victim " << victim << " at " << when
                << ", dies " << dies << " POMONA_SEED=" << base_seed();
            failed += outcome.error.has_value();
            if (!outcome.error) {
                ASSERT_TRUE(right_[static_cast<size_t>(r)])
                    << "rank " << r << " POMONA_SEED=" << base_seed();
            }
        }
    }
    if (legal_) { EXPECT_GT(failed, 0); }
}

std::vector<const coll::Algorithm*> all_rows() {
    std::vector<const coll::Algorithm*> rows;
    for (const coll::Algorithm& row : coll::catalog()) rows.push_back(&row);
    return rows;
}

INSTANTIATE_TEST_SUITE_P(catalog, Watched, ::testing::ValuesIn(all_rows()), [](const auto& info) {
    return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

INSTANTIATE_TEST_SUITE_P(catalog, Faulty, ::testing::ValuesIn(all_rows()), [](const auto& info) {
    return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

}  // namespace
}  // namespace pomona::property
