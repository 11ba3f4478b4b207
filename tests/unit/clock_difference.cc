// tests/unit/clock_difference.cc: times of another machine's clock, by this one's.
#include "torch_glue/clock_difference.h"

#include <gtest/gtest.h>

namespace pomona::glue {
namespace {

TEST(ClockDifference, OneComparisonCountsForever) {
    ClockDifference clock;
    EXPECT_FALSE(clock.known());
    clock.add(1000, -400);
    EXPECT_TRUE(clock.known());
    EXPECT_EQ(clock.compared_at(), 1000);
    EXPECT_EQ(clock.here(-399), 1);
    EXPECT_EQ(clock.here(600), 1000);
    EXPECT_EQ(clock.here(5'000'000), 5'000'400);
}

// The other clock gains 20 ppm, which is 72 ms in an hour.
TEST(ClockDifference, ClocksRunApartEvenlyBetweenComparisons) {
    constexpr int64_t kHour = 3'600'000'000'000, kAhead = 5'000'000'000'000;
    const auto there = [](int64_t here) { return here + kAhead + here / 50'000; };
    ClockDifference clock;
    for (int64_t at : {int64_t{0}, kHour, 2 * kHour, 4 * kHour}) clock.add(at, there(at) - at);
    for (int64_t at = 0; at <= 4 * kHour; at += kHour / 7)
        EXPECT_NEAR(static_cast<double>(clock.here(there(at)) - at), 0, 2000) << at;
    // Not guessed: what is not between two of them.
    EXPECT_EQ(clock.here(there(5 * kHour)) - 5 * kHour, kHour / 50'000);
}

TEST(ClockDifference, TheOldestComparisonsAreDropped) {
    ClockDifference clock;
    clock.add(0, 1'000'000);
    for (size_t i = 1; i <= ClockDifference::kMost; ++i) clock.add(static_cast<int64_t>(i), 7);
    EXPECT_EQ(clock.here(7), 0);
}

}  // namespace
}  // namespace pomona::glue
