// stats.cc: percentiles by nearest rank, means, and the number of samples a time budget allows.
#include "stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pomona::bench {

Summary summarize(std::vector<double> samples) {
    Summary out;
    if (samples.empty()) return out;
    std::sort(samples.begin(), samples.end());
    out.samples = samples.size();
    out.min = samples.front();
    out.max = samples.back();
    out.p50 = percentile(samples, 50);
    out.p99 = percentile(samples, 99);
    out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / double(samples.size());
    return out;
}

double percentile(const std::vector<double>& sorted, double percent) {
    if (sorted.empty()) return 0;
    double rank = std::ceil(percent / 100.0 * double(sorted.size()));
    size_t index = rank < 1 ? 0 : size_t(rank) - 1;
    return sorted[std::min(index, sorted.size() - 1)];
}

double geometric_mean(const std::vector<double>& values) {
    double logs = 0;
    size_t count = 0;
    for (double value : values) {
        if (value <= 0) continue;
        logs += std::log(value);
        ++count;
    }
    return count ? std::exp(logs / double(count)) : 0;
}

size_t samples_for(double seconds, double seconds_each, size_t fewest, size_t most) {
    if (seconds_each <= 0) return most;
    double fit = seconds / seconds_each;
    if (fit <= double(fewest)) return fewest;
    return fit >= double(most) ? most : size_t(fit);
}

}  // namespace pomona::bench
