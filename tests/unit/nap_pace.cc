// tests/unit/nap_pace.cc: how often a sleeping rank wakes for a moment (btl/base/nap_pace.h).
// Goal: naps of any cost take about a hundredth of a core, and cheap ones are as frequent as was
// asked.
// Method: reckoned time, no clock.
#include "btl/base/nap_pace.h"

#include <gtest/gtest.h>
#include <random>

namespace pomona {
namespace {

constexpr Nanoseconds kLeast = 1'000'000;

TEST(NapPace, cheap_naps_are_as_far_apart_as_was_asked) {
    NapPace pace;
    EXPECT_EQ(pace.next(kLeast), kLeast);
    for (int i = 0; i < 100; ++i) pace.took(9'000);
    EXPECT_EQ(pace.next(kLeast), kLeast);
}

TEST(NapPace, all_naps_together_take_a_hundredth_of_a_core) {
    std::mt19937 random(5);
    for (Nanoseconds usual : {5'000, 40'000, 300'000, 5'000'000}) {
        NapPace pace;
        Nanoseconds all = 0, busy = 0;
        while (all < 10'000'000'000) {
            all += pace.next(kLeast);
            Nanoseconds cost = usual / 2 + static_cast<Nanoseconds>(random()) % usual;
            busy += cost;
            pace.took(cost);
        }
        EXPECT_LE(busy, all / 100) << usual;
    }
}

TEST(NapPace, one_dear_nap_is_forgotten) {
    NapPace pace;
    pace.took(2'000'000);
    EXPECT_EQ(pace.next(kLeast), 200'000'000);
    for (int i = 0; i < 200; ++i) pace.took(5'000);
    EXPECT_EQ(pace.next(kLeast), kLeast);
}

}  // namespace
}  // namespace pomona
