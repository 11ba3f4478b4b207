// mpi/runtime/first_connections.h: MPI_Init of a small job connects each rank to all that it shares
// no memory with.
// Why: a connection is made while both of its ends are in MPI. If it were made for the first
// message, whose sender goes on and computes, its receiver would wait for as long.
// Cost: what the first messages would pay, and a descriptor for each peer's paths; hence the
// parameter connect_at_start. Nobody waits here for long for a peer that cannot be reached.
#pragma once

namespace pomona {

class Process;

// After the fence that has told all addresses. Returns when there is a path to each such peer or
// none will come soon, after a second at the latest; what is missing is made when it is needed.
void connect_to_all(Process& process);

}  // namespace pomona
