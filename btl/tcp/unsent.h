// btl/tcp/unsent.h: how many bytes that it has not sent a connection's system shall keep.
// Idea: what is pushed next, as an answer that lets the peer send at the same time, waits for all
// that the system keeps. So it keeps what leaves in kTime; how much that is shows how quickly long
// payloads are taken. Until that is known a line may be slow. A process that comes later than that
// finds all of it gone, and the line stood still: on a host with more work than cores it comes
// milliseconds late. Then the system keeps twice as much each time, and less when that is over.
#pragma once

#include "btl/base/intake.h"

#include <algorithm>
#include <cstddef>

namespace pomona::tcp {

class UnsentBound {
public:
    static constexpr size_t kLeast = 16 << 10, kMost = 128 << 10;
    static constexpr size_t kMostLate = 2 << 20;  // for who comes late

    // `line`: it leaves the machine. Else nothing is slow.
    explicit UnsentBound(bool line) : line_(line), base_(line ? kLeast : kMost), most_(base_) {}
    size_t most() const { return most_; }

    // The system has taken so much of a long payload; `full`: and no more, though there is more,
    // and it keeps `kept` bytes that have not arrived (0: not known). True: most() is new.
    bool took(size_t taken, bool full, Nanoseconds now, size_t kept = 0) {
        if (!line_) return false;
        // The next payload comes later: the system was not full meanwhile.
        if (took_all_at_ != 0 && now - took_all_at_ > kGap) intake_.idle(), was_full_ = false;
        took_all_at_ = full ? 0 : now;
        note_lateness(taken, full, now);
        if (intake_.took(taken, full, now, kept)) {
            double bytes = intake_.rate() * kTime;
            base_ = kMost;
            while (base_ > kLeast && static_cast<double>(base_) > bytes) base_ /= 2;
        }
        size_t before = most_;
        most_ = std::max(base_, std::min(base_ * late_, kMostLate));
        return most_ != before;
    }

private:
    static constexpr double kTime = 500e3;
    static constexpr Nanoseconds kGap = 300'000;
    static constexpr Nanoseconds kCalm = 500'000'000;  // not late for so long: half as much

    // Since it was full last, has all left that it had kept then?
    void note_lateness(size_t taken, bool full, Nanoseconds now) {
        taken_ += taken;
        if (full && was_full_ && taken_ >= most_) {
            if (base_ * late_ < kMostLate) late_ *= 2;
            late_at_ = now;
        } else if (late_ > 1 && now - late_at_ > kCalm) {
            late_ /= 2;
            late_at_ = now;
        }
        if (full) was_full_ = true, taken_ = 0;
    }

    Intake intake_{};
    bool line_;
    size_t base_, most_;
    Nanoseconds took_all_at_ = 0;  // 0: it did not
    bool was_full_ = false;        // and since then there was always more
    size_t taken_ = 0;             // since it was full
    size_t late_ = 1;              // times as much as base_
    Nanoseconds late_at_ = 0;
};

}  // namespace pomona::tcp
