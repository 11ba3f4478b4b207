// coll/algorithms/trees.cc: binomial and k-ary trees for bcast, reduce, gather, scatter, barrier.
//
//   binomial, p = 8:   0 -> 4, 2, 1;   4 -> 6, 5;   2 -> 3;   6 -> 7
// A subtree is a contiguous range of relative ranks: [v, v + size of subtree).
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

namespace {

// The byte ranges of `count` blocks of m bytes from the relative rank `from`: two where the range
// passes the last rank. Both sides of a message cut alike.
std::vector<Block> wrapped(const Shape& shape, int from, int count) {
    size_t m = shape.bytes();
    int start = (from + shape.root) % shape.size;
    int first = std::min(count, shape.size - start);
    std::vector<Block> runs{{start * m, first * m}};
    if (first < count) runs.push_back({0, (count - first) * m});
    return runs;
}

int relative_rank(const Shape& shape) { return mod(shape.rank - shape.root, shape.size); }

// Ranks below (and including) the relative rank `v` whose lowest set bit is `mask`.
int subtree(const Shape& shape, int v, int mask) { return std::min(mask, shape.size - v); }

}  // namespace

// Idea: the number of ranks that have the data doubles each step.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1):49-66, 2005, section 4.2.
// Cost: lg p (a + n b)     Limits: none
void bcast_binomial(Builder& s, const Shape& shape, const Options&) {
    TreePlace place = binomial_place(shape.rank, shape.size, shape.root);
    Region data = s.result(0, shape.bytes());
    if (place.parent >= 0) s.recv(place.parent, data);
    for (int child : place.children) s.send(child, data);
}

// Idea: a k-ary tree through which segments flow.
// Source: Pjesivac-Grbovic et al., Cluster Computing 10:127-143, 2007.
// Cost: depth (a + n/S b + (k-1)(o + n/S b)) + (S-1) k (o + n/S b)     Limits: none
void bcast_tree(Builder& s, const Shape& shape, const Options& options) {
    TreePlace place = kary_place(shape.rank, shape.size, shape.root, options.radix);
    for (int segment = 0; segment < options.segments; ++segment) {
        Region data = s.result(0, shape.bytes());
        Block piece = share_bytes(shape, options.segments, segment);
        data = data.slice(piece.offset, piece.length);
        if (place.parent >= 0) s.recv(place.parent, data);
        for (int child : place.children) s.send(child, data);
    }
}

// Idea: partial results of contiguous ranges of ranks move towards the root.
// Source: as for bcast. Operations that do not commute are reduced towards rank 0, which hands on.
// Cost: lg p (a + n (b + r))     Limits: none
void reduce_binomial(Builder& s, const Shape& shape, const Options&) {
    int tree_root = shape.commutative ? shape.root : 0;
    size_t n = shape.bytes();
    TreePlace place = binomial_place(shape.rank, shape.size, tree_root);
    Region mine = s.input(0, n);
    bool at_root = shape.rank == shape.root;
    // Partial results pile up in the place where the latest one landed: this needs no copies and
    // no operation with the target on the left.
    Landings landings(s, n);
    for (size_t i = place.children.size(); i-- > 0;) {
        bool last = i == 0 && at_root && tree_root == shape.root && !shape.in_place;
        Region theirs = last ? s.result(0, n) : landings.next();
        s.recv(place.children[i], theirs);
        s.reduce(mine, theirs, theirs);
        mine = theirs;
    }
    if (place.parent >= 0) s.send(place.parent, mine);
    if (tree_root == shape.root) {
        if (at_root) s.copy(mine, s.result(0, n));
    } else if (shape.rank == tree_root) {
        s.send(shape.root, mine);
    } else if (at_root) {
        s.recv(tree_root, s.result(0, n));
    }
}

// Idea: a k-ary tree through which segments flow upwards.
// Source: Pjesivac-Grbovic et al., 2007.
// Cost: depth k (o + n/S (b + r)) + ... per segment     Limits: commutative
void reduce_tree(Builder& s, const Shape& shape, const Options& options) {
    TreePlace place = kary_place(shape.rank, shape.size, shape.root, options.radix);
    size_t n = shape.bytes();
    bool at_root = shape.rank == shape.root;
    Region mine = s.input(0, n);
    Region sum = at_root ? s.result(0, n) : place.children.empty() ? mine : s.scratch(n);
    std::vector<Region> landings;
    for (size_t i = 0; i < place.children.size(); ++i) landings.push_back(s.scratch(n));
    for (int segment = 0; segment < options.segments; ++segment)
        reduce_up(s, place, landings, mine, sum, share_bytes(shape, options.segments, segment));
}

