// mpi/abi/graph.cc: graph and distributed graph topologies (MPI 5.0, sections 8.5.3 to 8.5.5).
#include "mpi/abi/define.h"
#include "mpi/abi/topology_internal.h"
#include "mpi/runtime/collectives.h"

#include <algorithm>
#include <numeric>

using namespace pomona;

// ---- graphs that every process knows whole

namespace {

// Checks index and edges of a graph of `nnodes` on `owner`.
int check_graph(const char* function, Communicator* owner, int nnodes, const int indx[],
                const int edges[]) {
    if (nnodes < 0 || nnodes > owner->size())
        return fail(
            function, owner, MPI_ERR_ARG,
            format("nnodes is {}; the communicator has {} processes", nnodes, owner->size()));
    if (nnodes > 0 && (!indx || (indx[nnodes - 1] > 0 && !edges)))
        return fail(function, owner, MPI_ERR_ARG, "indx or edges is a null pointer");
    for (int i = 0; i < nnodes; ++i)
        if (indx[i] < (i == 0 ? 0 : indx[i - 1]))
            return fail(function, owner, MPI_ERR_ARG,
                        format("indx[{}] is {}; it must not decrease", i, indx[i]));
    for (int i = 0; nnodes > 0 && i < indx[nnodes - 1]; ++i)
        if (edges[i] < 0 || edges[i] >= nnodes)
            return fail(function, owner, MPI_ERR_ARG,
                        format("edges[{}] is {}; the graph has {} nodes", i, edges[i], nnodes));
    return MPI_SUCCESS;
}

// The neighbors of a rank: a part of the list of edges.
std::pair<int, int> neighbor_range(const Topology& graph, int rank) {
    auto r = static_cast<size_t>(rank);
    return {rank == 0 ? 0 : graph.index[r - 1], graph.index[r]};
}

}  // namespace

POMONA_MPI(int, Graph_create,
           (MPI_Comm comm_old, int nnodes, const int indx[], const int edges[], int,
            MPI_Comm* comm_graph)) {
    INTRA_ARGUMENT(owner, comm_old);
    RESULT_ARGUMENT(comm_graph);
    if (int error = check_graph(__func__, owner, nnodes, indx, edges)) return error;
    std::shared_ptr<Topology> graph;
    if (owner->rank() < nnodes) {
        graph = std::make_shared<Topology>();
        graph->kind = MPI_GRAPH;
        graph->index.assign(indx, indx + nnodes);
        graph->edges.assign(edges, edges + indx[nnodes - 1]);
        auto [begin, end] = neighbor_range(*graph, owner->rank());
        graph->sources.assign(graph->edges.begin() + begin, graph->edges.begin() + end);
        graph->destinations = graph->sources;
    }
    *comm_graph = make_topology_comm(*owner, nnodes, std::move(graph));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Graph_map, (MPI_Comm comm, int nnodes, const int indx[], const int edges[],
                            int* newrank)) {
    INTRA_ARGUMENT(owner, comm);
    RESULT_ARGUMENT(newrank);
    if (int error = check_graph(__func__, owner, nnodes, indx, edges)) return error;
    *newrank = owner->rank() < nnodes ? owner->rank() : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Graphdims_get, (MPI_Comm comm, int* nnodes, int* nedges)) {
    TOPOLOGY_ARGUMENT(MPI_GRAPH, "graph");
    RESULT_ARGUMENT(nnodes);
    RESULT_ARGUMENT(nedges);
    *nnodes = static_cast<int>(topology->index.size());
    *nedges = static_cast<int>(topology->edges.size());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Graph_get, (MPI_Comm comm, int maxindex, int maxedges, int indx[], int edges[])) {
    TOPOLOGY_ARGUMENT(MPI_GRAPH, "graph");
    REQUIRE(maxindex >= 0 && maxedges >= 0, owner, MPI_ERR_ARG,
            "maxindex is {} and maxedges is {}; they must not be negative", maxindex, maxedges);
    REQUIRE((indx || maxindex == 0) && (edges || maxedges == 0), owner, MPI_ERR_ARG,
            "indx or edges is a null pointer");
    std::copy_n(topology->index.begin(), std::min<size_t>(topology->index.size(), maxindex), indx);
    std::copy_n(topology->edges.begin(), std::min<size_t>(topology->edges.size(), maxedges), edges);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Graph_neighbors_count, (MPI_Comm comm, int rank, int* nneighbors)) {
    TOPOLOGY_ARGUMENT(MPI_GRAPH, "graph");
    RESULT_ARGUMENT(nneighbors);
    REQUIRE(rank >= 0 && rank < owner->size(), owner, MPI_ERR_RANK,
            "rank is {}; the communicator has {} processes", rank, owner->size());
    auto [begin, end] = neighbor_range(*topology, rank);
    *nneighbors = end - begin;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Graph_neighbors, (MPI_Comm comm, int rank, int maxneighbors, int neighbors[])) {
    TOPOLOGY_ARGUMENT(MPI_GRAPH, "graph");
    REQUIRE(rank >= 0 && rank < owner->size(), owner, MPI_ERR_RANK,
            "rank is {}; the communicator has {} processes", rank, owner->size());
    REQUIRE(maxneighbors >= 0, owner, MPI_ERR_ARG, "maxneighbors is {}; it must not be negative",
            maxneighbors);
    REQUIRE(neighbors || maxneighbors == 0, owner, MPI_ERR_ARG, "neighbors is a null pointer");
    auto [begin, end] = neighbor_range(*topology, rank);
    std::copy_n(topology->edges.begin() + begin, std::min(end - begin, maxneighbors), neighbors);
    return MPI_SUCCESS;
}

