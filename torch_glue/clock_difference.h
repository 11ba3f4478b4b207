// clock_difference.h: how far another machine's clock is ahead of this one's, which changes.
// Idea: it is compared now and then; between two comparisons the clocks are taken to run apart
// evenly, before the first and after the last not at all. All times are nanoseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>

namespace pomona::glue {

class ClockDifference {
public:
    static constexpr size_t kMost = 256;  // comparisons that are kept

    // Later than all before it: `at` by this machine's clock.
    void add(int64_t at, int64_t ahead) {
        seen_.push_back({at, ahead});
        if (seen_.size() > kMost) seen_.pop_front();
    }

    bool known() const { return !seen_.empty(); }
    int64_t compared_at() const {
        return known() ? seen_.back().at : std::numeric_limits<int64_t>::min();
    }

    // A time of that clock, by this one. Needs a comparison.
    int64_t here(int64_t there) const {
        const auto later = std::find_if(seen_.begin(), seen_.end(), [there](const Seen& seen) {
            return seen.there() >= there;
        });
        if (later == seen_.begin()) return there - later->ahead;
        const Seen& earlier = *std::prev(later);
        if (later == seen_.end()) return there - earlier.ahead;
        const double part = static_cast<double>(there - earlier.there()) /
                            static_cast<double>(later->there() - earlier.there());
        return there - earlier.ahead -
               static_cast<int64_t>(part * static_cast<double>(later->ahead - earlier.ahead));
    }

private:
    struct Seen {
        int64_t at, ahead;
        int64_t there() const { return at + ahead; }
    };
    std::deque<Seen> seen_;
};

}  // namespace pomona::glue
