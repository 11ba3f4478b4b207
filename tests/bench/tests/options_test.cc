// options_test.cc: sizes and ranges as users write them, right ones and wrong ones.
#include "../options.h"

#include <gtest/gtest.h>

namespace pomona::bench {
namespace {

TEST(Sizes, UnitsArePowersOfTwo) {
    EXPECT_EQ(parse_size("0"), 0u);
    EXPECT_EQ(parse_size("8"), 8u);
    EXPECT_EQ(parse_size("8B"), 8u);
    EXPECT_EQ(parse_size("64K"), 65536u);
    EXPECT_EQ(parse_size("64k"), 65536u);
    EXPECT_EQ(parse_size("16MiB"), size_t(16) << 20);
    EXPECT_EQ(parse_size("2GB"), size_t(2) << 30);
}

TEST(Sizes, NonsenseIsRefused) {
    for (const char* text : {"", "K", "-1", "1.5K", "8X", "8KK", "8 K", "8BB", "0x10",
                             "18446744073709551616", "18446744073709551615K"})
        EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Sizes, Ranges) {
    auto range = parse_range("8:16M");
    ASSERT_TRUE(range);
    EXPECT_EQ(range->first, 8u);
    EXPECT_EQ(range->last, size_t(16) << 20);
    EXPECT_EQ(parse_range("1K")->last, 1024u);
    EXPECT_FALSE(parse_range("16:8"));
    EXPECT_FALSE(parse_range(":8"));
    EXPECT_FALSE(parse_range("8:"));
}

TEST(Sizes, StepsStayInTheRange) {
    EXPECT_EQ(sizes_of({0, 8}, 2), (std::vector<size_t>{0, 1, 2, 4, 8}));
    EXPECT_EQ(sizes_of({8, 100}, 4), (std::vector<size_t>{8, 32}));
    EXPECT_EQ(sizes_of({5, 5}, 2), (std::vector<size_t>{5}));
}

TEST(Sizes, AreShownWithoutRounding) {
    EXPECT_EQ(show_size(0), "0 B");
    EXPECT_EQ(show_size(1000), "1000 B");
    EXPECT_EQ(show_size(65536), "64 KiB");
    EXPECT_EQ(show_size(size_t(3) << 20), "3 MiB");
    EXPECT_EQ(show_size((1 << 20) + 1), "1048577 B");
}

}  // namespace
}  // namespace pomona::bench
