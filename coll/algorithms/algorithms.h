// coll/algorithms/algorithms.h: every algorithm of the catalog, and the parts they share.
// Idea: an algorithm is straight-line code over a Builder: blocks, peers, steps. It contains no
// requests, polling or errors, and no order beyond that of its lines.
#pragma once

#include "coll/builder.h"
#include "coll/options.h"

#include <functional>
#include <span>

namespace pomona::coll {

using BuildFunction = void (*)(Builder& s, const Shape& shape, const Options& options);

#define ALGORITHM(collective, name, legal, build, tunable, cost, citation)                         \
    void build(Builder& s, const Shape& shape, const Options& options);
#include "coll/catalog.def"
#undef ALGORITHM

// How chunks.cc cuts what a collective moves: each piece `bytes` long but the last, and how many.
// Of reduce_scatter and alltoall: a block's pieces, of which a chunk has one for each rank.
struct Pieces {
    size_t bytes, count;
};
Pieces chunk_pieces(const Shape& shape);
// Parts of these (chunks.cc), for a team whose ranks share memory.
void reduce_pieces(Builder& s, const Shape& shape, Pieces pieces, bool wanted);
void bcast_pieces(Builder& s, const Shape& shape, Pieces pieces, int first);

// ---- arithmetic
inline int mod(int a, int p) { return ((a % p) + p) % p; }
inline bool is_power_of_two(int p) { return (p & (p - 1)) == 0; }
inline int floor_log2(int p) {
    int log = 0;
    while (p >>= 1) ++log;
    return log;
}
inline int ceil_log2(int p) { return floor_log2(p) + (is_power_of_two(p) ? 0 : 1); }
inline int floor_power_of_two(int p) { return 1 << floor_log2(p); }

// Byte block of share r of n of the shape's vector.
Block share_bytes(const Shape& shape, int n, int r);
// The same for a piece: share r of n of `block`, split at whole elements.
Block share_of_block(Block block, size_t element, int n, int r);
// Blocks of all ranks, for a shape whose results are gathered (allgather).
std::vector<Block> result_blocks(const Shape& shape);
std::vector<Block> input_blocks(const Shape& shape);
std::vector<Block> vector_shares(const Shape& shape);  // share_bytes for each rank

// The ranks of one machine after the other, in the order of shape.ring() where it has one.
std::vector<int> by_machine(const Shape& shape);

inline Region result(Builder& s, Block block) { return s.result(block.offset, block.length); }
inline Region input(Builder& s, Block block) { return s.input(block.offset, block.length); }

// In place, the blocks of an alltoall leave from a copy: those that arrive take their places.
void copy_input_aside(Builder& s, const Shape& shape, const std::vector<Block>& blocks);

// ---- parts, used by several algorithms (each documented where it is defined)
// Where the partial sum of `block` lands at `step` of a ring; `last`: it is one's own result.
using Landing = std::function<Region(int step, int block, bool last)>;
// Rank r ends with the whole reduction of blocks[(r + first) % p], where it landed, or, with
// `to_input`, in that block of the input.
void ring_reduce_scatter(Builder& s, const Shape& shape, const std::vector<Block>& blocks,
                         int first, int segments, const Landing& landing, bool to_input = false);
// Rank r begins with blocks[(r + first) % p] in result().
void ring_allgather(Builder& s, const Shape& shape, const std::vector<Block>& blocks, int first,
                    int segments);

// Trees over ranks relative to the root: whom one's data comes from, whom it goes to.
struct TreePlace {
    int parent = -1;
    std::vector<int> children;  // in the order of sending (largest subtree first)
};
TreePlace binomial_place(int rank, int size, int root);
TreePlace kary_place(int rank, int size, int root, int radix);
int kary_parent(int rank, int size, int root, int radix);  // -1: of the root
// In one of the two trees (0 and 1) of double_tree.cc, over all ranks or all but the root; -1: of a
// tree's top.
int double_tree_parent(const Shape& shape, bool root_apart, int rank, int tree);
// One piece of a reduction up a tree, all of `own` or a part of it.
StepId reduce_piece(Builder& s, const TreePlace& place, std::span<const Region> landings,
                    Region own, Region sum);
void reduce_up(Builder& s, const TreePlace& place, std::span<const Region> landings, Region own,
               Region total, Block piece);

struct Fold {
    Fold(int rank, int size);
    int rank_of(int number) const;
    int power, rest;
    int number;  // among the power of two; -1: stepped out
};
// Ranks that step out give their data to the next rank, which adds its own to it in `target`.
// Returns the region that holds this rank's (or the pair's) data; only for ranks that stay.
Region fold_in(Builder& s, const Shape& shape, const Fold& fold, Region mine, Region target);
// They get the outcome back from there.
void fold_out(Builder& s, const Shape& shape, const Fold& fold, Region data);

// target = left op right where `mine` and `theirs` are ordered by the ranks they come from.
inline void reduce_ordered(Builder& s, bool theirs_lower, Region mine, Region theirs,
                           Region target) {
    if (theirs_lower) s.reduce(theirs, mine, target);
    else s.reduce(mine, theirs, target);
}

// target = parts[0] op parts[1] op ..., in this order. parts[own] is only read; the others,
// scratch, take partial sums. `target` may be parts[own]'s memory: it is written last. With
// kOnlyRead all are others' memory: the target takes the partial sums, and only parts[0] may be its
// memory.
inline constexpr int kOnlyRead = -1;
void add_up(Builder& s, const std::vector<Region>& parts, int own, Region target);

// Places for arriving data: one per use while small, so that all receives are posted at the
// start; else two in turn.
class Landings {
public:
    Landings(Builder& s, size_t bytes) : s_(s), bytes_(bytes) {}
    Region next() {
        if (bytes_ <= kSmall || used_.size() < 2) used_.push_back(s_.scratch(bytes_));
        return bytes_ <= kSmall ? used_.back() : used_[turn_++ % 2];
    }

private:
    static constexpr size_t kSmall = 16384;
    Builder& s_;
    size_t bytes_;
    size_t turn_ = 0;
    std::vector<Region> used_;
};

}  // namespace pomona::coll
