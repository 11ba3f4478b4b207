// meeting.h: the members of a group wait for each other before they make its communicator, which
// knows no timeout.
// Idea: the first member leads. It hears from all, asks all whether they are still there, and lets
// them go. Each try of each process has a number, and no word counts that does not answer to one's
// own: what an earlier try has left, which was given up at some members, is passed over. So
// init_process_group may be called again after it has failed, also by some ranks more often than by
// others.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

// Waits until all have come here, under the same name. Empty, or who has not come in time, named by
// the place in the list. `comm` carries no messages of others.
std::string meet_members(MPI_Comm comm, const std::vector<int>& ranks, const std::string& name,
                         std::chrono::milliseconds timeout);
std::string meet_world(std::chrono::milliseconds timeout);
// All ranks that live have met: earlier meetings that failed keep none from MPI_Finalize any more.
void forgive_meetings();

}  // namespace pomona::glue
