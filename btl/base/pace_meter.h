// btl/base/pace_meter.h: how many bytes a nanosecond a way carries, from what it had to do and what is done.
// Idea: an interval counts if it is short and there was something to carry all the time.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pomona {

class PaceMeter {
public:
    // To be asked often while there is something to carry: `queued` bytes are under way, `arrived` are there,
    // ever. 0: not known.
    double rate(size_t queued, uint64_t arrived, Nanoseconds now) {
        if (queued != 0 || arrived != arrived_) used_ = now;
        else if (now - used_ > kKept) rate_ = 0;
        if (queued != 0 && now - asked_ < kInterval) {
            busy_bytes_ += arrived - std::min(arrived, arrived_);
            busy_time_ += now - asked_;
        }
        asked_ = now;
        arrived_ = arrived;
        if (busy_time_ > 0 && (busy_bytes_ >= kBytes || busy_time_ >= kTime)) {
            double latest = static_cast<double>(busy_bytes_) / static_cast<double>(busy_time_);
            rate_ = rate_ == 0 ? latest : (rate_ + latest) / 2;
            busy_bytes_ = 0;
            busy_time_ = 0;
        }
        return rate_;
    }

private:
    // A rate is taken from so many bytes, or from what came in so long a time.
    static constexpr uint64_t kBytes = 256 << 10;
    static constexpr Nanoseconds kTime = 5'000'000;
    static constexpr Nanoseconds kInterval = 1'000'000;
    // A way that was idle for so long is tried again: others may have been given all for a bad rate.
    static constexpr Nanoseconds kKept = 1'000'000'000;

    Nanoseconds asked_ = 0, used_ = 0, busy_time_ = 0;
    uint64_t arrived_ = 0, busy_bytes_ = 0;
    double rate_ = 0;
};

}  // namespace pomona
