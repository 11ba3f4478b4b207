// coll/algorithms/chunks.cc: large collectives of ranks that share memory, through chunks of it.
// Idea: every rank copies its data once into chunks that all see, piece by piece; each adds up its
// own slice of a piece straight from the others' chunks and shows the sum; results are copied out
// once. A few chunks are in flight, so that ranks copy and add at the same time and all of it stays
// in the caches. Sums are added up in rank order, one rank each: the same bits everywhere.
// Source: Graham, Shipman, "MPI Support for Multi-core Architectures: Optimized Shared Memory
// Collectives", EuroPVM/MPI 2008; costs in the letters of catalog.def.
#include "coll/algorithms/algorithms.h"
#include "coll/carrier.h"

#include <algorithm>

namespace pomona::coll {

namespace {

// The i-th piece of a block; empty behind its end.
Block piece_of(Block block, size_t piece, size_t i) {
    size_t from = std::min(i * piece, block.length);
    return {block.offset + from, std::min(piece, block.length - from)};
}

// Chunks that have a part for each rank: for all of their pieces, those of `blocks`.
struct Parts {
    Builder& s;
    const Shape& shape;
    const std::vector<Block>& blocks;  // of the input
    size_t total;                      // bytes of the vector
    Pieces pieces = chunk_pieces(shape);
    size_t chunk = pieces.bytes * static_cast<size_t>(shape.size);

