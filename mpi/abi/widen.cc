// mpi/abi/widen.cc: the lengths of array arguments, from the communicator.
#include "mpi/abi/widen.h"

#include "mpi/abi/handle.h"
#include "mpi/topo/topology.h"

namespace pomona {

int array_length(MPI_Comm handle, Length length, int root) {
    Communicator* comm = resolve(handle);
    if (!comm) return 0;
    switch (length) {
    case Length::peers: return comm->remote_size();
    case Length::local: return comm->size();
    case Length::root:
        return root == (comm->is_inter() ? MPI_ROOT : comm->rank()) ? comm->remote_size() : 0;
    case Length::indegree:
        return comm->topology ? static_cast<int>(comm->topology->sources.size()) : 0;
    case Length::outdegree:
        return comm->topology ? static_cast<int>(comm->topology->destinations.size()) : 0;
    }
    return 0;
}

}  // namespace pomona
