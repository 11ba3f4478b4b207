// tests/sim/mutants.cc: seeded bugs in the dependency rules that the property tests must catch.
// Reason: in a calm network most schedules come out right without most of their edges; a suite that
// notices nothing when a rule is missing proves nothing. Method: each mutant runs a small version
// of the property tests in a child process, which must end with a failure; the rules as they are,
// not.
#include "tests/property/coll_case.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace pomona::property {
namespace {

// The number of rows of the catalog that compute something wrong under `rules`.
bool caught(const coll::Algorithm& row, coll::HazardRules rules) {
    Random random(base_seed() ^ 7);
    for (int round = 0; round < 12; ++round) {
        Case c;
        c.algorithm = &row;
        c.p = random.between(2, 13);
        c.count = 1 + random.below(40);
        c.in_place = row.collective == Collective::allreduce && random.chance(0.5);
        c.options = {row.uses_segments ? random.between(1, 3) : 1, 2};
        c.ranks_per_node = std::string_view(row.name).starts_with("hierarchical") ? 2 : 0;
        c.ring = random.chance(0.5);
        c.rules = rules;
        c.seed = random.next();
        give_trees(c, random);
        coll::Facts facts(Setup(c).shape(0), coll::Machine::shared_memory(), c.options);
        if (row.legal(facts) && !run_case(c).empty()) return true;
    }
    return false;
}

// In a child process, because a mutant may also run into a check().
int rows_caught(coll::HazardRules rules) {
    int count = 0;
    for (const coll::Algorithm& row : coll::catalog()) {
        std::fflush(nullptr);
        pid_t child = fork();
        if (child == 0) {
            if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
            _exit(caught(row, rules) ? 1 : 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        count += !WIFEXITED(status) || WEXITSTATUS(status) == 1;
    }
    return count;
}

// The same with random programs; the catalog's algorithms do without some of the rules.
int programs_caught(coll::HazardRules rules) {
    std::fflush(nullptr);
    int count = 0;
    for (uint64_t i = 0; i < 100; ++i) {
        pid_t child = fork();
        if (child == 0) {
            if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
            _exit(run_random_program(base_seed() + i, rules).empty() ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        count += !WIFEXITED(status) || WEXITSTATUS(status) == 1;
    }
    return count;
}

TEST(Mutants, the_rules_as_they_are_survive) {
    EXPECT_EQ(rows_caught({}), 0);
    EXPECT_EQ(programs_caught({}), 0);
}

TEST(Mutants, no_read_after_write) {
    coll::HazardRules rules{.read_after_write = false};
    int rows = rows_caught(rules), programs = programs_caught(rules);
    std::printf("caught in %d rows of the catalog and %d of 100 random programs\n", rows, programs);
    EXPECT_GE(rows, 25);
    EXPECT_GE(programs, 10);
}

// In the catalog every write is read before the next one, so programs must show it.
TEST(Mutants, no_write_after_write) {
    coll::HazardRules rules{.write_after_write = false};
    int rows = rows_caught(rules), programs = programs_caught(rules);
    std::printf("caught in %d rows of the catalog and %d of 100 random programs\n", rows, programs);
    EXPECT_GE(rows, 0);
    EXPECT_GE(programs, 10);
}

TEST(Mutants, no_write_after_read) {
    coll::HazardRules rules{.write_after_read = false};
    int rows = rows_caught(rules), programs = programs_caught(rules);
    std::printf("caught in %d rows of the catalog and %d of 100 random programs\n", rows, programs);
    EXPECT_GE(rows, 5);
    EXPECT_GE(programs, 10);
}

TEST(Mutants, overlaps_must_be_exact) {
    coll::HazardRules rules{.partial_overlap = false};
    int rows = rows_caught(rules), programs = programs_caught(rules);
    std::printf("caught in %d rows of the catalog and %d of 100 random programs\n", rows, programs);
    EXPECT_GE(rows, 5);
    EXPECT_GE(programs, 10);
}

TEST(Mutants, slots_in_the_wrong_order) {
    coll::HazardRules rules{.order_slots = false};
    int rows = rows_caught(rules), programs = programs_caught(rules);
    std::printf("caught in %d rows of the catalog and %d of 100 random programs\n", rows, programs);
    EXPECT_GE(rows, 5);
    EXPECT_GE(programs, 10);
}

}  // namespace
}  // namespace pomona::property
