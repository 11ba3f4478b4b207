// tests/trace/clocks_test.cc: times of several hosts on one clock.
// Goal: offset and drift of a simulated clock are undone to the error that the round trips allow.
// Method: a clock that runs 20 millionths too fast from another zero, compared at both ends of a
// job of an hour.
#include "mpi/trace/clocks.h"

#include <gtest/gtest.h>

using namespace pomona::trace;

namespace {

constexpr int64_t kZero = 5'000'000'000'000, kHour = 3'600'000'000'000;
int64_t there(int64_t time) { return kZero + time + time / 50'000; }

ClockPoint compare(int64_t time) {
    ClockPoint point{0, 0, 0};
    // The quickest round is the third: 10 us there and 10 us back; others are unequal.
    for (int64_t way : {90'000, 40'000, 10'000, 70'000}) {
        int64_t back = way == 10'000 ? way : way / 3;
        improve(point, {time, time + way + back, there(time + way)});
        time += 1'000'000;
    }
    return point;
}

}  // namespace

TEST(trace_clocks, offset_and_drift_are_undone) {
    PartHeader part{};
    part.clock[0] = compare(0);
    part.clock[1] = compare(kHour);
    part.points = 2;
    EXPECT_EQ(part.clock[0].error, 10'000);
    for (int64_t time : {int64_t{0}, kHour / 3, kHour / 2, kHour})
        EXPECT_NEAR(static_cast<double>(aligned(part, there(time))), static_cast<double>(time),
                    1000);
}

TEST(trace_clocks, without_the_end_the_offset_of_the_beginning_counts) {
    PartHeader part{};
    part.clock[0] = compare(0);
    part.points = 1;
    EXPECT_NEAR(static_cast<double>(aligned(part, there(1'000'000'000))), 1e9, 21'000);
}
