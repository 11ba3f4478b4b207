// mpi/runtime/simulated.h: the job as a rank sees it whose network and time are simulated
// (mpirun --simulate): the launcher's, on other hosts.
#pragma once

#include "btl/sim/remote.h"
#include "pmix/wireup/wireup.h"

#include <memory>

namespace pomona {

// Null: nothing is simulated.
std::unique_ptr<sim::Remote> simulation_of(const char* const* environment);

// What would be done outside of virtual time, by mpirun, is refused.
std::unique_ptr<Wireup> make_simulated_wireup(std::unique_ptr<Wireup> real, sim::Remote& simulated);

}  // namespace pomona
