// mpi/abi/init_internal.h: what the world model and sessions share.
#pragma once

#include "btl/base/result.h"

namespace pomona {

// Starts the library for the first user, counts the others.
Status acquire_library(int thread_level);
// Takes it down with the last user.
Status release_library();
// Calls the delete functions of MPI_COMM_SELF's attributes (mpi/abi/attribute.cc).
void delete_attributes_of_self();

}  // namespace pomona
