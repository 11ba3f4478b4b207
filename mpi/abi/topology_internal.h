// mpi/abi/topology_internal.h: what the files about topologies share.
#pragma once

#include "mpi/abi/comm_internal.h"
#include "mpi/topo/topology.h"

namespace pomona {

// Declares `owner` and `topology`, of the wanted kind, or returns the error.
#define TOPOLOGY_ARGUMENT(wanted, words)                                                           \
    COMM_ARGUMENT(owner, comm);                                                                    \
    const Topology* topology = owner->topology.get();                                              \
    REQUIRE(topology && topology->kind == (wanted), owner, MPI_ERR_TOPOLOGY,                       \
            "comm has no " words " topology")
#define INTRA_ARGUMENT(name, argument)                                                             \
    COMM_ARGUMENT(name, argument);                                                                 \
    REQUIRE(!name->is_inter(), name, MPI_ERR_COMM, #argument " must be an intracommunicator")
#define RESULT_ARGUMENT(pointer) REQUIRE(pointer, owner, MPI_ERR_ARG, #pointer " is a null pointer")

// The first `count` members of a communicator as a child with a topology; MPI_COMM_NULL for the
// others. Called by all members. The ranks stay as they are: `reorder` asks for nothing we know
// better.
MPI_Comm make_topology_comm(Communicator& owner, int count, std::shared_ptr<Topology> topology);

}  // namespace pomona
