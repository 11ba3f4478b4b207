/* Goal: graph and distributed-graph topologies and the neighborhood collectives on them and on
 * grids, in all forms (MPI-5.0 sections 8.5.3 to 8.7). Method: a directed ring with chords whose
 * edges are known; each edge carries its own values.
 */
#include "coll_forms.h"

enum { n = 40, edges_max = 16 };
static int rank, size;

FORMS(Neighbor_allgather, neighbor_allgather,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       MPI_Comm comm),
      in, sn, st, out, rn, rt, comm)
FORMS(Neighbor_alltoall, neighbor_alltoall,
      (enum form form, const void* in, int sn, MPI_Datatype st, void* out, int rn, MPI_Datatype rt,
       MPI_Comm comm),
      in, sn, st, out, rn, rt, comm)

/* sources and destinations in the order the communicator reports them. Each round has buffers and
 * values of its own, and the third other places for the v-forms' blocks. */
static void exchange_once(enum form f, MPI_Comm comm, int in_degree, const int* sources,
                          int out_degree, const int* destinations, int round) {
    static int memory[2][edges_max * n + 8];
    int *in = memory[0] + round % 4, *out = memory[1] + round % 3, i, k, bad = 0;
    int counts_to[edges_max], counts_from[edges_max], at_to[edges_max], at_from[edges_max];
    MPI_Aint bytes_to[edges_max], bytes_from[edges_max];
    MPI_Datatype types[edges_max];
    MPI_Request r;
    for (i = 0; i < n; ++i) in[i] = element(rank, 0, i + round);
    for (i = 0; i < edges_max * n; ++i) out[i] = -1;
    CHECK_OK(do_neighbor_allgather(f, in, n, MPI_INT, out, n, MPI_INT, comm));
    for (k = 0; k < in_degree; ++k) {
        for (i = 0; i < n; ++i) {
            int expected = sources[k] == MPI_PROC_NULL ? -1 : element(sources[k], 0, i + round);
            bad += out[k * n + i] != expected;
        }
    }
    CHECK_EQ(0, bad);
    for (k = 0; k < out_degree; ++k) {
        for (i = 0; i < n; ++i) in[k * n + i] = element(rank, destinations[k], i + round);
    }
    for (i = 0; i < edges_max * n; ++i) out[i] = -1;
    CHECK_OK(do_neighbor_alltoall(f, in, n, MPI_INT, out, n, MPI_INT, comm));
    for (bad = k = 0; k < in_degree; ++k) {
        for (i = 0; i < n; ++i) {
            int expected = sources[k] == MPI_PROC_NULL ? -1 : element(sources[k], rank, i + round);
            bad += out[k * n + i] != expected;
        }
    }
    CHECK_EQ(0, bad);
    /* The v and w forms: edge a -> b carries 1 + (a + b) % 3 elements. */
    for (k = 0; k < edges_max; ++k) types[k] = MPI_INT;
    for (k = 0; k < out_degree; ++k) {
        counts_to[k] = destinations[k] == MPI_PROC_NULL ? 2 : 1 + (rank + destinations[k]) % 3;
        at_to[k] = (round == 2 ? k : out_degree - 1 - k) * n;
        bytes_to[k] = at_to[k] * (MPI_Aint)sizeof(int);
        for (i = 0; i < n; ++i) in[at_to[k] + i] = element(rank, destinations[k], i + 5 + round);
    }
    for (k = 0; k < in_degree; ++k) {
        counts_from[k] = sources[k] == MPI_PROC_NULL ? 2 : 1 + (rank + sources[k]) % 3;
        at_from[k] = (round == 2 ? k : in_degree - 1 - k) * n;
        bytes_from[k] = at_from[k] * (MPI_Aint)sizeof(int);
    }
    for (int wide = 0; wide < 2; ++wide) {
        for (i = 0; i < edges_max * n; ++i) out[i] = -1;
        if (!wide && f == Nonblocking) {
            CHECK_OK(MPI_Ineighbor_alltoallv(in, counts_to, at_to, MPI_INT, out, counts_from,
                                             at_from, MPI_INT, comm, &r));
            CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else if (!wide) {
            CHECK_OK(MPI_Neighbor_alltoallv(in, counts_to, at_to, MPI_INT, out, counts_from,
                                            at_from, MPI_INT, comm));
        } else if (f == Nonblocking) {
            CHECK_OK(MPI_Ineighbor_alltoallw(in, counts_to, bytes_to, types, out, counts_from,
                                             bytes_from, types, comm, &r));
            CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_Neighbor_alltoallw(in, counts_to, bytes_to, types, out, counts_from,
                                            bytes_from, types, comm));
        }
        for (bad = k = 0; k < in_degree; ++k) {
            for (i = 0; i < n; ++i) {
                int there = sources[k] != MPI_PROC_NULL && i < counts_from[k];
                bad += out[at_from[k] + i] != (there ? element(sources[k], rank, i + 5 + round) : -1);
            }
        }
        CHECK_EQ(0, bad);
    }
    /* allgatherv: everyone sends 1 + rank % 3 elements to all its destinations. */
    for (i = 0; i < edges_max * n; ++i) out[i] = -1;
    for (i = 0; i < n; ++i) in[i] = element(rank, 9, i + round);
    for (k = 0; k < in_degree; ++k) {
        counts_from[k] = sources[k] == MPI_PROC_NULL ? 1 : 1 + sources[k] % 3;
    }
    if (f == Nonblocking) {
        CHECK_OK(MPI_Ineighbor_allgatherv(in, 1 + rank % 3, MPI_INT, out, counts_from, at_from,
                                          MPI_INT, comm, &r));
        CHECK_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        CHECK_OK(MPI_Neighbor_allgatherv(in, 1 + rank % 3, MPI_INT, out, counts_from, at_from,
                                         MPI_INT, comm));
    }
    for (bad = k = 0; k < in_degree; ++k) {
        for (i = 0; i < n; ++i) {
            int there = sources[k] != MPI_PROC_NULL && i < counts_from[k];
            bad += out[at_from[k] + i] != (there ? element(sources[k], 9, i + round) : -1);
        }
    }
    CHECK_EQ(0, bad);
}