    // The part for rank `r` in the i-th chunk of rank `of`.
    Region part(int of, size_t i, int r, size_t length) const {
        return s.chunk(of, static_cast<int>(i), chunk).slice(r * pieces.bytes, length);
    }
    // Fills the i-th chunk, but for one's own part, and shows it.
    StepId show(size_t i) const {
        auto index = static_cast<int>(i);
        s.room(index, chunk, total);
        for (int step = 1; step < shape.size; ++step) {
            int r = (shape.rank + step) % shape.size;
            Block theirs = piece_of(blocks[r], pieces.bytes, i);
            s.copy(input(s, theirs), part(shape.rank, i, r, theirs.length));
        }
        return s.show(index, chunk, total);
    }
};

}  // namespace

// The vectors of `team` are reduced: piece i stands in chunk 2i, the sum of a rank's slice in 2i +
// 1. Those for whom they are `wanted` take the sums into result(). Shape and pieces: of the team.
void reduce_pieces(Builder& s, const Shape& shape, Pieces pieces, bool wanted) {
    size_t n = shape.bytes();
    if (shape.size == 1) return void(s.copy(s.input(0, n), s.result(0, n)));
    s.set_chunk_lanes(2);
    for (size_t i = 0; i < pieces.count; ++i) {
        Block whole = piece_of({0, n}, pieces.bytes, i);
        auto slice = [&](int r) {
            return share_of_block({0, whole.length}, shape.element, shape.size, r);
        };
        int shown = static_cast<int>(2 * i), sums = shown + 1;
        Block own = slice(shape.rank);
        size_t end = own.offset + own.length;
        Region mine = input(s, whole), chunk = s.chunk(shape.rank, shown, whole.length);
        s.room(shown, whole.length, n);
        s.copy(mine.slice(0, own.offset), chunk.slice(0, own.offset));  // one's own nobody needs
        s.copy(mine.slice(end, whole.length - end), chunk.slice(end, whole.length - end));
        s.show(shown, whole.length, n);

        Region out = wanted ? result(s, whole) : Region{};
        if (own.length) {
            std::vector<Region> parts(shape.size);
            for (int step = 0; step < shape.size; ++step) {
                int r = (shape.rank + step) % shape.size;
                if (r != shape.rank) s.see(r, shown, whole.length, n);
                Region theirs = r == shape.rank ? mine : s.chunk(r, shown, whole.length);
                parts[r] = theirs.slice(own.offset, own.length);
            }
            Region sum = s.chunk(shape.rank, sums, own.length);
            s.room(sums, own.length, n);
            add_up(s, parts, kOnlyRead, sum);
            s.show(sums, own.length, n);
            if (wanted) s.copy(sum, out.slice(own.offset, own.length));
        }
        s.pass(shown);
        for (int step = 1; wanted && step < shape.size; ++step) {
            int r = (shape.rank + step) % shape.size;
            Block theirs = slice(r);
            if (!theirs.length) continue;
            s.see(r, sums, theirs.length, n);
            s.copy(s.chunk(r, sums, theirs.length), out.slice(theirs.offset, theirs.length));
        }
        s.pass(sums);
    }
}

// The root of `team` shows result() in chunks from `first` on, the others take it.
void bcast_pieces(Builder& s, const Shape& shape, Pieces pieces, int first) {
    size_t n = shape.bytes();
    if (shape.size == 1) return;
    s.set_chunk_lanes(1);
    for (size_t i = 0; i < pieces.count; ++i) {
        Region data = result(s, piece_of({0, n}, pieces.bytes, i));
        int index = first + static_cast<int>(i);
        Region chunk = s.chunk(shape.root, index, data.length);
        if (shape.rank == shape.root) {
            s.room(index, data.length, n);
            s.copy(data, chunk);
            s.show(index, data.length, n);
        } else {
            s.see(shape.root, index, data.length, n);
            s.copy(chunk, data);
        }
        s.pass(index);
    }
}

Pieces chunk_pieces(const Shape& shape) {
    bool sums = shape.collective == Collective::allreduce || shape.collective == Collective::reduce;
    bool blocks =
        shape.collective == Collective::reduce_scatter || shape.collective == Collective::alltoall;
    size_t length = shape.bytes();
    if (shape.irregular) {
        length = 0;
        auto lengths =
            shape.collective == Collective::allgather ? shape.result_blocks : shape.input_blocks;
        for (Block block : lengths) length = std::max(length, block.length);
    }
    // Of a chunk that has a part for each rank, the part.
    size_t parts = blocks ? static_cast<size_t>(shape.size) : 1;
    constexpr size_t least = 32 << 10, count_least = 4, count_most = 1024;
    size_t chunk = sums ? 32 << 10 : blocks && shape.size > 8 ? kPieceBytes : 64 << 10;
    while (chunk > least && length / (chunk / parts) < count_least) chunk /= 2;  // to overlap
    while (chunk < kPieceBytes && length / (chunk / parts) > count_most) chunk *= 2;
    size_t bytes = std::max(chunk / parts / shape.element, size_t{1}) * shape.element;
    return {bytes, (length + bytes - 1) / bytes};
}

// Idea: the root shows piece by piece, the others take each.
// Source: as above.     Cost: l + t + 3 y + e (n/T v + n (max(g, v) + f/2))     Limits: ranks that share a board
void bcast_chunks(Builder& s, const Shape& shape, const Options&) {
    bcast_pieces(s, shape, chunk_pieces(shape), 0);
}

// Idea: each rank adds up a slice of every piece; the root takes the sums.
// Source: as above.     Cost: 2 (l + (p+1) t) + e (n v + (p-1)/p n (x + g + max(g, v)))     Limits: as above
void reduce_chunks(Builder& s, const Shape& shape, const Options&) {
    reduce_pieces(s, shape, chunk_pieces(shape), shape.rank == shape.root);
}

// Idea: each rank adds up a slice of every piece; all take the sums.
// Source: as above.     Cost: 2 (l + (p+1) t) + e (n v + (p-1)/p n (x + g + max(g, v)))     Limits: as above
void allreduce_chunks(Builder& s, const Shape& shape, const Options&) {
    reduce_pieces(s, shape, chunk_pieces(shape), true);
}

// Idea: everyone shows pieces of all blocks and adds up those of its own block.
// Source: as above.     Cost: l + (p+1) t + e (p-1) m (v + r + g)     Limits: as above
void reduce_scatter_chunks(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    Parts parts{s, shape, blocks, blocks.back().offset + blocks.back().length};
    // In place the result may begin amid one's own block.
    Region aside = shape.in_place ? s.scratch(parts.pieces.bytes) : Region{};
    for (size_t i = 0; i < parts.pieces.count; ++i) {
        int index = static_cast<int>(i);
        parts.show(i);
        Block own = piece_of(blocks[shape.rank], parts.pieces.bytes, i);
        if (own.length) {
            std::vector<Region> added(shape.size);
            for (int step = 0; step < shape.size; ++step) {
                int r = (shape.rank + step) % shape.size;
                if (r != shape.rank) s.see(r, index, parts.chunk, parts.total);
                added[r] =
                    r == shape.rank ? input(s, own) : parts.part(r, i, shape.rank, own.length);
            }
            Region out = s.result(i * parts.pieces.bytes, own.length);
            Region sum = shape.in_place ? aside.slice(0, own.length) : out;
            add_up(s, added, kOnlyRead, sum);
            s.copy(sum, out);
        }
        s.pass(index);
    }
}

// Idea: everyone shows its block piece by piece and takes the others' pieces.
// Source: as above.     Cost: l + (p+1) t + e (m (c + v) + (p-1) m (max(g, v) + f/2))     Limits: as above
void allgather_chunks(Builder& s, const Shape& shape, const Options&) {
    auto blocks = result_blocks(shape);
    size_t n = 0;
    for (Block block : blocks) n += block.length;
    Pieces pieces = chunk_pieces(shape);
    Block own = blocks[shape.rank];
    Region mine = shape.in_place ? result(s, own) : s.input(0, own.length);
    for (size_t i = 0; i < pieces.count; ++i) {
        int index = static_cast<int>(i);
        Block piece = piece_of({0, own.length}, pieces.bytes, i);
        if (piece.length) {
            Region source = mine.slice(piece.offset, piece.length);
            s.room(index, piece.length, n);
            s.copy(source, s.chunk(shape.rank, index, piece.length));
            StepId shown = s.show(index, piece.length, n);
            // Later, as others wait for the chunk.
            s.after(s.copy(source, result(s, own).slice(piece.offset, piece.length)), shown);
        }
        for (int step = 1; step < shape.size; ++step) {
            int r = (shape.rank + step) % shape.size;
            Block theirs = piece_of(blocks[r], pieces.bytes, i);
            if (!theirs.length) continue;
            s.see(r, index, theirs.length, n);
            s.copy(s.chunk(r, index, theirs.length), result(s, theirs));
        }
        s.pass(index);
    }
}

// Idea: everyone shows pieces of all its blocks and takes those for itself.
// Source: as above.     Cost: l + (p+1) t + e (m c + (p-1) m (v + max(g, v) + f/2))     Limits: as above
void alltoall_chunks(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    Parts parts{s, shape, blocks, shape.bytes() * static_cast<size_t>(shape.size)};
    for (size_t i = 0; i < parts.pieces.count; ++i) {
        int index = static_cast<int>(i);
        StepId shown = parts.show(i);
        Region kept = input(s, piece_of(blocks[shape.rank], parts.pieces.bytes, i));
        Region own = result(s, piece_of(shape.result_block(shape.rank), parts.pieces.bytes, i));
        s.after(s.copy(kept, own), shown);
        for (int step = 1; step < shape.size; ++step) {
            int r = (shape.rank + step) % shape.size;
            Region theirs = result(s, piece_of(shape.result_block(r), parts.pieces.bytes, i));
            s.see(r, index, parts.chunk, parts.total);
            s.copy(parts.part(r, i, shape.rank, theirs.length), theirs);
        }
        s.pass(index);
    }
}

}  // namespace pomona::coll
