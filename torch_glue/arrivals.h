// arrivals.h: when the ranks of this machine have come to a collective.
// Idea: each process writes the times of its last starts into memory that all ranks of the machine
// have mapped. Whoever ends a collective looks there when the last of the others came, and so knows
// how long it waited for them, without a message. Ranks of one machine share a clock; of a group
// over several machines nobody knows it alone (pomona.report() asks all).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

using ArrivalTime = std::chrono::steady_clock::time_point;

// Collective over the first group: makes that memory, the first time. Where it cannot be had,
// nothing is known later. MPI error code.
int share_arrivals(MPI_Comm first_group);

// This process comes to collective `sequence` of the group that all ranks know by `key`.
void arrive(uint64_t key, uint64_t sequence, ArrivalTime at);

// Of a collective that this process was in from `begun` to `ended`: how long until the last of the
// group's ranks came that have come meanwhile. `members`: ranks in the first group; empty: all of
// it. Who has made hundreds of calls since then counts as early. Nothing where a member's memory
// is not mapped here.
std::optional<std::chrono::nanoseconds> waited_for_others(const std::vector<int>& members,
                                                          uint64_t key, uint64_t sequence,
                                                          ArrivalTime begun, ArrivalTime ended);

}  // namespace pomona::glue
