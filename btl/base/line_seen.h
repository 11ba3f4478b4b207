// btl/base/line_seen.h: when a way carried how much, while more waited for it all the time.
// Idea: what an Intake finds out in passing, gathered to times that are long enough to be compared:
// a job tells the last of them at its end, for later jobs to reckon with (pmix/link_learning.h). A
// time ends where nothing waited any more, so in each of them the way was full from beginning to
// end; what is too short to say much is forgotten. Nothing is kept of ways that are never full.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pomona {

// From `begin` to `end`, by the clock of the machine, these bytes were carried.
struct FullTime {
    Nanoseconds begin = 0, end = 0;
    uint64_t bytes = 0;
};

class LineSeen {
public:
    void carried(Nanoseconds begin, Nanoseconds end, size_t bytes) {
        if (begin != now_.end) {
            keep_if_long();
            now_ = {begin, begin, 0};
        }
        now_.end = end;
        now_.bytes += bytes;
        if (now_.bytes < kBytes || now_.end - now_.begin < kTime) return;
        keep_if_long();
        now_ = {end, end, 0};
    }
    // The last ones, in order.
    std::vector<FullTime> times() const {
        std::vector<FullTime> out(kept_);
        auto oldest = static_cast<ptrdiff_t>(out.size() < kKept ? 0 : next_);
        std::rotate(out.begin(), out.begin() + oldest, out.end());
        if (says_much()) out.push_back(now_);
        return out;
    }

private:
    bool says_much() const {
        return now_.bytes >= kBytesLeast && now_.end - now_.begin >= kTimeLeast;
    }
    void keep_if_long() {
        if (!says_much()) return;
        if (kept_.size() < kKept) kept_.push_back(now_);
        else kept_[next_] = now_;
        next_ = (next_ + 1) % kKept;
    }

    static constexpr size_t kKept = 32;
    // A time is that long, or ends because nothing waits; shorter than the rest it tells nothing.
    static constexpr size_t kBytes = 1 << 20, kBytesLeast = 512 << 10;
    static constexpr Nanoseconds kTime = 20'000'000, kTimeLeast = 2'000'000;

    FullTime now_{};
    std::vector<FullTime> kept_;  // a ring
    size_t next_ = 0;
};

}  // namespace pomona
