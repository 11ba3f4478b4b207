// coll/algorithms/direct.cc: everyone exchanges with everyone at once, so that a mesh of machines
// uses the cables of all pairs, in both directions. A ring uses one cable of each machine each way.
#include "coll/algorithms/algorithms.h"

namespace pomona::coll {

namespace {

// Of how many segments the parts of others may lie here at a time.
constexpr int kSegmentsAhead = 4;

// Each rank sends every other one its share of `blocks`, and adds up what it gets of its own share:
// segment by segment, so that one is added up while the next ones arrive. The sums stand in
// `target`, which may be the own block's memory. `summed` is called for each segment.
template <class Summed> void exchange_and_add(Builder& s, const Shape& shape,
                                              const std::vector<Block>& blocks, Region target,
                                              int segments, Summed&& summed) {
    int p = shape.size, r = shape.rank;
    auto segment_of = [&](int block, int i) {
        return share_of_block(blocks[block], shape.element, segments, i);
    };
    size_t longest = segment_of(r, 0).length;
    std::vector<Region> landings;
    for (int i = 0; i < segments; ++i) {
        Block own = segment_of(r, i);
        Region sum = target.slice(own.offset - blocks[r].offset, own.length);
        Region added = input(s, own);
        std::vector<Region> parts;
        for (int step = 1; step < p; ++step) {
            size_t place = static_cast<size_t>(i % kSegmentsAhead * (p - 1) + step - 1);
            if (place == landings.size()) landings.push_back(s.scratch(longest));
            parts.push_back(landings[place].slice(0, own.length));
            s.recv(mod(r - step, p), parts.back());
            s.send((r + step) % p, input(s, segment_of((r + step) % p, i)));
        }
        for (Region theirs : parts) {
            s.reduce(theirs, added, sum);
            added = sum;
        }
        summed(i, sum);
    }
}

// Each rank sends every other one a segment of its own of `blocks`, which lies in `own`.
void exchange_all(Builder& s, const Shape& shape, const std::vector<Block>& blocks, Region own,
                  int segments, int i) {
    int p = shape.size, r = shape.rank;
    for (int step = 1; step < p; ++step) {
        int from = mod(r - step, p);
        s.recv(from, result(s, share_of_block(blocks[from], shape.element, segments, i)));
        s.send((r + step) % p, own);
    }
}

}  // namespace

// Idea: a direct exchange whose parts are added up, and another one of the sums: 2/p of the vector
// over each pair's line in either direction, where a ring moves 2 (p-1)/p over one of them.
// Source: Bruck, Ho, Parallel Processing Letters 3(4):335-346, 1993: p - 1 ports, all in use.
// Cost: 2 (a + n/p b) + (p-1) n/p r on lines of their own     Limits: commutative, 3 ranks and more
void allreduce_direct(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = vector_shares(shape);
    exchange_and_add(
        s, shape, blocks, result(s, blocks[shape.rank]), options.segments,
        [&](int i, Region sum) { exchange_all(s, shape, blocks, sum, options.segments, i); });
}

// Idea: the first half of the above.
// Source: as above.     Cost: a + m b + (p-1) m r on lines of their own     Limits: as above
void reduce_scatter_direct(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = input_blocks(shape);
    size_t own = blocks[shape.rank].length;
    Region target = shape.in_place ? s.scratch(own) : s.result(0, own);
    exchange_and_add(s, shape, blocks, target, options.segments, [](int, Region) {});
    s.copy(target, s.result(0, own));
}

// Idea: the second half: in segments, so that the first ones leave by all lines at once.
// Source: as above.     Cost: a + m b on lines of their own     Limits: 3 ranks and more
void allgather_direct(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = result_blocks(shape);
    Region own = result(s, blocks[shape.rank]);
    Region mine = shape.in_place ? own : s.input(0, own.length);
    for (int i = 0; i < options.segments; ++i) {
        Block part = share_of_block({0, own.length}, shape.element, options.segments, i);
        exchange_all(s, shape, blocks, mine.slice(part.offset, part.length), options.segments, i);
    }
    s.copy(mine, own);
}

}  // namespace pomona::coll
