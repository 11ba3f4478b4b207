// mpi/topo/topology.h: the virtual topology of a communicator (MPI 5.0, chapter 8).
// Idea: whatever its kind, a topology has a list of sources and of destinations; neighborhood
// collectives need nothing else. What the queries of each kind return is kept beside.
#pragma once

#include <vector>

namespace pomona {

class Topology {
public:
    int kind = 0;  // MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH

    // Neighbors in the order of the blocks of neighborhood collectives; MPI_PROC_NULL where a
    // Cartesian process stands at a border.
    std::vector<int> sources, destinations;

    // MPI_CART
    std::vector<int> dims, periods, coords;
    // MPI_GRAPH: as given to MPI_Graph_create, the same on all ranks.
    std::vector<int> index, edges;
    // MPI_DIST_GRAPH
    bool weighted = false;
    std::vector<int> source_weights, destination_weights;
};

}  // namespace pomona
