// mpi/abi/init_internal.h: what the world model and sessions share.
#pragma once

#include "btl/base/result.h"
#include "pmix/wireup/wireup.h"

#include <memory>

namespace pomona {

// The wire-up that the program has brought (MPIX_Wireup_set), or null. (mpi/abi/wireup.cc)
Result<std::unique_ptr<Wireup>> given_wireup();
// Starts the library for the first user, counts the others.
Status acquire_library(int thread_level);
// Takes it down with the last user.
Status release_library();
// Calls the delete functions of MPI_COMM_SELF's attributes (mpi/abi/attribute.cc).
void delete_attributes_of_self();

}  // namespace pomona
