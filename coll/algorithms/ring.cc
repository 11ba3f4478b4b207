// coll/algorithms/ring.cc: rings: each rank receives from the left and sends to the right.
//
//   reduce-scatter, p = 4, block numbers sent at each step (rank r, first = 1):
//     step 0:  r,  step 1: r-1,  step 2: r-2;  the block received is added to and sent on.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

// Idea: each block travels once around the ring, every rank adding its part.
// Source: Patarasu, Yuan, JPDC 69(2):117-124, 2009.
// Cost: (p-1)(a + n/p (b + r))     Limits: commutative
void ring_reduce_scatter(Builder& s, const Shape& shape, const std::vector<Block>& blocks,
                         int first, int segments, const Landing& landing, bool to_input) {
    int p = shape.size, right = (shape.rank + 1) % p, left = mod(shape.rank - 1, p);
    Region partial{};  // what is sent next: at first the input itself
    for (int step = 0; step < p - 1; ++step) {
        int out = mod(shape.rank + first - 1 - step, p), in = mod(out - 1, p);
        Region sent = step ? partial : input(s, blocks[out]);
        Region mine = input(s, blocks[in]);
        bool last = step == p - 2;
        Region land = landing(step, in, last);
        for (int segment = 0; segment < segments; ++segment) {
            Block o = share_of_block({0, sent.length}, shape.element, segments, segment);
            Block i = share_of_block({0, mine.length}, shape.element, segments, segment);
            Region piece = land.slice(i.offset, i.length), own = mine.slice(i.offset, i.length);
            s.recv(left, piece);
            s.send(right, sent.slice(o.offset, o.length));
            s.reduce(own, piece, last && to_input ? own : piece);
        }
        partial = land;
    }
}

// Idea: each block travels once around the ring, every rank keeping a copy.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1):49-66, 2005.
// Cost: (p-1)(a + m b)     Limits: none
void ring_allgather(Builder& s, const Shape& shape, const std::vector<Block>& blocks, int first,
                    int segments) {
    int p = shape.size, right = (shape.rank + 1) % p, left = mod(shape.rank - 1, p);
    for (int step = 0; step < p - 1; ++step) {
        int out = mod(shape.rank + first - step, p), in = mod(out - 1, p);
        for (int segment = 0; segment < segments; ++segment) {
            s.recv(left, result(s, share_of_block(blocks[in], shape.element, segments, segment)));
            s.send(right, result(s, share_of_block(blocks[out], shape.element, segments, segment)));
        }
    }
}

// Idea: reduce-scatter around the ring, then allgather around it.
// Source: Patarasu, Yuan, JPDC 69(2):117-124, 2009.
// Cost: 2(p-1)(a + n/p b) + (p-1) n/p r     Limits: commutative
void allreduce_ring(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = vector_shares(shape);
    if (shape.size == 1) return void(s.copy(s.input(0, shape.bytes()), s.result(0, shape.bytes())));
    Region space[2];
    if (shape.in_place)
        for (Region& each : space) each = s.scratch(blocks[0].length);
    if (!shape.in_place) {
        ring_reduce_scatter(s, shape, blocks, 1, options.segments,
                            [&](int, int block, bool) { return result(s, blocks[block]); });
    } else {
        auto landing = [&](int step, int block, bool) {
            return space[step % 2].slice(0, blocks[block].length);
        };
        ring_reduce_scatter(s, shape, blocks, 1, options.segments, landing, true);
    }
    ring_allgather(s, shape, blocks, 1, options.segments);
}

// The ring's reduce-scatter, aimed so that each rank ends with its own of `blocks`.
static void reduce_scatter_around(Builder& s, const Shape& shape, const std::vector<Block>& blocks,
                                  const Options& options) {
    Block own = blocks[shape.rank];
    Region target = s.result(0, own.length);
    if (shape.size == 1) return void(s.copy(input(s, own), target));
    size_t longest = 0;
    for (const Block& block : blocks) longest = std::max(longest, block.length);
    Region space[2] = {s.scratch(longest), s.scratch(longest)};
    Region last{};
    ring_reduce_scatter(s, shape, blocks, 0, options.segments,
                        [&](int step, int block, bool final) {
                            Region land = space[step % 2].slice(0, blocks[block].length);
                            if (final && !shape.in_place) land = target;
                            return final ? last = land : land;
                        });
    s.copy(last, target);
}

// Idea: see reduce_scatter_around.
// Source: as above.     Cost: (p-1)(a + m (b + r))     Limits: commutative
void reduce_scatter_ring(Builder& s, const Shape& shape, const Options& options) {
    reduce_scatter_around(s, shape, input_blocks(shape), options);
}

