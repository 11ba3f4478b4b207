// store.h: torch's store as the table by which processes find each other: MPI without mpirun.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace pomona::glue {

// Starts MPI (world.h) in a world of all processes that share the store. Collective. Throws. The
// store serves until MPI runs, and not afterwards.
void start_mpi_by_store(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);

}  // namespace pomona::glue
