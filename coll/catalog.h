// coll/catalog.h: the rows of catalog.def, and the facts their limits and formulas speak of.
#pragma once

#include "coll/cost.h"
#include "coll/options.h"
#include "coll/builder.h"

#include <span>
#include <utility>

namespace pomona::coll {

// One shape on one machine in the letters of catalog.def; numbers are doubles because formulas are.
struct Facts {
    Facts(const Shape& shape, const Machine& machine, const Options& options);

    double p, lg, rest, down, lgdown, lgless;  // down: largest power of two up to p; lgless: of p-1
    double n, m, S, k, depth, batches;         // depth of a k-ary tree
    double a, o, b, a1, o1, b1, c, r;
    double om;  // o of messages of m bytes
    double d;   // what a rank does to hand a segment over
    double f;   // more per byte that its sender has just made or received
    // Times longer per byte while all ranks move data: through the same memory, or through their
    // machine's line to the others; and in a ring, where some neighbours are on other machines.
    double w, wring, anext, bnext;
    // Of steps that double their distance, on average: a message's latency, and how many times
    // longer a byte takes (w on one machine). Between pairs: of equal messages, and of halved ones
    // whose longest goes to the nearest or to the farthest; to a rank at a distance; down a
    // binomial tree (1 on one machine).
    double apair, wpair, wnear, wfar, ashift, wshift, wshifts, atree, wtree;
    // From neighbour to neighbour by number, on average: a message's latency and a byte; while each
    // rank exchanges with all others at once, times longer per byte, while it does so with one
    // after the other, and while one root does (1 on one machine).
    double aring, bring, wall, weach, wroot;
    // Of a chain by number and of one through one machine after the other: a message's latency and
    // a byte, on average, and what it takes to hand a piece on, while all ranks do.
    double achain, bchain, dchain, anode, bnode, dnode;
    // Of lanes, which all send a block to their like on the next machine: from one to the next.
    double lane_step;
    double z;  // where the input lies in the result: messages land aside first, near links only
    double h, q, lgh, lgq;
    // Of h machines as `down` and `lgdown` of p ranks; what those beyond add to an allreduce of the
    // leaders.
    double hd, lgd, odd;
    // Where the ranks of a machine share its line to others: how much longer the messages of a
    // k-ary tree by number take, and those of two trees; both up the tree and down again. Else 0.
    double kwait, kwaits, twait, twaits;
    double l, post, u;  // the board: until a post is seen, and what a post and a look take
    double T;           // pieces of what goes through chunks, see chunk_pieces()
    double t;           // to see all of them, where several are under way
    double y;           // to see a chunk; to show one takes twice that
    // Per byte of another's chunk in the caches, and of one that only its reader wants, as far
    // from them as all of the vector is; per byte that is reduced in the caches.
    double g, gfar, x;
    double v;  // per byte copied between a buffer and a chunk; the latter is in the caches
    double e;  // times longer that bytes take through chunks, as measured
    // One node's part in a reduction through chunks, and in a bcast.
    double chunk_reduce, chunk_bcast;
    double ring_reduce;                     // a ring's reduce-scatter with segments
    double ring_gather;                     // its allgather
    double by_node_reduce, by_node_gather;  // of a ring that goes from machine to machine once
    double direct_reduce, direct_gather;    // of a direct exchange: with sums, and then of these
    double half, levels_apart;  // of two trees over all ranks but the root: how many levels
    int root;
    bool commutative, irregular, in_place, even, levels;
    // Of given trees: the most levels; the most that a rank sends or takes in, and the most that
    // goes from one rank to another, in vectors (in blocks where each has its own); there are some
    // for this shape.
    double height, busiest, laden;
    double tree, hop;  // the greatest share of one; a message's latency without others between
    // A byte (of the vector, or of a block) at the busiest rank or machine, in one direction; the
    // most links of trees that a rank has.
    double pace, ways;
    double along;  // the longest way down a tree, by its pairs' latencies
    bool forest;
    bool ordered;  // a ring has an order of its own, by unlike links
    bool apart;    // each two of several machines have a line of their own
    // All ranks share a board; what is moved can go through chunks of it; the same of each node's
    // ranks, of several nodes.
    bool board, chunks, shared;
    bool overlaps;  // a transfer and a computation, see both()

    static double max(double x, double y) { return x > y ? x : y; }
    static double min(double x, double y) { return x < y ? x : y; }
    double both(double x, double y) const { return overlaps ? max(x, y) : x + y; }

    void set_steps(const Shape& shape);
    void set_tree_lines(const Shape& shape);
    void set_direct(const Shape& shape);
    void set_chains(const Shape& shape, const Machine& machine);
    void set_forest(const Shape& shape, const Machine& machine, const Forest* trees);
    void set_pace(const Shape& shape, const Machine& machine, const Forest& trees);
    double mean_of_edges(double far, double near, double far_edges) const;
    // A message to the right neighbour, in the mean and to one on another machine; a byte of it, at
    // the busiest line and in the mean.
    struct Around {
        double message, crossing, pace, mean;
    };
    Around around(const Machine& machine, std::span<const int> nodes, double times,
                  double far_edges) const;
    std::pair<double, double> ring_costs(const Shape& shape, const Machine& machine,
                                         const Around& links) const;

    // The limits and formulas of the rows: written in catalog.def, so that they name these members.
#define ALGORITHM(collective, name, legal, build, tunable, cost, citation)                         \
    bool legal_##build() const;                                                                    \
    double cost_##build() const;
#include "coll/catalog.def"
#undef ALGORITHM
};

// The options of an algorithm, as catalog.def declares them.
enum Tunable : unsigned {
    none = 0,
    segments = 1,       // pieces of the vector
    ring_segments = 2,  // pieces of a block, which hide its reduction
    cut_blocks = 4,     // pieces of a block: only where somebody asks for them
    radix = 8,          // children of a node; exchanges under way
    of_tree = segments | radix,
    given_trees = 16,  // the user's trees (coll/forest.h), without which a row is not legal
    lines_apart = 32,  // compared with others only where each two machines have a line of their own
    packed_trees = 64,   // those that fill the cables (coll/cables.h); not legal without, either
    speed_trees = 128,   // those with shares by speed (coll/uneven.h); likewise
    island_trees = 256,  // those of islands (coll/islands.h); likewise
    by_trees = given_trees | packed_trees | speed_trees | island_trees
};

struct Algorithm {
    Collective collective;
    const char* name;
    bool (*legal)(const Facts&);
    void (*build)(Builder&, const Shape&, const Options&);
    double (*cost)(const Facts&);  // nanoseconds
    const char* limits;            // the expressions as written
    const char* formula;
    const char* citation;
    const char* builder;
    unsigned tunables;  // of Tunable
    bool uses_segments, uses_radix;
};

std::span<const Algorithm> catalog();
std::span<const Algorithm> catalog_of(Collective collective);  // rows of one collective
const Algorithm* find_algorithm(Collective collective, std::string_view name);

// Builds one row's schedule; the row must be legal for the shape.
Schedule build_schedule(const Algorithm& algorithm, const Shape& shape, const Options& options,
                        HazardRules rules = {});

}  // namespace pomona::coll
