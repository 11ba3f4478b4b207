// coll/shape.h: what is asked of a collective, seen from one rank: who, how much, in which blocks.
// Idea: a Shape holds everything that decides the schedule and nothing else (no addresses), so it
// is the key of the schedule cache. Spans refer to the caller's memory; the cache keeps copies.
#pragma once

#include "btl/base/bytes.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace pomona::coll {

enum class Collective : uint8_t {
    barrier,
    bcast,
    reduce,
    allreduce,
    allgather,
    reduce_scatter,
    alltoall,
    gather,
    scatter,
    scan,
    exscan,
    neighbor,
    count_
};
const char* collective_name(Collective collective);
inline bool has_root(Collective collective) {
    return collective == Collective::bcast || collective == Collective::reduce ||
           collective == Collective::gather || collective == Collective::scatter;
}

// Bytes of a user's buffer that belong to one rank.
struct Block {
    size_t offset = 0;
    size_t length = 0;
    bool operator==(const Block&) const = default;
};

// Buffers: bcast uses the result buffer at every rank, as the root's source too. Others read input
// and write result, where MPI says that a rank has one.
// Which block spans a v-form sets (lengths and offsets in bytes; gaps between blocks are kept):
//   allgather       result_blocks: all ranks'; the input is result_blocks[rank].length bytes
//   reduce_scatter  input_blocks: all ranks', in order and without gaps; result: one's own length
//   alltoall        input_blocks, result_blocks: one per peer
//   gather          result_blocks at the root; elsewhere `count` says the input's length
//   scatter         input_blocks at the root; elsewhere `count` says the result's length
//   neighbor        input_blocks per destination, result_blocks per source
struct Shape {
    Collective collective = Collective::barrier;
    int rank = 0;
    int size = 1;
    int root = 0;
    size_t count = 0;         // elements of the vector; of one block where every rank has its own
    size_t element = 1;       // bytes of an element
    bool commutative = true;  // of the operation
    // MPI_IN_PLACE here. Input and result are then the same memory: bind both (at the root of a
    // gather: the result; at the root of a scatter: the input).
    bool in_place = false;
    bool board = false;      // the ranks of a node share memory, and the carriers have boards
    bool irregular = false;  // a v-form: equal on all ranks, whether or not a rank knows the blocks
    bool reordered = false;  // behind `nodes` stands ring()
    std::span<const Block> input_blocks{};
    std::span<const Block> result_blocks{};
    std::span<const int> nodes{};    // the number of each rank's node; empty: not known
    std::span<const int> sources{};  // neighbor collectives
    std::span<const int> destinations{};

    // Each rank's node and then, if any, the ranks in the order in which a ring goes best
    // (coll/ring_order.h). The caller's memory; one span, since calls copy shapes.
    void place(std::span<const int> nodes_and_ring) {
        auto ranks = static_cast<size_t>(size);
        reordered = ranks > 0 && nodes_and_ring.size() == 2 * ranks;
        nodes = nodes_and_ring.first(reordered ? ranks : nodes_and_ring.size());
    }
    std::span<const int> ring() const {  // empty: by node
        return reordered ? std::span(nodes.data() + nodes.size(), nodes.size()) : nodes.first(0);
    }

    size_t bytes() const { return count * element; }
    Block input_block(int r) const {
        return input_blocks.empty() ? Block{r * bytes(), bytes()} : input_blocks[r];
    }
    Block result_block(int r) const {
        return result_blocks.empty() ? Block{r * bytes(), bytes()} : result_blocks[r];
    }
};

// In kLabelBits: which collective this is, and of most with a root by which.
inline constexpr int kLabelBits = 7;
inline unsigned call_label(const Shape& shape) {
    static_assert(static_cast<int>(Collective::count_) < 16);
    unsigned root = has_root(shape.collective) ? static_cast<unsigned>(shape.root) & 7 : 0;
    return static_cast<unsigned>(shape.collective) | root << 4;
}

// The r-th of n nearly equal parts of `count` elements: the first ones are one longer.
inline Block share_of(size_t count, int n, int r) {
    size_t base = count / n, extra = count % n, index = r;
    return {index * base + (index < extra ? index : extra), base + (index < extra ? 1 : 0)};
}

}  // namespace pomona::coll
