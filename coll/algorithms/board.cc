// coll/algorithms/board.cc: small collectives of ranks that share memory, over the board.
// Idea: every rank shows its data once, in its own place, and looks at what it needs of the
// others'. One step of communication whatever the number of ranks, so that a rank gets by with one
// turn of its core where ranks outnumber cores; sums are added up in rank order, the same bits at
// every rank.
// Source: Graham, Shipman, "MPI Support for Multi-core Architectures: Optimized Shared Memory
// Collectives", EuroPVM/MPI 2008 (the flat variants); costs in the letters of catalog.def.
#include "coll/algorithms/algorithms.h"
#include "coll/carrier.h"

namespace pomona::coll {

static_assert(kPostBytes == 4096, "catalog.def has the number");

namespace {

// One's own `part` and, looked at, the same part of everyone else's post of `total` bytes.
std::vector<Region> all_parts(Builder& s, const Shape& shape, Block part, size_t total, int ranks) {
    std::vector<Region> parts(ranks);
    for (int step = 0; step < shape.size; ++step) {
        int from = (shape.rank + step) % shape.size;  // not all at the same post at once
        if (from >= ranks) continue;
        if (from == shape.rank) parts[from] = input(s, part);
        else s.look(from, part.offset, total, parts[from] = s.scratch(part.length));
    }
    return parts;
}

}  // namespace

// Idea: everyone shows that it has come and looks for everyone.
// Source: as above.     Cost: l + p u     Limits: ranks that share a board
void barrier_board(Builder& s, const Shape& shape, const Options&) {
    s.post_mark();
    for (int step = 1; step < shape.size; ++step) s.look_mark((shape.rank + step) % shape.size);
}

// Idea: the root shows its data; the others take it.
// Source: as above.     Cost: l + 2u + n (c + b)     Limits: as above, n <= 4096
void bcast_board(Builder& s, const Shape& shape, const Options&) {
    Region data = s.result(0, shape.bytes());
    if (shape.rank == shape.root) s.post(data);
    else s.look(shape.root, 0, data.length, data);
}

// Idea: all but the root show theirs; the root adds them up.
// Source: as above.     Cost: l + p u + n c + (p-1) n (b + r)     Limits: as above, n <= 4096
void reduce_board(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    if (shape.rank != shape.root) return void(s.post(s.input(0, n)));
    add_up(s, all_parts(s, shape, {0, n}, n, shape.size), shape.rank, s.result(0, n));
}

// Idea: everyone shows its vector and adds up all of them.
// Source: as above.     Cost: l + p u + n c + (p-1) n (b + r)     Limits: as above, n <= 4096
void allreduce_board(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    s.post(s.input(0, n));
    add_up(s, all_parts(s, shape, {0, n}, n, shape.size), shape.rank, s.result(0, n));
}

// Idea: everyone shows its vector and adds up its own block of all of them.
// Source: as above.     Cost: l + p u + n c + (p-1) m (b + r)     Limits: as above, n <= 4096
void reduce_scatter_board(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    Block own = blocks[shape.rank];
    size_t n = blocks.back().offset + blocks.back().length;
    s.post(s.input(0, n));
    add_up(s, all_parts(s, shape, own, n, shape.size), shape.rank, s.result(0, own.length));
}

// Idea: everyone shows its block and takes the others'.
// Source: as above.     Cost: p u + m c + max(l, m c) + (p-1) m b     Limits: as above, m <= 4096
void allgather_board(Builder& s, const Shape& shape, const Options&) {
    auto blocks = result_blocks(shape);
    Region own = result(s, blocks[shape.rank]);
    Region mine = shape.in_place ? own : s.input(0, own.length);
    s.post(mine);
    for (int step = 1; step < shape.size; ++step) {
        int from = (shape.rank + step) % shape.size;
        s.look(from, 0, blocks[from].length, result(s, blocks[from]));
    }
    s.copy(mine, own);
}

// Idea: everyone shows all its blocks and takes the one for itself from each.
// Source: as above.     Cost: p u + n c + max(l, m c) + (p-1) m b     Limits: as above, n <= 4096
void alltoall_board(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes(), n = m * static_cast<size_t>(shape.size);
    s.post(s.input(0, n));
    for (int step = 1; step < shape.size; ++step) {
        int from = (shape.rank + step) % shape.size;
        s.look(from, shape.rank * m, n, result(s, shape.result_block(from)));
    }
    Block own = shape.input_block(shape.rank);
    s.copy(input(s, own), result(s, shape.result_block(shape.rank)));
}

// Idea: all but the root show their blocks; the root takes them.
// Source: as above.     Cost: l + p u + m c + (p-1) m b     Limits: as above, m <= 4096
void gather_board(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes();
    if (shape.rank != shape.root) return void(s.post(s.input(0, m)));
    for (int r = 0; r < shape.size; ++r)
        if (r != shape.root) s.look(r, 0, m, result(s, shape.result_block(r)));
    if (!shape.in_place) s.copy(s.input(0, m), result(s, shape.result_block(shape.root)));
}

// Idea: the root shows all blocks; each takes its own.
// Source: as above.     Cost: l + 2u + n c + m b     Limits: as above, n <= 4096
void scatter_board(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes(), n = m * static_cast<size_t>(shape.size);
    if (shape.rank != shape.root)
        return void(s.look(shape.root, shape.rank * m, n, s.result(0, m)));
    s.post(s.input(0, n));
    if (!shape.in_place) s.copy(input(s, shape.input_block(shape.root)), s.result(0, m));
}

// Idea: everyone shows its vector and adds up those of the ranks up to its own.
// Source: as above.     Cost: l + p u + n c + (p-1) n (b + r)     Limits: as above, n <= 4096
void scan_board(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    s.post(s.input(0, n));
    add_up(s, all_parts(s, shape, {0, n}, n, shape.rank + 1), shape.rank, s.result(0, n));
}

// Idea: the same without one's own.
// Source: as above.     Cost: l + p u + n c + (p-1) n b + (p-2) n r     Limits: as above, n <= 4096
void exscan_board(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    s.post(s.input(0, n));
    if (!shape.rank) return;
    add_up(s, all_parts(s, shape, {0, n}, n, shape.rank), shape.rank, s.result(0, n));
}

}  // namespace pomona::coll
