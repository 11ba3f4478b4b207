// coll/algorithms/double_tree.cc: two binary trees, each of which carries half of the vector.
// Idea: in one binary tree half of the ranks are leaves and only receive. The second tree is made
// so that the leaves of one stand inside the other; so every rank receives and sends about all of
// the vector once, and segments flow through trees of logarithmic depth with the bandwidth of a
// chain.
//
//   7 positions:  first   3            second, by one further:   4
//                       1   5                                  2   6
//                      0 2 4 6                                1 3 5 0
// Even positions of the first tree are leaves. Of an even number of positions the second tree is
// the first one's mirror image; of an odd number it is moved by one, and one position is a leaf in
// both.
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35(12):581-594, 2009.
#include "coll/algorithms/algorithms.h"

namespace pomona::coll {

namespace {

// In-order binary tree over positions 0 .. n-1: the left part of a tree is a perfect one.
TreePlace in_order_place(int position, int n) {
    TreePlace place;
    int low = 0, high = n;
    for (;;) {
        int root = low + floor_power_of_two(high - low) - 1;
        if (root == position) {
            if (root > low) place.children.push_back(low + floor_power_of_two(root - low) - 1);
            if (root + 1 < high)
                place.children.push_back(root + floor_power_of_two(high - root - 1));
            return place;
        }
        place.parent = root;
        if (position < root) high = root;
        else low = root + 1;
    }
}

int in_order_parent(int position, int n) {
    int low = 0, high = n, parent = -1;
    for (;;) {
        int root = low + floor_power_of_two(high - low) - 1;
        if (root == position) return parent;
        parent = root;
        if (position < root) high = root;
        else low = root + 1;
    }
}

// Where a rank stands in the two trees over all ranks, or over all but the root, which then feeds
// both.
struct TwoTrees {
    const Shape& shape;
    bool root_apart;
    int count = shape.size - (root_apart ? 1 : 0);

    // Numbers of the first tree: ranks in their order, the root left out.
    int rank_of(int number) const {
        return root_apart ? (shape.root + 1 + number) % shape.size : number;
    }
    int number() const { return number_of(shape.rank); }
    int number_of(int rank) const {
        return root_apart ? mod(rank - shape.root - 1, shape.size) : rank;
    }
    int position(int number, int tree) const {
        if (tree == 0) return number;
        return count % 2 ? mod(number - 1, count) : count - 1 - number;
    }
    int number_at(int position, int tree) const {
        if (tree == 0) return position;
        return count % 2 ? (position + 1) % count : count - 1 - position;
    }
    TreePlace place(int tree) const {
        if (root_apart && shape.rank == shape.root) {
            int top = floor_power_of_two(count) - 1;
            return {-1, {rank_of(number_at(top, tree))}};
        }
        TreePlace place = in_order_place(position(number(), tree), count);
        if (place.parent >= 0) place.parent = rank_of(number_at(place.parent, tree));
        else if (root_apart) place.parent = shape.root;
        for (int& child : place.children) child = rank_of(number_at(child, tree));
        return place;
    }
};

// Half of the vector, and its segments: those of one tree.
Block piece_of(const Shape& shape, int tree, int segments, int segment) {
    return share_of_block(share_bytes(shape, 2, tree), shape.element, segments, segment);
}

// The trees of a rank, with the memory in which it adds up.
struct UpAndDown {
    Builder& s;
    const Shape& shape;
    TreePlace places[2];
    std::vector<Region> landings;  // by child, of both trees
    Region mine, sum;

    UpAndDown(Builder& builder, const Shape& wanted, const TwoTrees& trees, Region target)
        : s(builder), shape(wanted), places{trees.place(0), trees.place(1)},
          mine(builder.input(0, wanted.bytes())), sum(target) {
        for (const TreePlace& place : places)
            for (size_t i = landings.size(); i < place.children.size(); ++i)
                landings.push_back(s.scratch(shape.bytes()));
    }
    void up(int tree, Block piece) { reduce_up(s, places[tree], landings, mine, sum, piece); }
    void down(int tree, Block piece) {
        Region data = s.result(piece.offset, piece.length);
        if (places[tree].parent >= 0) s.recv(places[tree].parent, data);
        for (int child : places[tree].children) s.send(child, data);
    }
};

}  // namespace

int double_tree_parent(const Shape& shape, bool root_apart, int rank, int tree) {
    if (root_apart && rank == shape.root) return -1;
    TwoTrees trees{shape, root_apart};
    int above = in_order_parent(trees.position(trees.number_of(rank), tree), trees.count);
    if (above >= 0) return trees.rank_of(trees.number_at(above, tree));
    return root_apart ? shape.root : -1;
}

// Idea: as above; the root sends each half to the top of its tree.
// Source: as above.
// Cost: E (a + n/2S b) + (E-1)(o + n/2S b) + (2S-1)(o + n/2S b)     Limits: 3 ranks or more
void bcast_double_tree(Builder& s, const Shape& shape, const Options& options) {
    TwoTrees trees{shape, true};
    TreePlace places[2] = {trees.place(0), trees.place(1)};
    for (int segment = 0; segment < options.segments; ++segment)
        for (int tree : {0, 1}) {
            Region data = result(s, piece_of(shape, tree, options.segments, segment));
            if (places[tree].parent >= 0) s.recv(places[tree].parent, data);
            for (int child : places[tree].children) s.send(child, data);
        }
}

// Idea: the same upwards, with sums.
// Source: as above.
// Cost: E (a + n/2S (b + r)) + (E-1) n/2S r + (2S-1) both(o + n/2S b, n/2S r)
// Limits: commutative, 3 ranks or more
void reduce_double_tree(Builder& s, const Shape& shape, const Options& options) {
    TwoTrees trees{shape, true};
    bool at_root = shape.rank == shape.root;
    size_t n = shape.bytes();
    UpAndDown half(s, shape, trees, at_root ? s.result(0, n) : s.scratch(n));
    for (int segment = 0; segment < options.segments; ++segment)
        for (int tree : {0, 1}) half.up(tree, piece_of(shape, tree, options.segments, segment));
}

// Idea: each half is reduced up its tree to a rank of its own, and sent down the same tree.
// Source: as above.
// Cost: 2 (E-1)(a + n/2S b) + 2 (E-1) n/2S r + ... per segment     Limits: as above
void allreduce_double_tree(Builder& s, const Shape& shape, const Options& options) {
    TwoTrees trees{shape, false};
    UpAndDown half(s, shape, trees, s.result(0, shape.bytes()));
    for (int segment = 0; segment < options.segments; ++segment)
        for (int tree : {0, 1}) half.up(tree, piece_of(shape, tree, options.segments, segment));
    for (int segment = 0; segment < options.segments; ++segment)
        for (int tree : {0, 1}) half.down(tree, piece_of(shape, tree, options.segments, segment));
}

}  // namespace pomona::coll
