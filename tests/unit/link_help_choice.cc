// tests/unit/link_help_choice.cc: whether standing paths help those that ride on them, by what was
// measured.
#include "btl/link/help_choice.h"

#include <gtest/gtest.h>

namespace pomona::link {
namespace {

constexpr size_t kLong = 4 << 20;

// How many of so many payloads they help with, where a byte takes so long.
int helped(HelpChoice& choice, int payloads, double alone, double together) {
    int out = 0;
    for (int i = 0; i < payloads; ++i) {
        bool help = choice.help(kLong);
        out += help;
        choice.took(help, kLong, static_cast<Nanoseconds>((help ? together : alone) * kLong));
    }
    return out;
}

TEST(HelpChoice, shorter_payloads_get_none) {
    HelpChoice choice;
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(choice.help(HelpChoice::kLeast - 1));
}

TEST(HelpChoice, the_quicker_way_is_taken_and_the_other_tried_now_and_then) {
    HelpChoice better, worse, alike;
    int all = helped(better, 1000, 1, 0.8);
    EXPECT_GT(all, 960);
    EXPECT_LT(all, 1000);
    int none = helped(worse, 1000, 1, 1.2);
    EXPECT_GT(none, 0);
    EXPECT_LT(none, 40);
    EXPECT_LT(helped(alike, 1000, 1, 0.99), 40) << "for so little nobody else's line is used";
}

TEST(HelpChoice, what_changes_is_noticed) {
    HelpChoice choice;
    helped(choice, 200, 1, 1.5);
    EXPECT_LT(helped(choice, 200, 1, 1.5), 20);
    helped(choice, 1000, 1, 0.5);
    EXPECT_GT(helped(choice, 200, 1, 0.5), 180);
}

}  // namespace
}  // namespace pomona::link
