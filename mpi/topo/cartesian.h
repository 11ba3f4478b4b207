// mpi/topo/cartesian.h: the arithmetic of Cartesian grids (MPI 5.0, section 8.5). Row-major: the
// last coordinate varies fastest with the rank.
#pragma once

#include "mpi/topo/topology.h"

#include <memory>
#include <vector>

namespace pomona {

std::vector<int> grid_coords(const std::vector<int>& dims, int rank);
// Periodic coordinates are wrapped; -1 when another one is outside.
int grid_rank(const std::vector<int>& dims, const std::vector<int>& periods,
              std::vector<int> coords);
// The rank `distance` steps away along a dimension, or MPI_PROC_NULL beyond a border.
int grid_shifted(const Topology& grid, int dimension, long distance);
// The topology of one rank of a grid.
std::shared_ptr<Topology> make_grid(std::vector<int> dims, std::vector<int> periods, int rank);

// Fills the zeros of `dims` so that the product is `nodes` and the filled ones are as close to
// each other as possible, in non-increasing order. False when the given ones do not divide
// `nodes`.
bool balance_dims(int nodes, std::vector<int>& dims);

}  // namespace pomona
