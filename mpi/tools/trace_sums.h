// mpi/tools/trace_sums.h: what `pomona trace` adds up of a trace's events.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pomona {

struct CallSum {
    uint64_t count = 0;
    double time = 0, longest = 0;  // microseconds
    void add(double duration) {
        ++count;
        time += duration;
        longest = std::max(longest, duration);
    }
};
struct RankSum {
    double in_mpi = 0, first = 0, last = 0;
    std::map<int64_t, double> until;  // by thread: calls inside calls count once
};
struct PairSum {
    uint64_t messages = 0;
    double bytes = 0;
};
struct WaitKey {
    int waiter, awaited;
    std::string why;
    auto operator<=>(const WaitKey&) const = default;
};

// A call that had not returned when the job ended.
struct OpenCall {
    int rank = 0;
    std::string name, kind, comm;  // comm "": of none
    double begin = 0;
    int peer = -1, tag = 0;  // of messages; peer -1: any, or none
    double bytes = 0;
};

struct TraceSums {
    std::map<std::string, CallSum> calls;
    std::map<int, RankSum> ranks;
    std::map<WaitKey, CallSum> waits;
    std::map<std::pair<int, int>, PairSum> pairs;
    std::vector<OpenCall> open;            // by rank
    std::map<std::string, int64_t> flaws;  // of the trace itself

    // A mistake as text, or "".
    std::string read(const std::string& file);
    double length() const;  // of the job
    double whole() const { return length() * static_cast<double>(ranks.size()); }
};

}  // namespace pomona
