// arrivals.h: when the ranks of this machine have come to a collective.
// Idea: each process writes the times of its last starts into memory that all ranks of the machine
// have mapped. Whoever ends a collective looks there when the last of the others came, and so knows
// how long it waited for them, without a message. Ranks of one machine share a clock; those of
// other machines are asked (far_arrivals.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "torch_glue/far_arrivals.h"
#include "torch_glue/library.h"

namespace pomona::glue {

// Collective over the first group: makes that memory, the first time. Ranks that have none with
// this one are asked later. MPI error code.
int share_arrivals(MPI_Comm first_group);

// This process comes to collective `sequence` of the group that all ranks know by `key`.
void arrive(uint64_t key, uint64_t sequence, ArrivalTime at);

// When the last rank came to a collective that this process was in from `begun` to `ended`: of
// those that came meanwhile, `begun` if none did. Who has made hundreds of calls since then counts
// as early.
struct LastArrival {
    ArrivalTime at;
    std::vector<int> far;  // ranks in the first group of which this process cannot see it
};
// `members`: ranks in the first group; empty: all of it. Nothing where nobody can tell.
std::optional<LastArrival> last_arrival(const std::vector<int>& members, uint64_t key,
                                        uint64_t sequence, ArrivalTime begun, ArrivalTime ended);

}  // namespace pomona::glue
