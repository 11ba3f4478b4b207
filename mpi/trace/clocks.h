// mpi/trace/clocks.h: times of several hosts on one clock, that of rank 0's host.
// Idea: a ping-pong tells the offset of a clock with an error of at most half of its round trip
// (Cristian, Distributed Computing 3:146-158, 1989), so the quickest of many is taken, once at
// MPI_Init and once at MPI_Finalize; between them the offset is taken to change linearly, as that
// of quartz clocks does.
#pragma once

#include "mpi/trace/part_file.h"

namespace pomona::trace {

// One round: sent at `sent` and answered at `answered` of our clock, the other's clock said
// `there`.
struct Round {
    int64_t sent, answered, there;
};
// What is to be added to the other's clock. `best` is improved by each quicker round.
void improve(ClockPoint& best, const Round& round);

// A time of this part's host on rank 0's clock.
int64_t aligned(const PartHeader& part, int64_t time);

}  // namespace pomona::trace
