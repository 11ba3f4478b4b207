// mpi/topo/cartesian.cc: ranks and coordinates, neighbours, balanced dimensions.
#include "mpi/topo/cartesian.h"

#include "mpi/include/mpi.h"

#include <algorithm>
#include <climits>
#include <utility>

namespace pomona {

std::vector<int> grid_coords(const std::vector<int>& dims, int rank) {
    std::vector<int> coords(dims.size());
    for (size_t i = dims.size(); i-- > 0; rank /= dims[i]) coords[i] = rank % dims[i];
    return coords;
}

int grid_rank(const std::vector<int>& dims, const std::vector<int>& periods,
              std::vector<int> coords) {
    int rank = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (periods[i]) coords[i] = (coords[i] % dims[i] + dims[i]) % dims[i];
        if (coords[i] < 0 || coords[i] >= dims[i]) return -1;
        rank = rank * dims[i] + coords[i];
    }
    return rank;
}

int grid_shifted(const Topology& grid, int dimension, long distance) {
    auto d = static_cast<size_t>(dimension);
    long place = grid.coords[d] + distance;
    if (grid.periods[d]) place = (place % grid.dims[d] + grid.dims[d]) % grid.dims[d];
    if (place < 0 || place >= grid.dims[d]) return MPI_PROC_NULL;
    std::vector<int> coords = grid.coords;
    coords[d] = static_cast<int>(place);
    return grid_rank(grid.dims, grid.periods, std::move(coords));
}

// Neighbours in the order of neighborhood collectives: per dimension, first the lower one, then
// the higher one.
std::shared_ptr<Topology> make_grid(std::vector<int> dims, std::vector<int> periods, int rank) {
    auto grid = std::make_shared<Topology>();
    grid->kind = MPI_CART;
    grid->coords = grid_coords(dims, rank);
    grid->dims = std::move(dims);
    grid->periods = std::move(periods);
    for (size_t i = 0; i < grid->dims.size(); ++i) {
        grid->sources.push_back(grid_shifted(*grid, static_cast<int>(i), -1));
        grid->sources.push_back(grid_shifted(*grid, static_cast<int>(i), 1));
    }
    grid->destinations = grid->sources;
    return grid;
}

namespace {

// Searches the factorizations of a number into non-increasing factors for the one with the
// smallest difference of the largest and the smallest; among equals, the one with the greatest
// small factors. Divisors are few, so all are tried that can be better. The optimality asked for:
// Traff, Lubbe, "Specification guideline violations by MPI_Dims_create", EuroMPI 2015.
struct Balancer {
    std::vector<int> divisors;  // ascending
    std::vector<int> current, best;
    long best_spread = LONG_MAX;

    void search(long left, size_t factors, int limit) {
        if (factors == 1) {
            if (left > limit) return;
            long spread = (current.empty() ? left : current.front()) - left;
            if (spread > best_spread || (spread == best_spread && !closer(left))) return;
            best_spread = spread;
            best = current;
            best.push_back(static_cast<int>(left));
            return;
        }
        for (int factor : divisors) {
            if (factor > limit) break;
            if (left % factor != 0 || power(factor, factors) < left) continue;
            current.push_back(factor);
            search(left / factor, factors - 1, factor);
            current.pop_back();
            if (best_spread <= 1) return;
        }
    }
    // Of two factorizations with one spread: does the current one, with `last`, have the greater
    // smallest factor, then the greater second smallest, and so on?
    bool closer(long last) const {
        if (last != best.back()) return last > best.back();
        for (size_t i = current.size(); i-- > 0;)
            if (current[i] != best[i]) return current[i] > best[i];
        return false;
    }
    static long power(long base, size_t exponent) {
        long result = 1;
        while (exponent-- > 0 && result < LONG_MAX / (base + 1)) result *= base;
        return result;
    }
};

}  // namespace

bool balance_dims(int nodes, std::vector<int>& dims) {
    long given = 1;
    size_t open = 0;
    for (int dim : dims) {
        if (dim == 0) ++open;
        else if ((given *= dim) > nodes) return false;
    }
    if (nodes % given != 0) return false;
    int left = static_cast<int>(nodes / given);
    if (open == 0) return left == 1;
    Balancer balancer;
    for (int d = 1; static_cast<long>(d) * d <= left; ++d)
        if (left % d == 0) {
            balancer.divisors.push_back(d);
            if (d != left / d) balancer.divisors.push_back(left / d);
        }
    std::sort(balancer.divisors.begin(), balancer.divisors.end());
    balancer.search(left, open, left);
    size_t next = 0;
    for (int& dim : dims)
        if (dim == 0) dim = balancer.best[next++];
    return true;
}

}  // namespace pomona
