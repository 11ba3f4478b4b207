// tests/unit/spin_limit.cc: how long a rank polls before it sleeps (mpi/p2p/spin_limit.h).
// Goal: ranks that wake each other do not go on doing so; parts of what a slow line brings do not
// keep a rank awake. Method: sleeps and looks as they follow each other.
#include "mpi/p2p/spin_limit.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

TEST(SpinLimit, short_sleeps_raise_it_and_long_ones_end_that) {
    SpinLimit limit(50'000);
    EXPECT_EQ(limit.limit(), 50'000);
    limit.slept(60'000, true, 1'000'000);
    EXPECT_EQ(limit.limit(), 200'000);
    for (int i = 2; i < 5; ++i) limit.slept(60'000, true, i * 1'000'000);
    EXPECT_EQ(limit.limit(), SpinLimit::kLongest);
    limit.slept(50'000, false, 6'000'000);  // nobody woke it
    EXPECT_EQ(limit.limit(), 50'000);
    limit.slept(60'000, true, 7'000'000);
    limit.slept(SpinLimit::kShortSleep + 1, true, 8'000'000);
    EXPECT_EQ(limit.limit(), 50'000);
    SpinLimit never(0), longer(5'000'000);
    never.slept(1'000, true, 1'000'000);
    EXPECT_EQ(never.limit(), 0);
    for (int i = 1; i < 9; ++i) longer.slept(1'000, true, i * 1'000'000);
    EXPECT_EQ(longer.limit(), 5'000'000);
}

TEST(SpinLimit, seldom_sleeps_leave_it_raised) {
    SpinLimit limit(50'000);
    Nanoseconds now = 0;
    for (int i = 0; i < 100; ++i) limit.slept(60'000, true, now += SpinLimit::kClosely);
    EXPECT_EQ(limit.limit(), SpinLimit::kLongest);
}

// Each answers once the other one, on the same core, has gone to sleep. It sleeps for as long as
// that one polls.
TEST(SpinLimit, is_as_usual_where_two_share_a_core) {
    constexpr Nanoseconds usual = 50'000;
    constexpr int rounds = 20'000;
    SpinLimit limits[2] = {SpinLimit(usual), SpinLimit(usual)};
    Nanoseconds asleep[2] = {0, 0}, now = 1;
    for (int i = 0; i < rounds; ++i) {
        const int running = i % 2, other = 1 - running;
        asleep[running] = now += limits[running].limit();
        limits[other].slept(now - asleep[other], true, now);
    }
    EXPECT_LT(now, rounds * usual * 5 / 4);
}

TEST(Idleness, sums_up_what_passes_between_parts) {
    Idleness idleness;
    EXPECT_EQ(idleness.at(1'000), 0);
    EXPECT_EQ(idleness.at(31'000), 30'000);
    idleness.interrupt();
    idleness.interrupt();
    EXPECT_EQ(idleness.at(90'000), 30'000);  // not the time that the part took
    EXPECT_EQ(idleness.at(110'000), 50'000);
    EXPECT_EQ(Idleness(5'000).at(9'000), 4'000);
}

}  // namespace
}  // namespace pomona
