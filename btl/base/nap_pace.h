// btl/base/nap_pace.h: how often a sleeping rank may wake for a moment.
// Idea: what a nap costs differs from machine to machine (about 10 us of processor time on one, 36
// on another virtual one), so it is measured, and naps are so far apart that they take a hundredth
// of a core.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>

namespace pomona {

class NapPace {
public:
    static constexpr int kApart = 100;

    // The length of the next nap; `least`: the parameter nap_us.
    Nanoseconds next(Nanoseconds least) const { return std::max(least, kApart * cost_); }
    // A nap took so much of the thread's processor time. The greatest counts, slowly forgotten.
    void took(Nanoseconds cost) { cost_ = std::max(cost, cost_ - cost_ / 16); }

private:
    Nanoseconds cost_ = 0;
};

}  // namespace pomona
