// btl/base/intake.h: how many bytes a nanosecond a way carries: what it takes while more waits.
// Idea: whatever is kept on the way (a system's queue, a window) is as much at the end of such a
// time as at its beginning, since it was full at both; so what was taken meanwhile was carried. No
// system is asked, as PaceMeter does, and the clock is read where something was refused anyway.
// What fills an empty way waits for as long as the first bytes travel until it has room again: so
// a time begins and ends when it has had room, however short a payload is.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pomona {

class Intake {
public:
    // It has taken `bytes`; `full`: and no more, though there is more. True: the rate is new.
    // `now` counts only where it is full.
    bool took(size_t bytes, bool full, Nanoseconds now) {
        if (since_ != 0) bytes_ += bytes;
        if (!full) return false;
        bool was_full = std::exchange(full_, true);
        if (!was_full || bytes == 0) return false;
        Nanoseconds time = now - since_;
        bool begins = since_ == 0;
        if (!begins && (time <= 0 || (time < kTimeLeast && bytes_ < kBytesLeast))) return false;
        // A peer that does not read for a while makes no way slow for long.
        if (!begins)
            rate_ = std::max(static_cast<double>(bytes_) / static_cast<double>(time), rate_ / 2);
        since_ = now;
        bytes_ = 0;
        return !begins;
    }
    // Nothing waits for it any more.
    void idle() { full_ = false, since_ = 0, bytes_ = 0; }
    // 0: not known.
    double rate() const { return rate_; }

private:
    static constexpr Nanoseconds kTimeLeast = 1'000'000;
    static constexpr size_t kBytesLeast = 128 << 10;

    bool full_ = false;      // all the time since it last was
    Nanoseconds since_ = 0;  // when it last had room while more waited; 0: it had none yet
    size_t bytes_ = 0;       // taken since then
    double rate_ = 0;
};

}  // namespace pomona
