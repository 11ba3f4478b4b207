// mpi/object/lifetime.h: which objects an operation under way has to keep.
// Idea: predefined objects stay until MPI_Finalize, and counting references to them would cost two
// locked instructions an operation where threads share objects, and a dozen plain ones elsewhere.
#pragma once

#include "mpi/object/communicator.h"
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"

namespace pomona {

// Could an operation outlive the user's handle?
inline bool outlives(const Communicator& comm) { return !comm.builtin_handle; }
inline bool outlives(const Datatype& type) { return !type.predefined(); }
inline bool outlives(const Operation& operation) { return !operation.predefined(); }

}  // namespace pomona
