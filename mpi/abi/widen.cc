// mpi/abi/widen.cc: the lengths of array arguments, from the communicator.
#include "mpi/abi/widen.h"

#include "mpi/abi/define.h"
#include "mpi/abi/handle.h"

namespace pomona {

// The neighbours of a process in a Cartesian, graph or distributed graph topology.
static int degree(MPI_Comm handle, int rank, bool incoming) {
    int topology = MPI_UNDEFINED;
    if (PMPI_Topo_test(handle, &topology) != MPI_SUCCESS) return 0;
    int in = 0, out = 0, weighted = 0;
    switch (topology) {
    case MPI_CART:
        PMPI_Cartdim_get(handle, &in);
        return 2 * in;
    case MPI_GRAPH:
        PMPI_Graph_neighbors_count(handle, rank, &in);
        return in;
    case MPI_DIST_GRAPH:
        PMPI_Dist_graph_neighbors_count(handle, &in, &out, &weighted);
        return incoming ? in : out;
    default: return 0;
    }
}

int array_length(MPI_Comm handle, Length length, int root) {
    Communicator* comm = resolve(handle);
    if (!comm) return 0;
    switch (length) {
    case Length::peers: return comm->remote_size();
    case Length::local: return comm->size();
    case Length::root:
        return root == (comm->is_inter() ? MPI_ROOT : comm->rank()) ? comm->remote_size() : 0;
    case Length::indegree: return degree(handle, comm->rank(), true);
    case Length::outdegree: return degree(handle, comm->rank(), false);
    }
    return 0;
}

}  // namespace pomona
