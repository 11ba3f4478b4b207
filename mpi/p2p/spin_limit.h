// mpi/p2p/spin_limit.h: how long a waiting rank polls before it sleeps.
// Idea: two ranks that wake each other late both sleep before the other's answer can come, and stay
// so, each operation costing them two wake-ups. So who is woken soon after it fell asleep polls for
// longer the next times, until a sleep has been worth it again. Where that does not help, because
// the other one waits for this core (ranks of hosts that are one machine, or beside other busy
// programs), it polls as long as usual for a while.
// Source: competitive spinning, Karlin, Li, Manasse, Owicki, SOSP 1991.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <utility>

namespace pomona {

class SpinLimit {
public:
    static constexpr Nanoseconds kShortSleep = 500'000, kLongest = 1'000'000;
    // So many sleeps that follow each other so closely that nearly all time went into polling.
    static constexpr int kInVain = 4;
    static constexpr Nanoseconds kClosely = 4 * kLongest;
    // For how long it then polls as usual; twice as long each time.
    static constexpr Nanoseconds kUsualFirst = 100'000'000, kUsualMost = 3'000'000'000;

    // `usual`: the parameter spin_us; 0: never polls for long.
    explicit SpinLimit(Nanoseconds usual) : usual_(usual), limit_(usual) {}
    Nanoseconds limit() const { return limit_; }
    // Has slept for `time` until `now`; not `woken`: nothing came.
    void slept(Nanoseconds time, bool woken, Nanoseconds now) {
        if (usual_ == 0 || now < usual_until_) return;
        const bool closely = now - std::exchange(last_, now) < kClosely;
        if (!woken || time > kShortSleep) {
            limit_ = usual_;
        } else if (limit_ < kLongest) {
            limit_ = std::min(4 * limit_, kLongest);
            in_vain_ = 0;
        } else if (!closely) {
            in_vain_ = 0;  // most answers came while it polled
            usual_next_ = kUsualFirst;
        } else if (++in_vain_ == kInVain) {
            limit_ = usual_;
            usual_until_ = now + usual_next_;
            usual_next_ = std::min(2 * usual_next_, kUsualMost);
        }
    }

private:
    Nanoseconds usual_, limit_;
    Nanoseconds last_ = 0;  // the end of the last sleep
    int in_vain_ = 0;
    Nanoseconds usual_until_ = 0, usual_next_ = kUsualFirst;
};

// For how long looks have found nothing, since something whole came. Parts of what a slow line
// brings are found between them, which is no reason to look again at once.
class Idleness {
public:
    Idleness() = default;
    explicit Idleness(Nanoseconds since) : since_(since), last_(since) {}
    // A look at this time found nothing.
    Nanoseconds at(Nanoseconds now) {
        if (since_ == 0) since_ = now;
        last_ = now;
        return before_ + now - since_;
    }
    // A look found a part.
    void interrupt() {
        before_ += last_ - since_;
        since_ = last_ = 0;
    }

private:
    Nanoseconds since_ = 0, last_ = 0, before_ = 0;
};

}  // namespace pomona