// ---- distributed graphs: each process knows its neighbors

namespace {

// Weights may be MPI_UNWEIGHTED on all processes, or MPI_WEIGHTS_EMPTY where there are none.
bool has_weights(const int* weights) { return weights != MPI_UNWEIGHTED; }
bool real_weights(const int* weights) {
    return has_weights(weights) && weights != MPI_WEIGHTS_EMPTY;
}

int check_neighbors(const char* function, Communicator* owner, const char* name, int degree,
                    const int ranks[], const int weights[]) {
    if (degree < 0)
        return fail(function, owner, MPI_ERR_ARG,
                    format("the number of {} is {}; it must not be negative", name, degree));
    if (degree > 0 && !ranks)
        return fail(function, owner, MPI_ERR_ARG, format("{} is a null pointer", name));
    if (degree > 0 && (!weights || weights == MPI_WEIGHTS_EMPTY))
        return fail(function, owner, MPI_ERR_ARG,
                    format("the weights of {} are a null pointer or MPI_WEIGHTS_EMPTY", name));
    for (int i = 0; i < degree; ++i) {
        if (ranks[i] < 0 || ranks[i] >= owner->size())
            return fail(function, owner, MPI_ERR_RANK,
                        format("{}[{}] is {}; the communicator has {} processes", name, i, ranks[i],
                               owner->size()));
        if (real_weights(weights) && weights[i] < 0)
            return fail(function, owner, MPI_ERR_ARG,
                        format("weight {} of {} is negative", i, name));
    }
    return MPI_SUCCESS;
}

// One edge as all processes tell each other.
struct Edge {
    int source, destination, weight;
};

// Every process gets all edges, in the order of the ranks that named them.
int gather_edges(Communicator& owner, MPI_Comm comm, const std::vector<Edge>& mine,
                 std::vector<Edge>& all) {
    MPI_Count bytes = static_cast<MPI_Count>(mine.size() * sizeof(Edge));
    std::vector<MPI_Count> lengths(static_cast<size_t>(owner.size()));
    if (int error = run_allgather(owner, &bytes, lengths.data(), sizeof bytes))
        return fail("MPI_Dist_graph_create", &owner, error, why_unfinished(error));
    std::vector<MPI_Aint> places(lengths.size());
    std::exclusive_scan(lengths.begin(), lengths.end(), places.begin(), MPI_Aint{0});
    all.resize(static_cast<size_t>(places.back() + lengths.back()) / sizeof(Edge));
    return PMPI_Allgatherv_c(mine.data(), bytes, MPI_BYTE, all.data(), lengths.data(),
                             places.data(), MPI_BYTE, comm);
}

MPI_Comm make_distributed(Communicator& owner, std::shared_ptr<Topology> graph, Info* hints) {
    graph->kind = MPI_DIST_GRAPH;
    MPI_Comm made = make_topology_comm(owner, owner.size(), std::move(graph));
    if (hints) {
        resolve(made)->info = Ref(new Info);
        resolve(made)->info->entries = hints->entries;
    }
    return made;
}

}  // namespace

