// stats.h: what a list of timings says: percentiles, mean, spread, and geometric means of ratios.
// Idea: pure functions of numbers, no MPI and no clock, so that unit tests hold them to hand-made
// values. Percentiles are by nearest rank (the smallest sample with at least q % of all at or
// below it): a p99 is always a time that really occurred.
#pragma once

#include <cstddef>
#include <vector>

namespace pomona::bench {

struct Summary {
    size_t samples = 0;
    double min = 0, p50 = 0, p99 = 0, max = 0, mean = 0;
};

Summary summarize(std::vector<double> samples);
double percentile(const std::vector<double>& sorted, double percent);
double geometric_mean(const std::vector<double>& values);

// How many samples of `seconds_each` fit into `seconds`, kept between the two limits.
size_t samples_for(double seconds, double seconds_each, size_t fewest, size_t most);

}  // namespace pomona::bench