/* Blocking calls again and again, as programs do. */
static void exchange(enum form f, MPI_Comm comm, int in_degree, const int* sources, int out_degree,
                     const int* destinations) {
    int round;
    for (round = 0; round < (f == Blocking ? 6 : 1); ++round)
        exchange_once(f, comm, in_degree, sources, out_degree, destinations, round);
}

/* Ranks send to the next and the one after; built from the adjacent and from the general call. */
static void dist_graph(int adjacent) {
    int sources[2] = {(rank + size - 1) % size, (rank + size - 2 + size) % size};
    int destinations[2] = {(rank + 1) % size, (rank + 2) % size}, weights_in[2] = {3, 4};
    int weights_out[2] = {3, 4}, in = -1, out = -1, weighted = -1, kind = -1, k, f;
    int got_sources[2], got_destinations[2], got_in[2] = {0, 0}, got_out[2] = {0, 0};
    int degree = 2, me = rank;
    MPI_Comm graph;
    context("dist_graph%s", adjacent ? ", adjacent" : "");
    if (adjacent) {
        CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, weights_in, 2,
                                                destinations, weights_out, MPI_INFO_NULL, 0, &graph));
    } else {
        CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, destinations, weights_out,
                                       MPI_INFO_NULL, 0, &graph));
    }
    CHECK_OK(MPI_Topo_test(graph, &kind));
    CHECK_EQ(MPI_DIST_GRAPH, kind);
    CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK_EQ(2, in);
    CHECK_EQ(2, out);
    CHECK(weighted);
    CHECK_OK(MPI_Dist_graph_neighbors(graph, 2, got_sources, got_in, 2, got_destinations, got_out));
    for (k = 0; k < 2; ++k) {
        if (adjacent) {
            CHECK_EQ(sources[k], got_sources[k]);
            CHECK_EQ(weights_in[k], got_in[k]);
            CHECK_EQ(destinations[k], got_destinations[k]);
            CHECK_EQ(weights_out[k], got_out[k]);
        } else {
            /* Any order, but source and weight belong together. */
            int steps = (rank - got_sources[k] + size) % size;
            if (size > 2) CHECK_EQ(steps == 1 ? 3 : 4, got_in[k]);
        }
    }
    for (f = 0; f < form_count; ++f) {
        context("dist_graph%s, %s", adjacent ? ", adjacent" : "", form_names[f]);
        exchange((enum form)f, graph, 2, got_sources, 2, got_destinations);
    }
    CHECK_OK(MPI_Comm_free(&graph));
}

