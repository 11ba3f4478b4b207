// btl/base/intake.h: how many bytes a nanosecond a way carries: what it takes while more waits.
// Idea: whatever is kept on the way (a system's queue, a window) is about as much at the end of
// such a time as at its beginning, since it was full at both; so what was taken meanwhile was
// carried. Systems come to keep more than before, which would look like quickness: who can tell how
// much is kept says so, and only the rest counts; for all others the rate rises slowly. The clock
// is read, and a system asked, where something was refused anyway. What fills an empty way waits
// for as long as the first bytes travel until it has room again: so a time begins and ends when it
// has had room, however short a payload is.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/line_seen.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pomona {

class Intake {
public:
    // It has taken `bytes`; `full`: and no more, though there is more. True: the rate is new.
    // `now` and `kept`, bytes that it has taken and that have not arrived (0: it cannot tell),
    // count only where it is full. `seen`: is told what was carried since it was full before.
    bool took(size_t bytes, bool full, Nanoseconds now, size_t kept = 0, LineSeen* seen = nullptr) {
        if (since_ != 0) bytes_ += bytes;
        if (!full) return false;
        bool was_full = std::exchange(full_, true);
        if (!was_full || bytes == 0) return false;
        Nanoseconds time = now - since_;
        bool begins = since_ == 0;
        size_t carried = bytes_ + kept_ - std::min(bytes_ + kept_, kept);
        if (!begins && (time <= 0 || (time < kTimeLeast && carried < kBytesLeast))) return false;
        if (!begins) note(static_cast<double>(carried) / static_cast<double>(time));
        if (!begins && seen) seen->carried(since_, now, carried);
        since_ = now;
        bytes_ = 0;
        kept_ = kept;
        return !begins;
    }
    // Nothing waits for it any more.
    void idle() { full_ = false, since_ = 0, bytes_ = kept_ = 0; }
    // 0: not known.
    double rate() const { return rate_; }

private:
    void note(double found) {
        // A peer that does not read for a while makes no way slow for long.
        rate_ = rate_ == 0 ? found : std::clamp(found, rate_ / 2, rate_ * kRise);
    }

    static constexpr double kRise = 1.125;
    static constexpr Nanoseconds kTimeLeast = 1'000'000;
    static constexpr size_t kBytesLeast = 128 << 10;

    bool full_ = false;      // all the time since it last was
    Nanoseconds since_ = 0;  // when it last had room while more waited; 0: it had none yet
    size_t bytes_ = 0;       // taken since then
    size_t kept_ = 0;        // at that time
    double rate_ = 0;
};

}  // namespace pomona
