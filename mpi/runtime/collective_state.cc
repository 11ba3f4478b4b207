// mpi/runtime/collective_state.cc: schedules by shape, per communicator.
#include "mpi/runtime/collective_state.h"

#include "mpi/runtime/collectives.h"

namespace pomona {

CollectiveState& collective_state(Communicator& comm) {
    if (!comm.collective) comm.collective = std::make_unique<CollectiveState>(comm);
    return *comm.collective;
}

}  // namespace pomona
