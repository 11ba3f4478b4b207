// mpi/abi/cart.cc: Cartesian topologies (MPI 5.0, section 8.5).
#include "mpi/abi/define.h"
#include "mpi/abi/topology_internal.h"
#include "mpi/topo/cartesian.h"

#include <climits>

using namespace pomona;

namespace pomona {

MPI_Comm make_topology_comm(Communicator& owner, int count, std::shared_ptr<Topology> topology) {
    uint64_t context = next_child(owner);
    if (owner.rank() >= count) return MPI_COMM_NULL;
    const std::vector<int>& all = owner.group->members();
    Ref<Group> group = count == owner.size()
                           ? owner.group
                           : Ref(new Group(std::vector<int>(all.begin(), all.begin() + count),
                                           owner.process.job().rank));
    Communicator* made = make_child(owner, context, std::move(group), {});
    made->topology = std::move(topology);
    return hand_out<MPI_Comm>(made);
}

namespace {
// The number of processes in a grid that must fit `owner`, or -1 and an error in `error`.
int grid_size(const char* function, Communicator* owner, int ndims, const int dims[],
              const int periods[], int& error) {
    auto wrong = [&](int code, const std::string& sentence) {
        error = fail(function, owner, code, sentence);
        return -1;
    };
    if (ndims < 0)
        return wrong(MPI_ERR_DIMS, format("ndims is {}; it must not be negative", ndims));
    if (ndims > 0 && (!dims || !periods))
        return wrong(MPI_ERR_ARG, "dims or periods is a null pointer");
    long size = 1;
    for (int i = 0; i < ndims; ++i) {
        if (dims[i] <= 0)
            return wrong(MPI_ERR_DIMS, format("dims[{}] is {}; it must be positive", i, dims[i]));
        size *= dims[i];
        if (size > owner->size())
            return wrong(MPI_ERR_DIMS, format("the grid has more processes than the communicator, "
                                              "which has {}",
                                              owner->size()));
    }
    return static_cast<int>(size);
}
}  // namespace

}  // namespace pomona

POMONA_MPI(int, Topo_test, (MPI_Comm comm, int* status)) {
    LIVE_COMM_ARGUMENT(owner, comm);
    RESULT_ARGUMENT(status);
    *status = owner->topology ? owner->topology->kind : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Dims_create, (int nnodes, int ndims, int dims[])) {
    REQUIRE(nnodes > 0, nullptr, MPI_ERR_ARG, "nnodes is {}; it must be positive", nnodes);
    REQUIRE(ndims >= 0, nullptr, MPI_ERR_DIMS, "ndims is {}; it must not be negative", ndims);
    if (ndims == 0) return MPI_SUCCESS;
    REQUIRE(dims, nullptr, MPI_ERR_ARG, "dims is a null pointer");
    std::vector<int> filled(dims, dims + ndims);
    for (int i = 0; i < ndims; ++i)
        REQUIRE(dims[i] >= 0, nullptr, MPI_ERR_DIMS, "dims[{}] is {}; it must not be negative", i,
                dims[i]);
    REQUIRE(balance_dims(nnodes, filled), nullptr, MPI_ERR_DIMS,
            "the dimensions given do not divide the {} processes", nnodes);
    std::copy(filled.begin(), filled.end(), dims);
    return MPI_SUCCESS;
}

// ---- making grids

