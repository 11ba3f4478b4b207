// pmix/link_learning.h: what a job has seen of the lines between its hosts, and how that mends the
// history of links (link_history.h).
// Idea: a rank counts what its links carry while more waits (btl/base/line_seen.h), and tells the
// last of these times before it goes. mpirun adds up what all ranks of one host carried to another
// one at the same time: several share a line, and their clock is one. What that reached, for some
// MiB, is what the line has carried.
// A line can do what it did; whether it could have done more no job can know: others may use it, or
// a receiver may compute instead of reading. So each figure of a job is a bound from below. One
// that is clearly higher than what is kept replaces it at once, also where that was measured. One
// that is clearly lower is kept as a doubt, and replaces it when a job that began later has seen so
// little, too: two jobs at once may have been in each other's way. Then the higher of the two
// counts. Whoever sees about what is kept, or more, ends the doubt, as does a measurement. What is
// wrong all the same is a figure that is too low, and the first job that does better mends it.
// Latency is the pair's own, unless the job saw quite another one and the rate has changed, too.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/line_seen.h"
#include "pmix/link_history.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pomona {

// What one rank has seen of the line to another host.
struct LineTold {
    int peer = 0;                // a rank there
    Nanoseconds round_trip = 0;  // the shortest; 0: not known
    Nanoseconds expected = 0;    // one way, as the job reckoned; 0: not known
    std::string by{};            // what messages took
    std::vector<FullTime> times{};
};
// The last lines and times beyond a limit are left out.
void write_lines(Writer& out, const std::vector<LineTold>& lines);
// Nothing where they do not parse.
std::optional<std::vector<LineTold>> read_lines(Reader& from);

// Bytes a nanosecond that all times together reached, for some MiB and some time; 0: too little was
// seen.
double best_rate(const std::vector<FullTime>& times);

// Of all ranks, by the numbers of hosts.
class LinesSeen {
public:
    void add(int from, int to, LineTold told);
    bool empty() const { return ways_.empty(); }
    // One for each pair of which enough was seen, by these names.
    std::vector<LinkMemory> pairs(const std::vector<std::string>& hosts,
                                  const std::string& date) const;

private:
    struct Way {
        std::vector<FullTime> times;
        Nanoseconds latency = 0, expected = 0;  // one way; 0: not known
        std::string by;
    };
    std::map<std::pair<int, int>, Way> ways_;
};

// What a job's figure did to the history.
struct Learnt {
    enum class What { nothing, first, mended, doubted } what = What::nothing;
    double before = 0, now = 0;  // gigabits a second
    bool changed = false;        // the history; it is to be kept
};
// Merges one pair of a job that began at `began` and ends at `now`, in seconds since 1970.
Learnt learn(std::vector<LinkMemory>& memory, LinkMemory seen, int64_t began, int64_t now);
// All of a job, also of many hosts at little cost; what became of each. Sorts the history by pairs.
std::vector<Learnt> learn_all(std::vector<LinkMemory>& memory, const std::vector<LinkMemory>& seen,
                              int64_t began, int64_t now);

}  // namespace pomona
