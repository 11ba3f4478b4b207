// tests/unit/spin_limit.cc: how long a rank polls before it sleeps (mpi/p2p/spin_limit.h).
// Goal: ranks that wake each other do not go on doing so; parts of what a slow line brings do not
// keep a rank awake. Method: sleeps and looks as they follow each other.
#include "mpi/p2p/spin_limit.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

TEST(SpinLimit, short_sleeps_raise_it_and_long_ones_end_that) {
    SpinLimit limit(50'000);
    EXPECT_EQ(limit.now(), 50'000);
    limit.slept(60'000, true);
    EXPECT_EQ(limit.now(), 200'000);
    for (int i = 0; i < 5; ++i) limit.slept(60'000, true);
    EXPECT_EQ(limit.now(), SpinLimit::kLongest);
    limit.slept(50'000, false);  // nobody woke it
    EXPECT_EQ(limit.now(), 50'000);
    limit.slept(60'000, true);
    limit.slept(SpinLimit::kShortSleep + 1, true);
    EXPECT_EQ(limit.now(), 50'000);
    SpinLimit never(0), longer(5'000'000);
    never.slept(1'000, true);
    EXPECT_EQ(never.now(), 0);
    longer.slept(1'000, true);
    EXPECT_EQ(longer.now(), 5'000'000);
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