POMONA_MPI(int, Cart_create,
           (MPI_Comm comm_old, int ndims, const int dims[], const int periods[], int,
            MPI_Comm* comm_cart)) {
    INTRA_ARGUMENT(owner, comm_old);
    RESULT_ARGUMENT(comm_cart);
    *comm_cart = MPI_COMM_NULL;
    int error = MPI_SUCCESS;
    int size = grid_size(__func__, owner, ndims, dims, periods, error);
    if (size < 0) return error;
    std::shared_ptr<Topology> grid;
    if (owner->rank() < size)
        grid = make_grid(std::vector<int>(dims, dims + ndims),
                         std::vector<int>(periods, periods + ndims), owner->rank());
    *comm_cart = make_topology_comm(*owner, size, std::move(grid));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cart_map, (MPI_Comm comm, int ndims, const int dims[], const int periods[],
                           int* newrank)) {
    INTRA_ARGUMENT(owner, comm);
    RESULT_ARGUMENT(newrank);
    int error = MPI_SUCCESS;
    int size = grid_size(__func__, owner, ndims, dims, periods, error);
    if (size < 0) return error;
    *newrank = owner->rank() < size ? owner->rank() : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

// The processes that share my coordinates in the dimensions dropped. Everybody knows them: the
// parts are disjoint, so one context serves them all.
POMONA_MPI(int, Cart_sub, (MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm)) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    RESULT_ARGUMENT(newcomm);
    size_t ndims = topology->dims.size();
    REQUIRE(ndims == 0 || remain_dims, owner, MPI_ERR_ARG, "remain_dims is a null pointer");
    std::vector<int> dims, periods, members;
    for (size_t i = 0; i < ndims; ++i) {
        if (!remain_dims[i]) continue;
        dims.push_back(topology->dims[i]);
        periods.push_back(topology->periods[i]);
    }
    int place = 0;
    for (int rank = 0; rank < owner->size(); ++rank) {
        std::vector<int> coords = grid_coords(topology->dims, rank);
        bool here = true;
        for (size_t i = 0; i < ndims; ++i)
            here = here && (remain_dims[i] || coords[i] == topology->coords[i]);
        if (!here) continue;
        if (rank == owner->rank()) place = static_cast<int>(members.size());
        members.push_back(owner->group->member(rank));
    }
    uint64_t context = next_child(*owner);
    Ref<Group> group(new Group(std::move(members), owner->process.job().rank));
    Communicator* made = make_child(*owner, context, std::move(group), {});
    made->topology = make_grid(std::move(dims), std::move(periods), place);
    *newcomm = hand_out<MPI_Comm>(made);
    return MPI_SUCCESS;
}

// ---- asking

POMONA_MPI(int, Cartdim_get, (MPI_Comm comm, int* ndims)) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    RESULT_ARGUMENT(ndims);
    *ndims = static_cast<int>(topology->dims.size());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cart_get, (MPI_Comm comm, int maxdims, int dims[], int periods[], int coords[])) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    size_t ndims = topology->dims.size();
    REQUIRE(maxdims >= static_cast<int>(ndims), owner, MPI_ERR_ARG,
            "maxdims is {}; the grid has {} dimensions", maxdims, ndims);
    REQUIRE(ndims == 0 || (dims && periods && coords), owner, MPI_ERR_ARG,
            "dims, periods or coords is a null pointer");
    for (size_t i = 0; i < ndims; ++i) {
        dims[i] = topology->dims[i];
        periods[i] = topology->periods[i] != 0;
        coords[i] = topology->coords[i];
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cart_rank, (MPI_Comm comm, const int coords[], int* rank)) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    RESULT_ARGUMENT(rank);
    size_t ndims = topology->dims.size();
    REQUIRE(ndims == 0 || coords, owner, MPI_ERR_ARG, "coords is a null pointer");
    int found =
        grid_rank(topology->dims, topology->periods, std::vector<int>(coords, coords + ndims));
    REQUIRE(found >= 0, owner, MPI_ERR_ARG,
            "coords are outside the grid, in a dimension that is not periodic");
    *rank = found;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cart_coords, (MPI_Comm comm, int rank, int maxdims, int coords[])) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    REQUIRE(rank >= 0 && rank < owner->size(), owner, MPI_ERR_RANK,
            "rank is {}; the communicator has {} processes", rank, owner->size());
    size_t ndims = topology->dims.size();
    REQUIRE(maxdims >= static_cast<int>(ndims), owner, MPI_ERR_ARG,
            "maxdims is {}; the grid has {} dimensions", maxdims, ndims);
    REQUIRE(ndims == 0 || coords, owner, MPI_ERR_ARG, "coords is a null pointer");
    std::vector<int> found = grid_coords(topology->dims, rank);
    std::copy(found.begin(), found.end(), coords);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cart_shift,
           (MPI_Comm comm, int direction, int disp, int* rank_source, int* rank_dest)) {
    TOPOLOGY_ARGUMENT(MPI_CART, "Cartesian");
    RESULT_ARGUMENT(rank_source);
    RESULT_ARGUMENT(rank_dest);
    REQUIRE(direction >= 0 && direction < static_cast<int>(topology->dims.size()), owner,
            MPI_ERR_ARG, "direction is {}; the grid has {} dimensions", direction,
            topology->dims.size());
    *rank_source = grid_shifted(*topology, direction, -static_cast<long>(disp));
    *rank_dest = grid_shifted(*topology, direction, disp);
    return MPI_SUCCESS;
}
