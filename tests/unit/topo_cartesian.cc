// tests/unit/topo_cartesian.cc: ranks, coordinates, neighbours and balanced dimensions of grids.
#include "mpi/include/mpi.h"
#include "mpi/topo/cartesian.h"

#include <algorithm>
#include <climits>
#include <gtest/gtest.h>

namespace pomona {
namespace {

using Ints = std::vector<int>;

TEST(Grid, ranks_and_coordinates_are_inverse) {
    Ints dims{2, 3, 4}, periods{0, 1, 0};
    for (int rank = 0; rank < 24; ++rank)
        EXPECT_EQ(grid_rank(dims, periods, grid_coords(dims, rank)), rank);
    EXPECT_EQ(grid_coords(dims, 23), (Ints{1, 2, 3}));
    EXPECT_EQ(grid_coords(dims, 4), (Ints{0, 1, 0})) << "the last coordinate varies fastest";
    EXPECT_EQ(grid_rank(dims, periods, {0, -1, 0}), 8) << "periodic: -1 is 2";
    EXPECT_EQ(grid_rank(dims, periods, {0, 7, 0}), 4);
    EXPECT_EQ(grid_rank(dims, periods, {2, 0, 0}), -1);
    EXPECT_EQ(grid_rank(dims, periods, {0, 0, -1}), -1);
}

TEST(Grid, neighbours_go_per_dimension_lower_first) {
    auto grid = make_grid({3, 3}, {0, 1}, 0);
    EXPECT_EQ(grid->sources, (Ints{MPI_PROC_NULL, 3, 2, 1}));
    EXPECT_EQ(grid->destinations, grid->sources);
    EXPECT_EQ(grid_shifted(*grid, 1, 4), 1);
    EXPECT_EQ(grid_shifted(*grid, 0, 3), MPI_PROC_NULL);
    EXPECT_EQ(grid_shifted(*grid, 0, INT_MAX), MPI_PROC_NULL);
    EXPECT_EQ(make_grid({}, {}, 0)->sources, Ints{});
    EXPECT_EQ(make_grid({1}, {1}, 0)->sources, (Ints{0, 0})) << "its own neighbour";
}

Ints balanced(int nodes, Ints dims) {
    EXPECT_TRUE(balance_dims(nodes, dims));
    return dims;
}

TEST(Dims, are_as_close_as_possible) {
    EXPECT_EQ(balanced(6, {0, 0}), (Ints{3, 2}));  // MPI 5.0, example 8.1
    EXPECT_EQ(balanced(7, {0, 0}), (Ints{7, 1}));
    EXPECT_EQ(balanced(6, {0, 3, 0}), (Ints{2, 3, 1}));
    EXPECT_EQ(balanced(12, {0, 0}), (Ints{4, 3}));
    EXPECT_EQ(balanced(36, {0, 0, 0}), (Ints{4, 3, 3}));
    EXPECT_EQ(balanced(1, {0, 0, 0}), (Ints{1, 1, 1}));
    EXPECT_EQ(balanced(1024, {0, 0, 0, 0, 0}), (Ints{4, 4, 4, 4, 4}));
    EXPECT_EQ(balanced(720720, {0, 0}), (Ints{858, 840}));
    EXPECT_EQ(balanced(8, {2, 4}), (Ints{2, 4}));
    Ints wrong{0, 3};
    EXPECT_FALSE(balance_dims(7, wrong));
    wrong = {2, 2};
    EXPECT_FALSE(balance_dims(8, wrong));
    wrong = {0, 16};
    EXPECT_FALSE(balance_dims(8, wrong));
}

// Against all factorizations, by trying every one.
TEST(Dims, no_factorization_is_closer) {
    for (int nodes = 1; nodes <= 300; ++nodes) {
        int best = nodes;
        for (int a = 1; a <= nodes; ++a)
            for (int b = 1; nodes % a == 0 && b <= nodes / a; ++b)
                if (nodes / a % b == 0) {
                    int c = nodes / a / b;
                    best = std::min(best, std::max({a, b, c}) - std::min({a, b, c}));
                }
        Ints dims = balanced(nodes, {0, 0, 0});
        EXPECT_EQ(dims[0] * dims[1] * dims[2], nodes);
        EXPECT_GE(dims[0], dims[1]);
        EXPECT_GE(dims[1], dims[2]);
        EXPECT_EQ(dims[0] - dims[2], best) << nodes;
    }
}

}  // namespace
}  // namespace pomona
