// btl/base/pace_meter.h: how many bytes a nanosecond a way carries, from what it had to do and what
// is done.
// Idea: an interval between two questions counts if much was to be carried all the time: not all
// that was under way at its beginning has arrived. If all has, a short one counts. A few bytes
// under way say nothing: answers are small, and a peer's system acknowledges them late. Short ones
// alone would not do: who sleeps until something arrives asks often while much does, and then not
// for a while. What counts is summed up, and halved from time to time, so that what was long ago
// counts less and less.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pomona {

class PaceMeter {
public:
    // To be asked often while there is something to carry: `queued` bytes are under way, `arrived`
    // are there, ever. 0: not known.
    double rate(size_t queued, uint64_t arrived, Nanoseconds now) {
        uint64_t done = arrived - std::min(arrived, arrived_);
        if (queued >= kMuch || done >= kMuch) used_ = now;
        else if (now - used_ > kKept) bytes_ = 0, time_ = 0, rate_ = 0;
        bool busy = done < queued_ || (queued != 0 && now - asked_ < kInterval);
        if (busy && queued_ >= kMuch) {
            bytes_ += static_cast<double>(done);
            time_ += static_cast<double>(now - asked_);
        }
        asked_ = now;
        arrived_ = arrived;
        queued_ = queued;
        if (time_ > 0 && (bytes_ >= kBytesLeast || time_ >= kTimeLeast)) rate_ = bytes_ / time_;
        while (bytes_ >= kBytesMost || time_ >= kTimeMost) bytes_ /= 2, time_ /= 2;
        return rate_;
    }

private:
    static constexpr size_t kMuch = 16 << 10;
    // A rate is taken from so many bytes, or from what came in so long a time: those that arrived
    // last.
    static constexpr double kBytesLeast = 256 << 10, kBytesMost = 4 << 20;
    static constexpr double kTimeLeast = 5e6, kTimeMost = 40e6;
    static constexpr Nanoseconds kInterval = 1'000'000;
    // A way that was idle for so long is tried again: others may have been given all for a bad
    // rate.
    static constexpr Nanoseconds kKept = 1'000'000'000;

    Nanoseconds asked_ = 0, used_ = 0;
    size_t queued_ = 0;
    uint64_t arrived_ = 0;
    double bytes_ = 0, time_ = 0;
    double rate_ = 0;
};

}  // namespace pomona
