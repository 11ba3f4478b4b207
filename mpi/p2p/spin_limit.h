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

}  // namespace pomona
