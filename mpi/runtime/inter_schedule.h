// mpi/runtime/inter_schedule.h: schedules of collectives between the two groups of an
// intercommunicator (MPI 5.0, section 6.2.2).
#pragma once

#include "mpi/runtime/collective_request.h"

namespace pomona {

// Sets plan.own_schedule. Peers are ranks of the remote group; shape.root may be MPI_ROOT or
// MPI_PROC_NULL; shape.input_blocks and result_blocks are per remote rank where they apply.
void build_inter_schedule(CollectivePlan& plan);

}  // namespace pomona