// Idea: a reduction up a k-ary tree and a broadcast down it, both flowing in segments.
// Source: as above.     Cost: that of both     Limits: commutative
void allreduce_tree(Builder& s, const Shape& shape, const Options& options) {
    Shape up = shape;
    up.root = 0;
    reduce_tree(s, up, options);
    bcast_tree(s, up, options);
}

// Idea: each rank sends the blocks of its whole subtree at once.
// Source: Thakur, Rabenseifner, Gropp, 2005.     Cost: lg p a + (p-1) m b     Limits: regular
void gather_binomial(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes();
    int v = relative_rank(shape), p = shape.size;
    if (v == 0) {
        for (int mask = 1; mask < p; mask <<= 1)
            for (Block run : wrapped(shape, mask, subtree(shape, mask, mask)))
                s.recv((shape.rank + mask) % p, result(s, run));
        // While messages come.
        if (!shape.in_place) s.copy(s.input(0, m), s.result(shape.rank * m, m));
        return;
    }
    int low = v & -v, mine = subtree(shape, v, low), parent = mod(shape.rank - low, p);
    Region data = s.input(0, m);
    if (mine > 1) {
        Region whole = s.scratch(mine * m);
        for (int mask = 1; mask < low && v + mask < p; mask <<= 1) {
            size_t at = mask * m;
            for (Block run : wrapped(shape, v + mask, subtree(shape, v + mask, mask))) {
                s.recv((shape.rank + mask) % p, whole.slice(at, run.length));
                at += run.length;
            }
        }
        s.copy(data, whole.slice(0, m));
        data = whole;
    }
    size_t at = 0;
    for (Block run : wrapped(shape, v, mine)) {
        s.send(parent, data.slice(at, run.length));
        at += run.length;
    }
}

// Idea: each rank passes on the blocks of its subtrees, the largest first.
// Source: Thakur, Rabenseifner, Gropp, 2005.     Cost: lg p a + (p-1) m b     Limits: regular
void scatter_binomial(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes();
    int v = relative_rank(shape), p = shape.size;
    if (v == 0) {
        for (int mask = floor_power_of_two(std::max(1, p - 1)); mask && p > 1; mask >>= 1)
            for (Block run : wrapped(shape, mask, subtree(shape, mask, mask)))
                s.send((shape.rank + mask) % p, input(s, run));
        if (!shape.in_place) s.copy(s.input(shape.rank * m, m), s.result(0, m));
        return;
    }
    int low = v & -v, mine = subtree(shape, v, low), parent = mod(shape.rank - low, p);
    Region data = mine > 1 ? s.scratch(mine * m) : s.result(0, m);
    size_t at = 0;
    for (Block run : wrapped(shape, v, mine)) {
        s.recv(parent, data.slice(at, run.length));
        at += run.length;
    }
    for (int mask = low / 2; mask; mask /= 2) {
        if (v + mask >= p) continue;
        at = mask * m;
        for (Block run : wrapped(shape, v + mask, subtree(shape, v + mask, mask))) {
            s.send((shape.rank + mask) % p, data.slice(at, run.length));
            at += run.length;
        }
    }
    s.copy(data.slice(0, m), s.result(0, m));
}

// Idea: wait for one's subtree, tell the parent, wait for the word from above, pass it on.
// Source: Mellor-Crummey, Scott, ACM TOCS 9(1):21-65, 1991.     Cost: 2 lg p a     Limits: none
void barrier_tree(Builder& s, const Shape& shape, const Options&) {
    TreePlace place = binomial_place(shape.rank, shape.size, 0);
    for (int child : place.children) s.await(child);
    if (!place.children.empty()) s.join();
    if (place.parent >= 0) {
        s.signal(place.parent);
        s.await(place.parent);
    }
    if (!place.children.empty() && place.parent >= 0) s.join();
    for (int child : place.children) s.signal(child);
}

}  // namespace pomona::coll
