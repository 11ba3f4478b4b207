// coll/algorithms/common.cc: arithmetic of blocks and trees that several algorithms share.
#include "coll/algorithms/algorithms.h"
#include "coll/ring_order.h"

#include <algorithm>

namespace pomona::coll {

Block share_of_block(Block block, size_t element, int n, int r) {
    Block share = share_of(block.length / element, n, r);
    return {block.offset + share.offset * element, share.length * element};
}

Block share_bytes(const Shape& shape, int n, int r) {
    return share_of_block({0, shape.bytes()}, shape.element, n, r);
}

std::vector<Block> vector_shares(const Shape& shape) {
    std::vector<Block> blocks;
    for (int r = 0; r < shape.size; ++r) blocks.push_back(share_bytes(shape, shape.size, r));
    return blocks;
}

std::vector<Block> result_blocks(const Shape& shape) {
    std::vector<Block> blocks;
    for (int r = 0; r < shape.size; ++r) blocks.push_back(shape.result_block(r));
    return blocks;
}

std::vector<Block> input_blocks(const Shape& shape) {
    std::vector<Block> blocks;
    for (int r = 0; r < shape.size; ++r) blocks.push_back(shape.input_block(r));
    return blocks;
}

std::vector<int> by_machine(const Shape& shape) {
    auto ring = shape.ring();
    return ring.empty() ? ranks_by_node(shape.nodes) : std::vector<int>(ring.begin(), ring.end());
}

void add_up(Builder& s, const std::vector<Region>& parts, int own, Region target) {
    Region sum = parts[0];
    for (int r = 1; r < static_cast<int>(parts.size()); ++r) {
        bool last = r + 1 == static_cast<int>(parts.size());
        Region into = last || own == kOnlyRead ? target : r == own ? sum : parts[r];
        s.reduce(sum, parts[r], into);
        sum = into;
    }
    s.copy(sum, target);
}

void copy_input_aside(Builder& s, const Shape& shape, const std::vector<Block>& blocks) {
    if (!shape.in_place) return;
    size_t end = 0;
    for (const Block& block : blocks) end = std::max(end, block.offset + block.length);
    Region aside = s.scratch(end);
    for (const Block& block : blocks)
        s.copy(result(s, block), aside.slice(block.offset, block.length));
    s.alias_input(aside);
}

TreePlace binomial_place(int rank, int size, int root) {
    TreePlace place;
    int relative = mod(rank - root, size), mask = 1;
    while (mask < size && !(relative & mask)) mask <<= 1;
    if (relative) place.parent = mod(rank - mask, size);
    for (mask >>= 1; mask; mask >>= 1)
        if (relative + mask < size) place.children.push_back((rank + mask) % size);
    return place;
}

int kary_parent(int rank, int size, int root, int radix) {
    int relative = mod(rank - root, size);
    return relative ? ((relative - 1) / radix + root) % size : -1;
}

TreePlace kary_place(int rank, int size, int root, int radix) {
    TreePlace place;
    int relative = mod(rank - root, size);
    place.parent = kary_parent(rank, size, root, radix);
    for (int child = relative * radix + 1; child <= relative * radix + radix; ++child)
        if (child < size) place.children.push_back((child + root) % size);
    return place;
}

// What the children send, each to a place of its own, is added to `own` in `sum`, which goes to the
// parent, or stays at the root: the step that is returned. `landings`: as many as there are
// children, or more.
StepId reduce_piece(Builder& s, const TreePlace& place, std::span<const Region> landings,
                    Region own, Region sum) {
    for (size_t i = 0; i < place.children.size(); ++i) {
        Region theirs = landings[i].slice(0, own.length);
        s.recv(place.children[i], theirs);
        s.reduce(theirs, own, sum);
        own = sum;
    }
    return place.parent >= 0 ? s.send(place.parent, own) : s.copy(own, sum);
}

void reduce_up(Builder& s, const TreePlace& place, std::span<const Region> landings, Region own,
               Region total, Block piece) {
    std::vector<Region> places;
    for (size_t i = 0; i < place.children.size(); ++i)
        places.push_back(landings[i].slice(piece.offset, piece.length));
    reduce_piece(s, place, places, own.slice(piece.offset, piece.length),
                 total.slice(piece.offset, piece.length));
}

// Ranks beyond a power of two hand their data to a neighbour first: of the first 2 * rest ranks
// the even ones step out, so that order is kept.
Fold::Fold(int rank, int size) : power(floor_power_of_two(size)), rest(size - power) {
    if (rank < 2 * rest) number = rank % 2 ? rank / 2 : -1;
    else number = rank - rest;
}

int Fold::rank_of(int n) const { return n < rest ? 2 * n + 1 : n + rest; }

Region fold_in(Builder& s, const Shape& shape, const Fold& fold, Region mine, Region target) {
    if (shape.rank >= 2 * fold.rest) return mine;
    if (fold.number < 0) {
        s.send(shape.rank + 1, mine);
        return mine;
    }
    Region theirs = s.scratch(mine.length);
    s.recv(shape.rank - 1, theirs);
    s.reduce(theirs, mine, target);
    return target;
}

void fold_out(Builder& s, const Shape& shape, const Fold& fold, Region data) {
    if (shape.rank >= 2 * fold.rest) return;
    if (fold.number < 0) s.recv(shape.rank + 1, data);
    else s.send(shape.rank - 1, data);
}

}  // namespace pomona::coll