POMONA_MPI(int, Dist_graph_create_adjacent,
           (MPI_Comm comm_old, int indegree, const int sources[], const int sourceweights[],
            int outdegree, const int destinations[], const int destweights[], MPI_Info info, int,
            MPI_Comm* comm_dist_graph)) {
    INTRA_ARGUMENT(owner, comm_old);
    RESULT_ARGUMENT(comm_dist_graph);
    if (int error = check_neighbors(__func__, owner, "sources", indegree, sources, sourceweights))
        return error;
    if (int error =
            check_neighbors(__func__, owner, "destinations", outdegree, destinations, destweights))
        return error;
    Info* hints = resolve(info);
    REQUIRE(hints || info == MPI_INFO_NULL, owner, MPI_ERR_INFO, "info is not a valid info object");
    REQUIRE(has_weights(sourceweights) == has_weights(destweights), owner, MPI_ERR_ARG,
            "only one of sourceweights and destweights is MPI_UNWEIGHTED");
    auto graph = std::make_shared<Topology>();
    graph->sources.assign(sources, sources + indegree);
    graph->destinations.assign(destinations, destinations + outdegree);
    graph->weighted = has_weights(sourceweights);
    if (real_weights(sourceweights))
        graph->source_weights.assign(sourceweights, sourceweights + indegree);
    if (real_weights(destweights))
        graph->destination_weights.assign(destweights, destweights + outdegree);
    *comm_dist_graph = make_distributed(*owner, std::move(graph), hints);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Dist_graph_create,
           (MPI_Comm comm_old, int n, const int sources[], const int degrees[],
            const int destinations[], const int weights[], MPI_Info info, int,
            MPI_Comm* comm_dist_graph)) {
    INTRA_ARGUMENT(owner, comm_old);
    RESULT_ARGUMENT(comm_dist_graph);
    if (int error = check_neighbors(__func__, owner, "sources", n, sources, MPI_UNWEIGHTED))
        return error;
    REQUIRE(n == 0 || degrees, owner, MPI_ERR_ARG, "degrees is a null pointer");
    for (int i = 0; i < n; ++i)
        REQUIRE(degrees[i] >= 0, owner, MPI_ERR_ARG, "degrees[{}] is {}; it must not be negative",
                i, degrees[i]);
    int total = std::accumulate(degrees, degrees + n, 0);
    if (int error = check_neighbors(__func__, owner, "destinations", total, destinations, weights))
        return error;
    Info* hints = resolve(info);
    REQUIRE(hints || info == MPI_INFO_NULL, owner, MPI_ERR_INFO, "info is not a valid info object");

    std::vector<Edge> mine, all;
    for (int i = 0, edge = 0; i < n; ++i)
        for (int j = 0; j < degrees[i]; ++j, ++edge)
            mine.push_back(
                {sources[i], destinations[edge], real_weights(weights) ? weights[edge] : 0});
    if (int error = gather_edges(*owner, comm_old, mine, all)) return error;
    auto graph = std::make_shared<Topology>();
    graph->weighted = has_weights(weights);
    for (const Edge& edge : all) {
        if (edge.destination == owner->rank()) {
            graph->sources.push_back(edge.source);
            if (graph->weighted) graph->source_weights.push_back(edge.weight);
        }
        if (edge.source == owner->rank()) {
            graph->destinations.push_back(edge.destination);
            if (graph->weighted) graph->destination_weights.push_back(edge.weight);
        }
    }
    *comm_dist_graph = make_distributed(*owner, std::move(graph), hints);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Dist_graph_neighbors_count, (MPI_Comm comm, int* indegree, int* outdegree,
                                             int* weighted)) {
    TOPOLOGY_ARGUMENT(MPI_DIST_GRAPH, "distributed graph");
    RESULT_ARGUMENT(indegree);
    RESULT_ARGUMENT(outdegree);
    RESULT_ARGUMENT(weighted);
    *indegree = static_cast<int>(topology->sources.size());
    *outdegree = static_cast<int>(topology->destinations.size());
    *weighted = topology->weighted;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Dist_graph_neighbors,
           (MPI_Comm comm, int maxindegree, int sources[], int sourceweights[], int maxoutdegree,
            int destinations[], int destweights[])) {
    TOPOLOGY_ARGUMENT(MPI_DIST_GRAPH, "distributed graph");
    REQUIRE(maxindegree >= 0 && maxoutdegree >= 0, owner, MPI_ERR_ARG,
            "maxindegree is {} and maxoutdegree is {}; they must not be negative", maxindegree,
            maxoutdegree);
    auto give = [](const std::vector<int>& values, int most, int* place) {
        if (place != MPI_UNWEIGHTED && place != MPI_WEIGHTS_EMPTY && place)
            std::copy_n(values.begin(), std::min<size_t>(values.size(), static_cast<size_t>(most)),
                        place);
    };
    give(topology->sources, maxindegree, sources);
    give(topology->destinations, maxoutdegree, destinations);
    give(topology->source_weights, maxindegree, sourceweights);
    give(topology->destination_weights, maxoutdegree, destweights);
    return MPI_SUCCESS;
}