// Idea: reduce-scatter around the ring, then every rank sends its block to the root.
// Source: as above.     Cost: (p-1)(a + n/p (b + r)) + a + n b     Limits: commutative
void reduce_ring(Builder& s, const Shape& shape, const Options& options) {
    if (shape.size == 1) return void(s.copy(s.input(0, shape.bytes()), s.result(0, shape.bytes())));
    auto blocks = vector_shares(shape);
    bool at_root = shape.rank == shape.root;
    Region space[2] = {s.scratch(blocks[0].length), s.scratch(blocks[0].length)};
    ring_reduce_scatter(s, shape, blocks, 1, options.segments, [&](int step, int block, bool) {
        return space[step % 2].slice(0, blocks[block].length);
    });
    int own = (shape.rank + 1) % shape.size;
    Region mine = space[shape.size % 2].slice(0, blocks[own].length);
    if (!at_root) return void(s.send(shape.root, mine));
    for (int r = 0; r < shape.size; ++r)
        if (r != shape.root) s.recv(r, result(s, blocks[(r + 1) % shape.size]));
    s.copy(mine, result(s, blocks[own]));
}

// Idea: see ring_allgather.     Source: as there.     Cost: (p-1)(a + m b)     Limits: none
void allgather_ring(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = result_blocks(shape);
    Region own = result(s, blocks[shape.rank]);
    if (!shape.in_place) s.copy(s.input(0, own.length), own);
    ring_allgather(s, shape, blocks, 0, options.segments);
}

namespace {

// A ring that goes through all ranks of one machine before it goes to the next: so each machine's
// line carries each block once a step, however ranks are numbered; and through the machines as
// links allow.
class RingByNode {
public:
    RingByNode(Builder& s, const Shape& shape) : s_(s), part_(shape), order_(by_machine(shape)) {
        auto at = std::find(order_.begin(), order_.end(), shape.rank);
        part_.rank = static_cast<int>(at - order_.begin());
        part_.place({});
        outer_ = s.set_team(order_);
    }
    ~RingByNode() { s_.set_team(std::move(outer_)); }
    RingByNode(const RingByNode&) = delete;

    // The shape with this rank's place in the ring.
    const Shape& part() const { return part_; }
    std::vector<Block> in_order(const std::vector<Block>& blocks) const {
        std::vector<Block> out;
        for (int r : order_) out.push_back(blocks[r]);
        return out;
    }

private:
    Builder& s_;
    Shape part_;
    std::vector<int> order_, outer_;
};

}  // namespace

// Idea: allreduce_ring through one machine after the other, in the order that their links make
// quickest.
// Source: Patarasu, Yuan, 2009; the order: Chan et al., Concurrency Computat. 19:1749-1783, 2007.
// Cost: 2(p-1)(a + n/p b) + (p-1) n/p r     Limits: commutative, several machines: of several ranks, or in another order than by number
void allreduce_hierarchical_ring(Builder& s, const Shape& shape, const Options& options) {
    RingByNode ring(s, shape);
    allreduce_ring(s, ring.part(), options);
}

// Idea: reduce_scatter_ring through one machine after the other.
// Source: as above.     Cost: (p-1)(a + m (b + r))     Limits: as above
void reduce_scatter_hierarchical_ring(Builder& s, const Shape& shape, const Options& options) {
    RingByNode ring(s, shape);
    reduce_scatter_around(s, ring.part(), ring.in_order(input_blocks(shape)), options);
}

// Idea: allgather_ring through one machine after the other.
// Source: as above.     Cost: (p-1)(a + m b)     Limits: as above, any operation
void allgather_hierarchical_ring(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = result_blocks(shape);
    Region own = result(s, blocks[shape.rank]);
    if (!shape.in_place) s.copy(s.input(0, own.length), own);
    RingByNode ring(s, shape);
    ring_allgather(s, ring.part(), ring.in_order(blocks), 0, options.segments);
}

// Idea: pairs swap blocks with the neighbour on one side, then what they got with the other side:
// two blocks a step, in half the steps of a ring.
// Source: Chen, Zhang, Zhang, Yang, HPC Asia 2005.
// Cost: p/2 a + (p-1) m b     Limits: even p, regular
void allgather_neighbor_exchange(Builder& s, const Shape& shape, const Options&) {
    int p = shape.size, r = shape.rank;
    size_t m = shape.bytes();
    bool even = r % 2 == 0;
    int sides[2] = {even ? (r + 1) % p : mod(r - 1, p), even ? mod(r - 1, p) : (r + 1) % p};
    Region own = s.result(r * m, m);
    s.recv(sides[0], s.result(sides[0] * m, m));
    s.send(sides[0], shape.in_place ? own : s.input(0, m));
    if (!shape.in_place) s.copy(s.input(0, m), own);
    // From now on pairs of blocks move: each rank passes on the pair that it got last.
    int pair = r / 2 * 2;
    for (int step = 1; step < p / 2; ++step) {
        int side = step % 2;
        int distance = 2 * ((step + 1) / 2);
        int theirs = mod(r / 2 * 2 + (even == (side == 1) ? -distance : distance), p);
        s.recv(sides[side], s.result(theirs * m, 2 * m));
        s.send(sides[side], s.result(pair * m, 2 * m));
        pair = theirs;
    }
}

}  // namespace pomona::coll