static void unweighted(void) {
    int next = (rank + 1) % size, before = (rank + size - 1) % size, in, out, weighted = 1;
    MPI_Comm graph, twin;
    context("dist_graph without weights, and without edges");
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next,
                                            MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
    CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK_EQ(0, weighted);
    CHECK_OK(MPI_Comm_dup(graph, &twin));
    exchange(Blocking, twin, 1, &before, 1, &next);
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Comm_free(&graph));
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL,
                                            MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph));
    CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK_EQ(0, in);
    CHECK_EQ(0, out);
    exchange(Blocking, graph, 0, NULL, 0, NULL);
    CHECK_OK(MPI_Comm_free(&graph));
}

/* An undirected ring as a general graph. */
static void graph(void) {
    int* indx = malloc((size_t)size * sizeof(int));
    int* edges = malloc((size_t)size * 2 * sizeof(int));
    int* got = malloc((size_t)size * 2 * sizeof(int));
    int i, nodes = -1, count = -1, kind, neighbors[2], f;
    MPI_Comm ring;
    context("graph");
    for (i = 0; i < size; ++i) {
        indx[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, size, indx, edges, 0, &ring));
    CHECK_OK(MPI_Topo_test(ring, &kind));
    CHECK_EQ(MPI_GRAPH, kind);
    CHECK_OK(MPI_Graphdims_get(ring, &nodes, &count));
    CHECK_EQ(size, nodes);
    CHECK_EQ(2 * size, count);
    CHECK_OK(MPI_Graph_get(ring, size, 2 * size, indx, got));
    CHECK_MEM(edges, got, (size_t)size * 2 * sizeof(int));
    CHECK_OK(MPI_Graph_neighbors_count(ring, rank, &count));
    CHECK_EQ(2, count);
    CHECK_OK(MPI_Graph_neighbors(ring, rank, 2, neighbors));
    CHECK_EQ(edges[2 * rank], neighbors[0]);
    CHECK_EQ(edges[2 * rank + 1], neighbors[1]);
    for (f = 0; f < form_count; ++f) {
        context("graph, %s", form_names[f]);
        exchange((enum form)f, ring, 2, neighbors, 2, neighbors);
    }
    CHECK_OK(MPI_Graph_map(MPI_COMM_WORLD, size, indx, edges, &i));
    CHECK(i >= 0 && i < size);
    CHECK_OK(MPI_Comm_free(&ring));
    free(indx);
    free(edges);
    free(got);
}

/* Grids: neighbours in the order minus, plus of each dimension; MPI_PROC_NULL at open ends.
 * Periodic dimensions are long enough here that the two neighbours are distinct. */
static void grid(int periodic) {
    int dims[2] = {0, 0}, periods[2] = {periodic, 0}, neighbors[4], f;
    MPI_Comm cart;
    if (periodic && size < 3) return;
    if (periodic) dims[1] = 1;
    CHECK_OK(MPI_Dims_create(size, 2, dims));
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart));
    CHECK_OK(MPI_Cart_shift(cart, 0, 1, &neighbors[0], &neighbors[1]));
    CHECK_OK(MPI_Cart_shift(cart, 1, 1, &neighbors[2], &neighbors[3]));
    for (f = 0; f < form_count; ++f) {
        context("%dx%d grid, %s", dims[0], dims[1], form_names[f]);
        exchange((enum form)f, cart, 4, neighbors, 4, neighbors);
    }
    CHECK_OK(MPI_Comm_free(&cart));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    rank = check_rank;
    size = check_size;
    /* With two ranks or fewer the two edges of a ring join the same ranks, where values that name
     * only the ranks cannot tell them apart by position; order is then checked by counts alone. */
    if (size >= 3) {
        dist_graph(1);
        dist_graph(0);
        graph();
    }
    unweighted();
    grid(0);
    grid(1);
    return finish();
}
