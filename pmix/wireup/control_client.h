// pmix/wireup/control_client.h: the wire-up of a rank that our mpirun started.
#pragma once

#include "pmix/wireup/wireup.h"

namespace pomona {

// Connects to the job's socket and says hello.
Result<std::unique_ptr<Wireup>> start_under_mpirun(Job job);

// What keeps MPI running, for the words of our mpirun should the process end now; of no other
// launcher.
void tell_sessions(Wireup& wireup, int open, bool world);

}  // namespace pomona
