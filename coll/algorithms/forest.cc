// coll/algorithms/forest.cc: collectives by trees that somebody gives (coll/forest.h): each tree
// carries its share of the bytes, in pieces that flow one after the other.
//
//   two trees over 4 ranks:   0         2      of 8 parts of the vector 5 go by the left tree,
//                            1 2       0 1     3 by the right one: slow links lie in few trees,
//                            3           3     links of one host in different ones
// Source: Wang et al., "Blink: Fast and generic collectives for distributed ML", MLSys 2020.
#include "coll/algorithms/algorithms.h"
#include "coll/forest.h"

#include <algorithm>

namespace pomona::coll {

namespace {

// The trees of one root at one rank, and the blocks of `whole` that they carry.
class Grove {
public:
    Grove(const Shape& shape, const Forest& forest, int root, Block whole, size_t decides)
        : element_(shape.element), segments_(forest.segments(decides)) {
        auto trees = forest.of_root(root);
        size_t sum = 0, before = 0, count = whole.length / element_;
        for (const Tree* tree : trees) sum += static_cast<size_t>(tree->share);
        auto end_of = [&](size_t shares) {  // count * shares / sum, without overflow
            return count / sum * shares + count % sum * shares / sum;
        };
        for (const Tree* tree : trees) {
            size_t after = before + static_cast<size_t>(tree->share);
            size_t first = end_of(before), last = end_of(after);
            blocks_.push_back({whole.offset + first * element_, (last - first) * element_});
            before = after;
            places_.push_back(
                {tree->parents[static_cast<size_t>(shape.rank)], tree->children(shape.rank)});
        }
    }
    int segments() const { return segments_; }
    size_t trees() const { return places_.size(); }
    const TreePlace& place(size_t tree) const { return places_[tree]; }
    Block piece(size_t tree, int segment) const {
        return share_of_block(blocks_[tree], element_, segments_, segment);
    }
    size_t children_most() const {
        size_t most = 0;
        for (const TreePlace& each : places_) most = std::max(most, each.children.size());
        return most;
    }

private:
    size_t element_;
    int segments_;
    std::vector<TreePlace> places_;
    std::vector<Block> blocks_;
};

// `from`: where a root has the piece; elsewhere, and for those who pass it on, it is `to`.
void send_down(Builder& s, const TreePlace& place, Region from, Region to) {
    if (place.parent >= 0) s.recv(place.parent, to);
    for (int child : place.children) s.send(child, place.parent >= 0 ? to : from);
}

// Of regular shapes any block, of irregular ones the longest: all ranks cut alike.
size_t longest_block(const std::vector<Block>& blocks) {
    size_t most = 0;
    for (const Block& block : blocks) most = std::max(most, block.length);
    return most;
}

}  // namespace

// Idea: each of the root's trees carries its share of the vector.
// Source: as above.     Cost: height (a + n/S b) + busiest n b     Limits: the user's trees, of this root
void bcast_forest(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Grove grove(shape, *options.forest, shape.root, {0, n}, n);
    for (int segment = 0; segment < grove.segments(); ++segment)
        for (size_t tree = 0; tree < grove.trees(); ++tree) {
            Region data = result(s, grove.piece(tree, segment));
            send_down(s, grove.place(tree), data, data);
        }
}

// Idea: each tree adds up its share of the vector on the way to its root and sends it back down.
// Source: as above.     Cost: 2 height (a + n/S b) + busiest n b + ...
// Limits: the user's trees, commutative
void allreduce_forest(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Grove grove(shape, *options.forest, -1, {0, n}, n);
    Region mine = s.input(0, n), sum = s.result(0, n);
    std::vector<Region> landings;
    for (size_t i = 0; i < grove.children_most(); ++i) landings.push_back(s.scratch(n));
    for (int segment = 0; segment < grove.segments(); ++segment)
        for (size_t tree = 0; tree < grove.trees(); ++tree)
            reduce_up(s, grove.place(tree), landings, mine, sum, grove.piece(tree, segment));
    for (int segment = 0; segment < grove.segments(); ++segment)
        for (size_t tree = 0; tree < grove.trees(); ++tree) {
            Region data = result(s, grove.piece(tree, segment));
            send_down(s, grove.place(tree), data, data);
        }
}

// Idea: each rank's block goes down the trees of which that rank is the root.
// Source: as above.     Cost: height (a + m/S b) + busiest m b     Limits: the user's trees
void allgather_forest(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = result_blocks(shape);
    size_t decides = longest_block(blocks);
    Region own = result(s, blocks[static_cast<size_t>(shape.rank)]);
    if (!shape.in_place) s.copy(s.input(0, own.length), own);
    std::vector<Grove> groves;
    for (int root = 0; root < shape.size; ++root)
        groves.emplace_back(shape, *options.forest, root, blocks[static_cast<size_t>(root)],
                            decides);
    for (int segment = 0; segment < groves[0].segments(); ++segment)
        for (int root = 0; root < shape.size; ++root) {
            const Grove& grove = groves[static_cast<size_t>(root)];
            for (size_t tree = 0; tree < grove.trees(); ++tree) {
                Block piece = grove.piece(tree, segment);
                Region data = result(s, piece), from = data;
                if (root == shape.rank && !shape.in_place)
                    from = s.input(piece.offset - blocks[static_cast<size_t>(root)].offset,
                                   piece.length);
                send_down(s, grove.place(tree), from, data);
            }
        }
}

// Idea: each rank's block is added up on the way to that rank, by the trees of which it is the
// root.
// Source: as above.     Cost: height (a + m/S (b + r)) + busiest m b     Limits: the user's trees, commutative
void reduce_scatter_forest(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = input_blocks(shape);
    size_t decides = longest_block(blocks);
    std::vector<Grove> groves;
    std::vector<std::vector<Region>> landings(blocks.size());
    std::vector<Region> sums;
    for (int root = 0; root < shape.size; ++root) {
        Block block = blocks[static_cast<size_t>(root)];
        const Grove& grove =
            groves.emplace_back(shape, *options.forest, root, Block{0, block.length}, decides);
        size_t children = grove.children_most();
        for (size_t i = 0; i < children; ++i)
            landings[static_cast<size_t>(root)].push_back(s.scratch(block.length));
        bool own = root == shape.rank && !shape.in_place;
        sums.push_back(own        ? s.result(0, block.length)
                       : children ? s.scratch(block.length)
                                  : input(s, block));
    }
    for (int segment = 0; segment < groves[0].segments(); ++segment)
        for (size_t root = 0; root < groves.size(); ++root)
            for (size_t tree = 0; tree < groves[root].trees(); ++tree)
                reduce_up(s, groves[root].place(tree), landings[root], input(s, blocks[root]),
                          sums[root], groves[root].piece(tree, segment));
    auto own = static_cast<size_t>(shape.rank);
    s.copy(sums[own], s.result(0, blocks[own].length));
}

}  // namespace pomona::coll
