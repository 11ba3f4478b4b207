// stats_test.cc: percentiles, means and sample counts against values worked out by hand.
#include "../stats.h"

#include <gtest/gtest.h>

namespace pomona::bench {
namespace {

TEST(Stats, PercentilesAreSamplesByNearestRank) {
    std::vector<double> hundred;
    for (int i = 1; i <= 100; ++i) hundred.push_back(i);
    EXPECT_EQ(percentile(hundred, 50), 50);
    EXPECT_EQ(percentile(hundred, 99), 99);
    EXPECT_EQ(percentile(hundred, 100), 100);
    EXPECT_EQ(percentile(hundred, 0), 1);
    EXPECT_EQ(percentile({15, 20, 35, 40, 50}, 30), 20);
    EXPECT_EQ(percentile({15, 20, 35, 40, 50}, 99), 50);
    EXPECT_EQ(percentile({7}, 1), 7);
    EXPECT_EQ(percentile({}, 50), 0);
}

TEST(Stats, SummaryDoesNotNeedSortedSamples) {
    Summary s = summarize({5, 1, 4, 2, 3});
    EXPECT_EQ(s.samples, 5u);
    EXPECT_EQ(s.min, 1);
    EXPECT_EQ(s.p50, 3);
    EXPECT_EQ(s.p99, 5);
    EXPECT_EQ(s.max, 5);
    EXPECT_EQ(s.mean, 3);
    EXPECT_EQ(summarize({}).samples, 0u);
}

TEST(Stats, OneOutlierMovesTheMeanNotTheMedian) {
    std::vector<double> samples(99, 1.0);
    samples.push_back(1000);
    Summary s = summarize(samples);
    EXPECT_EQ(s.p50, 1);
    EXPECT_EQ(s.p99, 1);
    EXPECT_GT(s.mean, 10);
}

TEST(Stats, GeometricMeanOfRatios) {
    EXPECT_DOUBLE_EQ(geometric_mean({2, 0.5}), 1);
    EXPECT_DOUBLE_EQ(geometric_mean({4, 9}), 6);
    EXPECT_EQ(geometric_mean({}), 0);
}

TEST(Stats, SampleCountKeepsItsLimits) {
    EXPECT_EQ(samples_for(1.0, 0.01, 10, 1000), 100u);
    EXPECT_EQ(samples_for(1.0, 10, 10, 1000), 10u);
    EXPECT_EQ(samples_for(1.0, 1e-9, 10, 1000), 1000u);
    EXPECT_EQ(samples_for(1.0, 0, 10, 1000), 1000u);
}

}  // namespace
}  // namespace pomona::bench
