// mpi/p2p/spin_limit.h: how long a waiting rank polls before it sleeps.
// Idea: two ranks that wake each other late both sleep before the other's answer can come, and stay
// so, each operation costing them two wake-ups. So who is woken soon after it fell asleep polls for
// longer the next times, until a sleep has been worth it again.
// Source: competitive spinning, Karlin, Li, Manasse, Owicki, SOSP 1991.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>

namespace pomona {

class SpinLimit {
public:
    static constexpr Nanoseconds kShortSleep = 500'000, kLongest = 1'000'000;

    // `usual`: the parameter spin_us; 0: never polls for long.
    explicit SpinLimit(Nanoseconds usual) : usual_(usual), now_(usual) {}
    Nanoseconds now() const { return now_; }
    void slept(Nanoseconds time, bool woken) {
        if (usual_ == 0) return;
        if (!woken || time > kShortSleep) now_ = usual_;
        else now_ = std::max(usual_, std::min(4 * now_, kLongest));
    }

private:
    Nanoseconds usual_, now_;
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
