// coll/algorithms/linear.cc: everyone straight to everyone, or to the root. The fewest hops, and
// the only form for ranks that know just their own lengths (gatherv, scatterv).
#include "coll/algorithms/algorithms.h"

namespace pomona::coll {

// Source of this file's algorithms: MPI 5.0, chapter 6, which defines the collectives by them.

// Idea: the root sends to all.     Source: as above.
// Cost: a + (p-1) n b + (p-2) o     Limits: none
void bcast_linear(Builder& s, const Shape& shape, const Options&) {
    Region data = s.result(0, shape.bytes());
    if (shape.rank != shape.root) return void(s.recv(shape.root, data));
    for (int step = 1; step < shape.size; ++step) s.send((shape.rank + step) % shape.size, data);
}

// Idea: the root receives all.     Source: as above.
// Cost: a + (p-1) m b + (p-2) o     Limits: none
void gather_linear(Builder& s, const Shape& shape, const Options&) {
    if (shape.rank != shape.root) return void(s.send(shape.root, s.input(0, shape.bytes())));
    for (int r = 0; r < shape.size; ++r)
        if (r != shape.root) s.recv(r, result(s, shape.result_block(r)));
    Region own = result(s, shape.result_block(shape.root));
    if (!shape.in_place) s.copy(s.input(0, own.length), own);
}

// Idea: the root sends each its block.     Source: as above.
// Cost: a + (p-1) m b + (p-2) o     Limits: none
void scatter_linear(Builder& s, const Shape& shape, const Options&) {
    if (shape.rank != shape.root) return void(s.recv(shape.root, s.result(0, shape.bytes())));
    for (int r = 0; r < shape.size; ++r)
        if (r != shape.root) s.send(r, input(s, shape.input_block(r)));
    Block own = shape.input_block(shape.root);
    if (!shape.in_place) s.copy(input(s, own), s.result(0, own.length));
}

// Idea: everyone sends its block to everyone.     Source: as above.
// Cost: a + (p-1) m b + (p-2) o     Limits: none
void allgather_linear(Builder& s, const Shape& shape, const Options&) {
    auto blocks = result_blocks(shape);
    int p = shape.size, r = shape.rank;
    Region own = result(s, blocks[r]);
    Region mine = shape.in_place ? own : s.input(0, own.length);
    for (int step = 1; step < p; ++step)
        s.recv(mod(r - step, p), result(s, blocks[mod(r - step, p)]));
    for (int step = 1; step < p; ++step) s.send((r + step) % p, mine);
    s.copy(mine, own);
}

// Idea: everyone sends its vector to everyone; each adds them up in rank order: one latency.
// Source: as above.     Cost: a + (p-1)(n b + n r) + (p-2) o     Limits: none
void allreduce_linear(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    int p = shape.size, r = shape.rank;
    Region own = s.input(0, n), total = s.result(0, n);
    std::vector<Region> parts(p, own);
    for (int step = 1; step < p; ++step) {
        int from = mod(r - step, p);
        parts[from] = s.scratch(n);
        s.recv(from, parts[from]);
    }
    for (int step = 1; step < p; ++step) s.send((r + step) % p, own);
    add_up(s, parts, r, total);
}

// Idea: the root receives all vectors and adds them up in rank order.
// Source: as above.     Cost: a + (p-1) n (b + r) + (p-2) o     Limits: none
void reduce_linear(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    Region own = s.input(0, n);
    if (shape.rank != shape.root) return void(s.send(shape.root, own));
    std::vector<Region> parts(shape.size, own);
    for (int r = 0; r < shape.size; ++r)
        if (r != shape.root) s.recv(r, parts[r] = s.scratch(n));
    add_up(s, parts, shape.root, s.result(0, n));
}

// Idea: everyone sends everyone its block of the input; each adds up in rank order.
// Source: as above.     Cost: a + (p-1) m (b + r) + (p-2) o     Limits: none
void reduce_scatter_linear(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    int p = shape.size, r = shape.rank;
    size_t m = blocks[r].length;
    std::vector<Region> parts(p, input(s, blocks[r]));
    for (int step = 1; step < p; ++step) {
        int from = mod(r - step, p);
        s.recv(from, parts[from] = s.scratch(m));
    }
    for (int step = 1; step < p; ++step) s.send((r + step) % p, input(s, blocks[(r + step) % p]));
    Region sum = parts[0], total = s.scratch(m);
    for (int from = 1; from < p; ++from) {
        s.reduce(sum, parts[from], total);
        sum = total;
    }
    s.copy(sum, s.result(0, m));
}

// Idea: a chain: each rank adds its vector and hands on.
// Source: as above.     Cost: (p-1)(a + n (b + r))     Limits: none
void scan_linear(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    Region mine = s.input(0, n), total = s.result(0, n);
    if (shape.rank) {
        Region below = s.scratch(n);
        s.recv(shape.rank - 1, below);
        s.reduce(below, mine, total);
    } else {
        s.copy(mine, total);
    }
    if (shape.rank + 1 < shape.size) s.send(shape.rank + 1, shape.rank ? total : mine);
}

// Idea: a chain: each rank keeps what it gets, and hands on with its own vector added.
// Source: as above.     Cost: (p-1) (a + n b) + (p-2) n r     Limits: none
void exscan_linear(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    Region mine = s.input(0, n), above = mine;
    Region below = s.scratch(n);
    if (shape.rank) s.recv(shape.rank - 1, below);
    if (shape.rank + 1 < shape.size) {
        if (shape.rank) s.reduce(below, mine, above = s.scratch(n));
        s.send(shape.rank + 1, above);
    }
    if (shape.rank) s.copy(below, s.result(0, n));
}

// Idea: one message along each edge of the graph, in the order of the lists.
// Source: as above.     Cost: a + d m b + (d-1) o for d neighbours     Limits: none
void neighbor_linear(Builder& s, const Shape& shape, const Options&) {
    for (size_t i = 0; i < shape.sources.size(); ++i)
        if (shape.sources[i] >= 0) s.recv(shape.sources[i], result(s, shape.result_blocks[i]));
    for (size_t i = 0; i < shape.destinations.size(); ++i)
        if (shape.destinations[i] >= 0)
            s.send(shape.destinations[i], input(s, shape.input_blocks[i]));
}

}  // namespace pomona::coll
