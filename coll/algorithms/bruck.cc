// coll/algorithms/bruck.cc: lg p steps for any p, at the price of local copies.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

// Idea: rank r collects blocks r, r+1, r+2 ... in order in its scratch memory, doubling each step,
// and turns them into place at the end.
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 8(11):1143-1156, 1997.
// Cost: lg p a + (p-1) m b + p m c     Limits: none
void allgather_bruck(Builder& s, const Shape& shape, const Options&) {
    int p = shape.size, r = shape.rank;
    auto blocks = result_blocks(shape);
    std::vector<size_t> starts{0};  // of the i-th collected block
    for (int i = 0; i < p; ++i) starts.push_back(starts.back() + blocks[(r + i) % p].length);
    Region own = shape.in_place ? result(s, blocks[r]) : s.input(0, blocks[r].length);
    Region all = s.scratch(starts[p]);
    s.copy(own, all.slice(0, starts[1]));
    for (int have = 1; have < p; have *= 2) {
        int moved = std::min(have, p - have);
        s.recv((r + have) % p, all.slice(starts[have], starts[have + moved] - starts[have]));
        s.send(mod(r - have, p), all.slice(0, starts[moved]));
    }
    if (!shape.irregular) {  // two copies turn the blocks
        size_t m = shape.bytes();
        s.copy(all.slice(0, (p - r) * m), s.result(r * m, (p - r) * m));
        s.copy(all.slice((p - r) * m, r * m), s.result(0, r * m));
        return;
    }
    for (int i = shape.in_place ? 1 : 0; i < p; ++i)
        s.copy(all.slice(starts[i], starts[i + 1] - starts[i]), result(s, blocks[(r + i) % p]));
}

// Idea: block for the rank d above moves by the powers of two in d: step k carries all blocks whose
// distance has bit k, to the rank 2^k above.
// Source: as above.     Cost: lg p (a + p/2 m (b + 2 c)) + 2 p m c     Limits: regular
void alltoall_bruck(Builder& s, const Shape& shape, const Options&) {
    int p = shape.size, r = shape.rank;
    size_t m = shape.bytes();
    Region turned = s.scratch(p * m);  // block at i is for the rank i above
    s.copy(s.input(r * m, (p - r) * m), turned.slice(0, (p - r) * m));
    s.copy(s.input(0, r * m), turned.slice((p - r) * m, r * m));
    for (int bit = 1; bit < p; bit <<= 1) {
        std::vector<int> moved;
        for (int i = bit; i < p; ++i)
            if (i & bit) moved.push_back(i);
        Region out = s.scratch(moved.size() * m), in = s.scratch(moved.size() * m);
        for (size_t k = 0; k < moved.size(); ++k)
            s.copy(turned.slice(moved[k] * m, m), out.slice(k * m, m));
        s.recv(mod(r - bit, p), in);
        s.send((r + bit) % p, out);
        for (size_t k = 0; k < moved.size(); ++k)
            s.copy(in.slice(k * m, m), turned.slice(moved[k] * m, m));
    }
    for (int i = 0; i < p; ++i)  // what came from the rank i below stands at i
        s.copy(turned.slice(i * m, m), s.result(mod(r - i, p) * m, m));
}

}  // namespace pomona::coll
