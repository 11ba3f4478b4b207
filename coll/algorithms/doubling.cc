// coll/algorithms/doubling.cc: recursive doubling and halving: partners at distance 1, 2, 4 ...
//
//   p = 8:  0-1 2-3 4-5 6-7   then  0-2 1-3 4-6 5-7   then  0-4 1-5 2-6 3-7
// After step k everyone knows about the 2^(k+1) ranks of its group, which are contiguous: so
// partial results are combined in rank order and operations need not commute.
#include "coll/algorithms/algorithms.h"

namespace pomona::coll {

// Idea: exchange everything with partners at doubling distance.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1):49-66, 2005, section 4.5.
// Cost: lg p (a + n (b + r))     Limits: none
void allreduce_recursive_doubling(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    Fold fold(shape.rank, shape.size);
    Region total = s.result(0, n), mine = s.input(0, n);
    if (shape.size == 1) return void(s.copy(mine, total));
    mine = fold_in(s, shape, fold, mine, total);
    if (fold.number >= 0) {
        Landings landings(s, n);
        for (int mask = 1; mask < fold.power; mask <<= 1) {
            int partner = fold.number ^ mask;
            Region theirs = landings.next();
            s.recv(fold.rank_of(partner), theirs);
            s.send(fold.rank_of(partner), mine);
            reduce_ordered(s, partner < fold.number, mine, theirs, total);
            mine = total;
        }
    }
    fold_out(s, shape, fold, total);
}

// Idea: an allreduce of the whole vector by recursive doubling, of which each rank keeps its block:
// the fewest steps, for short vectors.
// Source: as above.     Cost: lg p (a + p m (b + r)) + m c     Limits: none
void reduce_scatter_doubling(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = input_blocks(shape);
    size_t n = 0;
    for (const Block& block : blocks) n += block.length;
    Block own = blocks[shape.rank];
    Region target = s.result(0, own.length);
    if (shape.size == 1) return void(s.copy(input(s, own), target));
    Shape whole = shape;
    whole.count = n / shape.element;
    Region total = s.scratch(n);
    s.alias_result(total);
    allreduce_recursive_doubling(s, whole, options);
    s.copy(total.slice(own.offset, own.length), target);
}

// Idea: exchange halves with partners at halving distance; what is left to do halves each time.
// Source: Thakur, Rabenseifner, Gropp, 2005, section 4.4.
// Cost: lg p a + (1-1/p) n (b + r)     Limits: commutative
void reduce_scatter_recursive_halving(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    size_t n = 0;
    for (const Block& block : blocks) n += block.length;
    Block own = blocks[shape.rank];
    Region target = s.result(0, own.length), mine = s.input(0, n);
    if (shape.size == 1) return void(s.copy(input(s, own), target));
    Fold fold(shape.rank, shape.size);
    Region sum = s.scratch(n);
    mine = fold_in(s, shape, fold, mine, sum);
    auto begin_of = [&](int number) {  // first byte that belongs to a number of the fold
        int rank = number < fold.rest ? 2 * number : number + fold.rest;
        return rank < shape.size ? blocks[rank].offset : n;
    };
    if (fold.number >= 0) {
        int low = 0, high = fold.power;
        Landings landings(s, n);
        for (int half = fold.power / 2; half; half /= 2) {
            int partner = fold.number ^ half, middle = low + half;
            bool upper = fold.number & half;
            int keep_low = upper ? middle : low, keep_high = upper ? high : middle;
            int give_low = upper ? low : middle, give_high = upper ? middle : high;
            size_t keep = begin_of(keep_low), keep_bytes = begin_of(keep_high) - keep;
            size_t give = begin_of(give_low), give_bytes = begin_of(give_high) - give;
            Region theirs = landings.next().slice(0, keep_bytes);
            s.recv(fold.rank_of(partner), theirs);
            s.send(fold.rank_of(partner), mine.slice(give, give_bytes));
            reduce_ordered(s, partner < fold.number, mine.slice(keep, keep_bytes), theirs,
                           sum.slice(keep, keep_bytes));
            mine = sum;
            low = keep_low, high = keep_high;
        }
    }
    if (shape.rank < 2 * fold.rest && fold.number >= 0) {
        Block theirs = blocks[shape.rank - 1];
        s.send(shape.rank - 1, sum.slice(theirs.offset, theirs.length));
    }
    if (fold.number < 0) s.recv(shape.rank + 1, target);
    else s.copy(mine.slice(own.offset, own.length), target);
}

// Idea: partners at doubling distance exchange all the blocks they have.
// Source: Thakur, Rabenseifner, Gropp, 2005, section 4.1.
// Cost: lg p a + (p-1) m b     Limits: p a power of two, regular
void allgather_recursive_doubling(Builder& s, const Shape& shape, const Options&) {
    size_t m = shape.bytes();
    Region own = s.result(shape.rank * m, m);
    if (shape.size == 1 && !shape.in_place) s.copy(s.input(0, m), own);
    for (int mask = 1; mask < shape.size; mask <<= 1) {
        int partner = shape.rank ^ mask;
        size_t mine = (shape.rank & ~(mask - 1)) * m, theirs = (partner & ~(mask - 1)) * m;
        s.recv(partner, s.result(theirs, mask * m));
        // The first message does not wait for the copy into the result.
        bool first = mask == 1 && !shape.in_place;
        s.send(partner, first ? s.input(0, m) : s.result(mine, mask * m));
        if (first) s.copy(s.input(0, m), own);
    }
}

// Idea: at step k each rank sends its partial result, which covers the 2^k ranks up to itself, to
// the rank 2^k above. Source: Hillis, Steele, CACM 29(12):1170-1183, 1986.
// Cost: lg p (a + n (b + r))     Limits: none
void scan_recursive_doubling(Builder& s, const Shape& shape, const Options&) {
    size_t n = shape.bytes();
    Region mine = s.input(0, n), total = s.result(0, n);
    Landings landings(s, n);
    for (int distance = 1; distance < shape.size; distance <<= 1) {
        bool receives = shape.rank >= distance;
        Region theirs = receives ? landings.next() : Region{};
        if (receives) s.recv(shape.rank - distance, theirs);
        if (shape.rank + distance < shape.size) s.send(shape.rank + distance, mine);
        if (receives) {
            s.reduce(theirs, mine, total);
            mine = total;
        }
    }
    s.copy(mine, total);
}

// Idea: hand everything up by one rank, then scan among the ranks from 1.
// Source: as above.     Cost: (1 + lg(p-1)) a + n ((1 + lg(p-1)) b + lg(p-1) r)     Limits: none
void exscan_recursive_doubling(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Region total = s.result(0, n), mine = s.input(0, n);
    if (shape.rank + 1 < shape.size) s.send(shape.rank + 1, mine);
    if (!shape.rank) return;
    s.recv(shape.rank - 1, total);
    std::vector<int> team;
    for (int r = 1; r < shape.size; ++r) team.push_back(r);
    auto outer = s.set_team(std::move(team));
    Shape part = shape;
    --part.rank, --part.size;
    s.alias_input(total);
    scan_recursive_doubling(s, part, options);
    s.set_team(std::move(outer));
}

// Idea: after step k a rank has heard, directly or not, from the 2^(k+1) ranks below it.
// Source: Hensgen, Finkel, Manber, Int. J. Parallel Programming 17(1):1-17, 1988.
// Cost: lg p a     Limits: none
void barrier_dissemination(Builder& s, const Shape& shape, const Options&) {
    StepId heard = kNoStep;
    for (int distance = 1; distance < shape.size; distance <<= 1) {
        StepId told = s.signal((shape.rank + distance) % shape.size);
        s.after(told, heard);
        StepId now = s.await(mod(shape.rank - distance, shape.size));
        s.after(now, heard);
        heard = now;
    }
}

}  // namespace pomona::coll
