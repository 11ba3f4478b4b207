// coll/algorithms/hierarchy.cc: two levels: ranks of one node, and one leader per node.
// Idea: the slow links between nodes carry each vector once; the parts are the flat algorithms,
// built for a team of ranks. Source: Karonis et al., IPDPS 2000; Graham, Shipman, EuroPVM/MPI 2008.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

namespace {

struct Levels {
    std::vector<int> members;  // of this rank's node
    std::vector<int> leaders;  // the root's node is led by the root
    int leader = 0;

    explicit Levels(const Shape& shape) {
        std::vector<int> seen;
        for (int r = 0; r < shape.size; ++r) {
            int node = shape.nodes[r];
            if (node == shape.nodes[shape.rank]) members.push_back(r);
            if (std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
            seen.push_back(node);
            leaders.push_back(node == shape.nodes[shape.root] ? shape.root : r);
        }
        for (int l : leaders)
            if (shape.nodes[l] == shape.nodes[shape.rank]) leader = l;
    }
};

int position(const std::vector<int>& ranks, int rank) {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// The same collective among `team`, rooted at `root`.
Shape part_of(const Shape& shape, const std::vector<int>& team, int root) {
    Shape part = shape;
    part.rank = position(team, shape.rank);
    part.size = static_cast<int>(team.size());
    part.root = position(team, root);
    part.place({});
    return part;
}

void in_team(Builder& s, const std::vector<int>& team, BuildFunction build, const Shape& part,
             const Options& options) {
    auto outer = s.set_team(team);
    build(s, part, options);
    s.set_team(std::move(outer));
}

// How the ranks of a node work together: by messages, or through chunks of the memory they share.
enum class Within { messages, chunks };

// The node's vectors are reduced into the leader's result().
void reduce_within(Builder& s, const Shape& shape, const Levels& levels, Within within,
                   const Options& options) {
    Shape node = part_of(shape, levels.members, levels.leader);
    if (within == Within::messages)
        return in_team(s, levels.members, reduce_binomial, node, options);
    auto outer = s.set_team(levels.members);
    reduce_pieces(s, node, chunk_pieces(shape), shape.rank == levels.leader);
    s.set_team(std::move(outer));
}

// The leader's result() goes to the node; through chunks from number `first` on.
void bcast_within(Builder& s, const Shape& shape, const Levels& levels, Within within, size_t first,
                  const Options& options) {
    Shape node = part_of(shape, levels.members, levels.leader);
    if (within == Within::messages)
        return in_team(s, levels.members, bcast_binomial, node, options);
    auto outer = s.set_team(levels.members);
    bcast_pieces(s, node, chunk_pieces(shape), static_cast<int>(first));
    s.set_team(std::move(outer));
}

// What a leader does with what stands in its result(), in place.
void among_leaders(Builder& s, const Shape& shape, const Levels& levels, BuildFunction across,
                   int root, const Options& options) {
    s.alias_input(s.result(0, shape.bytes()));
    Shape wide = part_of(shape, levels.leaders, root);
    wide.in_place = true;
    in_team(s, levels.leaders, across, wide, options);
}

void allreduce_levels(Builder& s, const Shape& shape, Within within, BuildFunction across,
                      const Options& options) {
    Levels levels(shape);
    reduce_within(s, shape, levels, within, options);
    if (shape.rank == levels.leader)
        among_leaders(s, shape, levels, across, levels.leaders[0], options);
    bcast_within(s, shape, levels, within, 2 * chunk_pieces(shape).count, options);
}

void bcast_levels(Builder& s, const Shape& shape, Within within, const Options& options) {
    Levels levels(shape);
    if (shape.rank == levels.leader)
        in_team(s, levels.leaders, bcast_binomial, part_of(shape, levels.leaders, shape.root),
                options);
    bcast_within(s, shape, levels, within, 0, options);
}

void reduce_levels(Builder& s, const Shape& shape, Within within, const Options& options) {
    Levels levels(shape);
    bool leads = shape.rank == levels.leader;
    if (leads && shape.rank != shape.root) s.alias_result(s.scratch(shape.bytes()));
    reduce_within(s, shape, levels, within, options);
    if (leads) among_leaders(s, shape, levels, reduce_binomial, shape.root, options);
}

}  // namespace

// Idea: reduce to the node's leader, allreduce among leaders by recursive doubling, bcast.
// Source: as above.     Cost: lg q (2 a1 + n (2 b1 + r)) + lg h (a + n (b + r)) for a power of two;
// other leaders hand theirs to a neighbour first, which adds 2 (a + n b) + n r
// Limits: commutative, several nodes with several ranks
void allreduce_hierarchical(Builder& s, const Shape& shape, const Options& options) {
    allreduce_levels(s, shape, Within::messages, allreduce_recursive_doubling, options);
}

// Idea: the same with Rabenseifner's algorithm among the leaders, for long vectors.
// Source: as above.     Cost: lg q (2 a1 + n (2 b1 + r)) + 2 lg h a + (1-1/h) n (2 b + r)
// Limits: as above
void allreduce_hierarchical_halving(Builder& s, const Shape& shape, const Options& options) {
    allreduce_levels(s, shape, Within::messages, allreduce_rabenseifner, options);
}

// Idea: allreduce_hierarchical with the node's part through chunks of shared memory.
// Source: as above.     Cost: 3 l + (2 q + 3) t + 3 y + e (n (2 v + max(g, v)) + (q-1)/q n (x + g + max(g, v)))
//                             + lg h (a + n (b + r))
// Limits: as above, ranks of a node share a board
void allreduce_hierarchical_chunks(Builder& s, const Shape& shape, const Options& options) {
    allreduce_levels(s, shape, Within::chunks, allreduce_recursive_doubling, options);
}

// Idea: the same with Rabenseifner's algorithm among the leaders.
// Source: as above.     Cost: as above, with 2 lg h a + (1-1/h) n (2 b + r) among the leaders
// Limits: as above
void allreduce_hierarchical_chunks_halving(Builder& s, const Shape& shape, const Options& options) {
    allreduce_levels(s, shape, Within::chunks, allreduce_rabenseifner, options);
}

// Idea: the root sends to the leaders, each leader within its node.
// Source: as above.     Cost: lg h (a + n b) + lg q (a1 + n b1)     Limits: several nodes
void bcast_hierarchical(Builder& s, const Shape& shape, const Options& options) {
    bcast_levels(s, shape, Within::messages, options);
}

// Idea: the same with the node's part through chunks of shared memory.
// Source: as above.     Cost: lg h (a + n b) + l + t + 3 y + e (n/T v + n max(g, v))
// Limits: several nodes, ranks of a node share a board
void bcast_hierarchical_chunks(Builder& s, const Shape& shape, const Options& options) {
    bcast_levels(s, shape, Within::chunks, options);
}

// Idea: reduce to the leaders, then among them to the root.
// Source: as above.     Cost: lg h (a + n (b + r)) + lg q (a1 + n (b1 + r))
// Limits: commutative, several nodes
void reduce_hierarchical(Builder& s, const Shape& shape, const Options& options) {
    reduce_levels(s, shape, Within::messages, options);
}

// Idea: the same with the node's part through chunks of shared memory.
// Source: as above.     Cost: 2 (l + (q+1) t) + e (n v + (q-1)/q n (x + g + max(g, v))) + lg h (a + n (b + r))
// Limits: as above, ranks of a node share a board
void reduce_hierarchical_chunks(Builder& s, const Shape& shape, const Options& options) {
    reduce_levels(s, shape, Within::chunks, options);
}

// Idea: wait within the node, then among leaders, then tell the node.
// Source: as above.     Cost: 2 lg q a1 + lg h a     Limits: several nodes
void barrier_hierarchical(Builder& s, const Shape& shape, const Options& options) {
    Levels levels(shape);
    TreePlace place = binomial_place(position(levels.members, shape.rank),
                                     static_cast<int>(levels.members.size()),
                                     position(levels.members, levels.leader));
    auto outer = s.set_team(levels.members);
    for (int child : place.children) s.await(child);
    if (!place.children.empty()) s.join();
    if (place.parent >= 0) s.signal(place.parent), s.await(place.parent);
    else
        in_team(s, levels.leaders, barrier_dissemination,
                part_of(shape, levels.leaders, levels.leaders[0]), options);
    if (!place.children.empty()) s.join();
    for (int child : place.children) s.signal(child);
    s.set_team(std::move(outer));
}

// The ranks of one machine after the other, the root's first and of these the root: the order in
// which a chain carries each piece over each machine's line once, however ranks are numbered.
static std::vector<int> chain_order(const Shape& shape, int root) {
    std::vector<int> order = by_machine(shape);
    auto of_root = [&](int r) { return shape.nodes[r] == shape.nodes[root]; };
    std::rotate(order.begin(), std::find_if(order.begin(), order.end(), of_root), order.end());
    std::swap(order[0], *std::find(order.begin(), order.end(), root));
    return order;
}

// Idea: bcast_chain through one machine after the other, in the order that their links make
// quickest.
// Source: Pjesivac-Grbovic et al., 2007; the order: Karonis et al., IPDPS 2000.
// Cost: (p-1)(a + n/S b) + (S-1)(o + n/S b)     Limits: several machines, as of hierarchical_ring
void bcast_hierarchical_chain(Builder& s, const Shape& shape, const Options& options) {
    auto order = chain_order(shape, shape.root);
    in_team(s, order, bcast_chain, part_of(shape, order, shape.root), options);
}

// Idea: reduce_chain through one machine after the other.
// Source: as above.     Cost: (p-1)(a + n/S (b + r)) + (S-1)(o + n/S b)     Limits: commutative, several machines
void reduce_hierarchical_chain(Builder& s, const Shape& shape, const Options& options) {
    auto order = chain_order(shape, shape.root);
    in_team(s, order, reduce_chain, part_of(shape, order, shape.root), options);
}

// Idea: allreduce_chain through one machine after the other.
// Source: as above.     Cost: 2 (p-1 + S-1) (a + n/S b) + ...     Limits: as above
void allreduce_hierarchical_chain(Builder& s, const Shape& shape, const Options& options) {
    auto order = chain_order(shape, 0);
    in_team(s, order, allreduce_chain, part_of(shape, order, order[0]), options);
}

}  // namespace pomona::coll
