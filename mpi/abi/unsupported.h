// mpi/abi/unsupported.h: what a function that Pomona does not have does.
#pragma once

#include "mpi/abi/mpi.h"

namespace pomona {

// Return MPI_ERR_UNSUPPORTED_OPERATION through the object's error handler. `function` is __func__.
int unsupported(const char* function, MPI_Comm comm);
int unsupported(const char* function, MPI_Session session);
int unsupported(const char* function, MPI_File file);
int unsupported(const char* function, MPI_Win win);

}  // namespace pomona
