// btl/base/intake.h: how many bytes a nanosecond a way carries: what it takes while more waits.
// Idea: whatever is kept on the way (a system's queue, a window) is as much at the end of such a
// time as at its beginning, since it was full at both; so what was taken meanwhile was carried. No
// system is asked, as PaceMeter does, and the clock is read where something was refused anyway.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstddef>

namespace pomona {

class Intake {
public:
    // It has taken `bytes`; `full`: and no more, though there is more. True: the rate is new.
    bool took(size_t bytes, bool full, Nanoseconds now) {
        if (full_since_ != 0) bytes_ += bytes;
        if (!full) return false;
        bool begins = full_since_ == 0;
        Nanoseconds time = now - full_since_;
        bool enough = bytes_ != 0 && time > 0 && (time >= kTimeLeast || bytes_ >= kBytesLeast);
        if (!begins && !enough) return false;
        // A peer that does not read for a while makes no way slow for long.
        if (!begins)
            rate_ = std::max(static_cast<double>(bytes_) / static_cast<double>(time), rate_ / 2);
        full_since_ = now;
        bytes_ = 0;
        return !begins;
    }
    // Nothing waits for it any more.
    void idle() { full_since_ = 0, bytes_ = 0; }
    // 0: not known.
    double rate() const { return rate_; }

private:
    static constexpr Nanoseconds kTimeLeast = 1'000'000;
    static constexpr size_t kBytesLeast = 128 << 10;

    Nanoseconds full_since_ = 0;  // 0: it is not, or was not all the time
    size_t bytes_ = 0;            // taken since then
    double rate_ = 0;
};

}  // namespace pomona
