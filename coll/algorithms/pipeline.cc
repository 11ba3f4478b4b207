// coll/algorithms/pipeline.cc: chains through which segments flow, and scatter + allgather.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

// Idea: the vector flows through all ranks in segments; each link carries it once.
// Source: Pjesivac-Grbovic et al., Cluster Computing 10:127-143, 2007.
// Cost: (p-1)(a + n/S b) + (S-1)(o + n/S b)     Limits: none
void bcast_chain(Builder& s, const Shape& shape, const Options& options) {
    int v = mod(shape.rank - shape.root, shape.size);
    for (int segment = 0; segment < options.segments; ++segment) {
        Region piece = result(s, share_bytes(shape, options.segments, segment));
        if (v) s.recv(mod(shape.rank - 1, shape.size), piece);
        if (v + 1 < shape.size) s.send((shape.rank + 1) % shape.size, piece);
    }
}

// Idea: scatter down a binomial tree, then allgather around a ring: everyone sends, not only roots.
// Source: van de Geijn et al., "Interprocessor collective communication library", 1994.
// Cost: (lg p + p - 1) a + 2 (1-1/p) n b     Limits: none
void bcast_scatter_allgather(Builder& s, const Shape& shape, const Options& options) {
    int p = shape.size, v = mod(shape.rank - shape.root, p);
    auto bytes_at = [&](int share) {
        return share >= p ? shape.bytes() : share_bytes(shape, p, share).offset;
    };
    auto shares = [&](int from, int to) {
        return s.result(bytes_at(from), bytes_at(to) - bytes_at(from));
    };
    int low = v ? v & -v : 2 * floor_power_of_two(std::max(1, p - 1));
    if (p == 1) return;
    if (v) s.recv(mod(shape.rank - low, p), shares(v, std::min(v + low, p)));
    for (int mask = low / 2; mask; mask /= 2)
        if (v + mask < p)
            s.send((shape.rank + mask) % p, shares(v + mask, std::min(v + 2 * mask, p)));
    ring_allgather(s, shape, vector_shares(shape), p - shape.root, options.segments);
}

// Idea: partial results flow through the chain of ranks, from the last to the first.
// Source: Pjesivac-Grbovic et al., 2007.
// Cost: (p-1)(a + n/S (b + r)) + (S-1)(o + n/S b)     Limits: commutative, or root 0
void reduce_chain(Builder& s, const Shape& shape, const Options& options) {
    int p = shape.size, v = mod(shape.rank - shape.root, p);
    size_t n = shape.bytes();
    Region mine = s.input(0, n);
    bool lands_in_result = v == 0 && !shape.in_place;
    Region space = v == p - 1 ? mine : lands_in_result ? s.result(0, n) : s.scratch(n);
    for (int segment = 0; segment < options.segments; ++segment) {
        Block b = share_bytes(shape, options.segments, segment);
        Region piece = space.slice(b.offset, b.length);
        if (v < p - 1) {
            s.recv((shape.rank + 1) % p, piece);
            s.reduce(mine.slice(b.offset, b.length), piece, piece);
        }
        if (v) s.send(mod(shape.rank - 1, p), piece);
        else s.copy(piece, result(s, b));
    }
}

// Idea: segments are summed up on their way along the ranks, and go back the same way, at the same
// time: each line between neighbours carries the vector once in each direction. Where machines
// stand in a chain nothing else keeps to these lines.
// Source: as above.     Cost: 2 (p-1 + S-1) (a + n/S b) + ...     Limits: p > 2
void allreduce_chain(Builder& s, const Shape& shape, const Options& options) {
    Shape to_first = shape;
    to_first.root = 0;
    reduce_chain(s, to_first, options);
    bcast_chain(s, to_first, options);
}

}  // namespace pomona::coll
