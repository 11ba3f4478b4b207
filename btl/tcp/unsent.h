// btl/tcp/unsent.h: how many bytes that it has not sent a connection's system shall keep.
// Idea: what is pushed next, as an answer that lets the peer send at the same time, waits for all
// that the system keeps. So it keeps what leaves in kTime; how much that is shows how quickly long
// payloads are taken. Until that is known a line may be slow.
#pragma once

#include "btl/base/intake.h"

#include <algorithm>
#include <cstddef>

namespace pomona::tcp {

class UnsentBound {
public:
    static constexpr size_t kLeast = 16 << 10, kMost = 128 << 10;

    // `line`: it leaves the machine. Else nothing is slow.
    explicit UnsentBound(bool line) : line_(line), most_(line ? kLeast : kMost) {}
    size_t most() const { return most_; }

    // The system has taken so much of a long payload; `full`: and no more, though there is more.
    // True: most() is new.
    bool took(size_t taken, bool full, Nanoseconds now) {
        if (!line_) return false;
        // The next payload comes later: the system was not full meanwhile.
        if (took_all_at_ != 0 && now - took_all_at_ > kGap) intake_.idle();
        took_all_at_ = full ? 0 : now;
        if (!intake_.took(taken, full, now)) return false;
        double bytes = intake_.rate() * kTime;
        size_t before = most_;
        most_ = kMost;
        while (most_ > kLeast && static_cast<double>(most_) > bytes) most_ /= 2;
        return most_ != before;
    }

private:
    static constexpr double kTime = 500e3;
    static constexpr Nanoseconds kGap = 300'000;

    Intake intake_{};
    bool line_;
    size_t most_;
    Nanoseconds took_all_at_ = 0;  // 0: it did not
};

}  // namespace pomona::tcp
