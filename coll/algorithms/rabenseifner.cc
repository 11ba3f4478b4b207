// coll/algorithms/rabenseifner.cc: reduce-scatter by vector halving and distance doubling.
// Partners near each other exchange the largest halves; groups are contiguous ranges of ranks, so
// order is kept. After lg p steps each rank has the total of one share (in bit-reversed order).
#include "coll/algorithms/algorithms.h"

namespace pomona::coll {

namespace {

struct Range {
    int low, high;
};  // of shares

struct Halving {
    Builder& s;
    const Shape& shape;
    Fold fold;
    std::vector<Range> ranges;  // what this rank was responsible for before each step
    Range range;

    Halving(Builder& builder, const Shape& wanted)
        : s(builder), shape(wanted), fold(wanted.rank, wanted.size), range{0, fold.power} {}

    Region part(Region whole, Range r) const {
        size_t begin = at(r.low), end = at(r.high);
        return whole.slice(begin, end - begin);
    }
    size_t at(int share) const {
        return share == fold.power ? shape.bytes() : share_bytes(shape, fold.power, share).offset;
    }
    static Range half(Range r, bool upper) {
        int middle = (r.low + r.high) / 2;
        return upper ? Range{middle, r.high} : Range{r.low, middle};
    }

    // Sums up; `sum` holds the total of `range` at the end.
    void reduce_scatter(Region mine, Region sum) {
        Landings landings(s, at((fold.power + 1) / 2));  // the lower half is the longer one
        for (int mask = 1; mask < fold.power; mask <<= 1) {
            int partner = fold.number ^ mask;
            Range keep = half(range, fold.number & mask), give = half(range, !(fold.number & mask));
            Region own = part(mine, keep);
            Region theirs = landings.next().slice(0, own.length);
            s.recv(fold.rank_of(partner), theirs);
            s.send(fold.rank_of(partner), part(mine, give));
            reduce_ordered(s, partner < fold.number, own, theirs, part(sum, keep));
            ranges.push_back(range);
            range = keep;
            mine = sum;
        }
    }
};

}  // namespace

// Idea: reduce-scatter as above, then an allgather that takes the same steps back.
// Source: Rabenseifner, ICCS 2004, LNCS 3036:1-9; Thakur, Rabenseifner, Gropp, 2005, section 4.5.
// Cost: 2 lg p a + (1-1/p) n (2 b + r)     Limits: none
void allreduce_rabenseifner(Builder& s, const Shape& shape, const Options&) {
    Halving h(s, shape);
    size_t n = shape.bytes();
    Region sum = s.result(0, n), mine = s.input(0, n);
    if (shape.size == 1) return void(s.copy(mine, sum));
    mine = fold_in(s, shape, h.fold, mine, sum);
    if (h.fold.number >= 0) {
        h.reduce_scatter(mine, sum);
        for (int mask = h.fold.power / 2; mask; mask /= 2) {
            int partner = h.fold.rank_of(h.fold.number ^ mask);
            Range outer = h.ranges.back();
            bool upper = h.fold.number & mask;
            s.recv(partner, h.part(sum, Halving::half(outer, !upper)));
            s.send(partner, h.part(sum, Halving::half(outer, upper)));
            h.ranges.pop_back();
        }
    }
    fold_out(s, shape, h.fold, sum);
}

// Idea: reduce-scatter as above, then the shares are gathered at the root the same way back.
// Source: as above.     Cost: 2 lg p a + (1-1/p) n (2 b + r)     Limits: none
void reduce_rabenseifner(Builder& s, const Shape& shape, const Options&) {
    Halving h(s, shape);
    size_t n = shape.bytes();
    Region mine = s.input(0, n);
    bool at_root = shape.rank == shape.root;
    if (shape.size == 1) return void(s.copy(mine, s.result(0, n)));
    Region sum = at_root ? s.result(0, n) : s.scratch(n);
    mine = fold_in(s, shape, h.fold, mine, sum);
    Fold target(shape.root, shape.size);  // a root that stepped out is served by its partner
    int collector = target.number < 0 ? shape.root / 2 : target.number;
    if (h.fold.number >= 0) {
        h.reduce_scatter(mine, sum);
        for (int mask = h.fold.power / 2; mask; mask /= 2) {
            int partner = h.fold.rank_of(h.fold.number ^ mask);
            Range outer = h.ranges.back();
            bool upper = h.fold.number & mask;
            if ((h.fold.number & mask) != (collector & mask)) {
                s.send(partner, h.part(sum, Halving::half(outer, upper)));
                break;
            }
            s.recv(partner, h.part(sum, Halving::half(outer, !upper)));
            h.ranges.pop_back();
        }
    }
    if (target.number < 0) {
        if (at_root) s.recv(shape.rank + 1, sum);
        else if (h.fold.number == collector) s.send(shape.root, sum);
    }
}

}  // namespace pomona::coll
