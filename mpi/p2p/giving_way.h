// mpi/p2p/giving_way.h: when a thread that tests or probes in vain gives its core to others, where
// ranks share cores, or several threads of a rank the engine: one that shares its core would else
// find the engine taken each time that it runs, since it runs when a tester was interrupted.
// Idea: a program may compute between its tests, and a core that is given away at each of them then
// costs more than all the rest. So it is given away at once after something has moved, as in a loop
// that waits for the answer to what it has sent, and ever more seldom while that has been in vain.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <cstdint>

#include <sched.h>

namespace pomona {

// `moved`: changes when something has moved. `patience`: for so long after that nothing is given
// away, nor more often. Not with the engine held.
inline void give_way(uint64_t moved, Clock& clock, Nanoseconds patience = 0) {
    constexpr Nanoseconds kFirst = 500, kMost = 5000;
    struct Ways {
        uint64_t moved = 0;     // when this was another
        Nanoseconds apart = 0;  // the next is not to be before
        Nanoseconds last = 0;
    };
    thread_local Ways ways;
    if (moved != ways.moved) ways = {moved, patience, patience > 0 ? clock.now() : 0};
    if (clock.now() - ways.last < ways.apart) return;
    sched_yield();
    ways.last = clock.now();
    ways.apart = std::clamp(2 * ways.apart, kFirst, std::max(kMost, patience));
}

}  // namespace pomona
