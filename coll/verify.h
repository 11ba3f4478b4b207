// coll/verify.h: all ranks' schedules of one collective checked against each other, without data.
// Idea: what a Runner discovers as a hang is found here as a sentence: a message without a partner,
// lengths that differ, a cycle of steps that wait for one another.
#pragma once

#include "coll/schedule.h"

#include <string>

namespace pomona::coll {

struct Verdict {
    std::string problem;  // "" when the schedules fit together
    uint64_t messages = 0;
    uint64_t bytes = 0;  // sent by all ranks together
    int rounds = 0;      // messages on the longest chain of steps
    bool ok() const { return problem.empty(); }
};

// schedules[r] is rank r's. A send is taken to end when its receive is posted, the strictest case.
Verdict verify(std::span<const Schedule> schedules);

}  // namespace pomona::coll
