// mpi/runtime/collectives.h: blocking collectives for the library's own use, on the schedules of
// coll/. For intracommunicators; all return MPI error classes.
#pragma once

#include "mpi/object/communicator.h"

#include <cstddef>

namespace pomona {

class CollectiveRequest;

// Starts one; the caller waits, and releases it.
CollectiveRequest* start_barrier(Communicator& comm);
int run_barrier(Communicator& comm);
int run_bcast(Communicator& comm, void* data, size_t bytes, int root);
// Everybody's `bytes` bytes, by rank, to everybody.
int run_allgather(Communicator& comm, const void* mine, void* all, size_t bytes);
// What to say of an error that one of these returned.
const char* why_unfinished(int error);

// Between the leaders (rank 0) of two groups, over a communicator both are in: sends `mine`,
// receives `theirs`. Called by the leaders only. `peer` is a rank for point to point on `comm`.
int exchange_leaders(Communicator& comm, int peer, int tag, const void* mine, size_t mine_bytes,
                     void* theirs, size_t theirs_bytes);

}  // namespace pomona
