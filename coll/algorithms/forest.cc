// coll/algorithms/forest.cc: collectives by trees that somebody gives (coll/forest.h), that fill
// the cables between machines (coll/cables.h), that share by speed (coll/uneven.h), or that cross
// between islands of machines once (coll/islands.h): each tree carries its share of the bytes, in
// pieces that flow one after the other.
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
    Grove(const Shape& shape, const Forest& forest, int root, Block whole, int segments)
        : element_(shape.element), segments_(segments) {
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

private:
    size_t element_;
    int segments_;
    std::vector<TreePlace> places_;
    std::vector<Block> blocks_;
};

// How many pieces of each tree may lie aside here at a time.
constexpr int kPiecesAhead = 8;

// Places for what a piece brings: a later piece takes those of one that is done with.
class Places {
public:
    explicit Places(Builder& s) : s_(s) {}
    // From now on those of this piece.
    void begin(int segment) { next_ = 0, turn_ = static_cast<size_t>(segment % kPiecesAhead); }
    // Always asked for in the same order, with the longest piece first.
    Region take(size_t bytes) {
        if (turn_ >= made_.size()) made_.resize(turn_ + 1);
        if (next_ == made_[turn_].size()) made_[turn_].push_back(s_.scratch(bytes));
        return made_[turn_][next_++].slice(0, bytes);
    }
    std::vector<Region> take(size_t count, size_t bytes) {
        std::vector<Region> out;
        for (size_t i = 0; i < count; ++i) out.push_back(take(bytes));
        return out;
    }

private:
    Builder& s_;
    std::vector<std::vector<Region>> made_;
    size_t turn_ = 0, next_ = 0;
};

// Trees of the user's say how long pieces are, of others the options how many there are.
int pieces_of(const Shape& shape, const Options& options, size_t bytes) {
    const Forest& forest = *options.forest;
    int pieces = forest.segment ? forest.segments(bytes) : options.segments;
    // Between two ranks: of each tree's piece one message each way, in an alltoall one for each
    // rank.
    size_t messages = forest.trees.size() * static_cast<size_t>(std::max(2, shape.size));
    return std::max(1, std::min(pieces, static_cast<int>(kMessagesMost / messages)));
}

// Of regular shapes any block, of irregular ones the longest: all ranks cut alike.
size_t longest_block(const std::vector<Block>& blocks) {
    size_t most = 0;
    for (const Block& block : blocks) most = std::max(most, block.length);
    return most;
}

// `from`: where a root has the piece; elsewhere, and for those who pass it on, it is `to`.
// Returns the step that receives it.
StepId send_down(Builder& s, const TreePlace& place, Region from, Region to) {
    StepId received = place.parent >= 0 ? s.recv(place.parent, to) : kNoStep;
    for (int child : place.children) s.send(child, place.parent >= 0 ? to : from);
    return received;
}

int height_of(const Forest& forest) {
    int most = 1;
    for (const Tree& tree : forest.trees) most = std::max(most, tree.height());
    return most;
}

void bcast_by_trees(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Grove grove(shape, *options.forest, shape.root, {0, n}, pieces_of(shape, options, n));
    for (int segment = 0; segment < grove.segments(); ++segment)
        for (size_t tree = 0; tree < grove.trees(); ++tree) {
            Region data = result(s, grove.piece(tree, segment));
            send_down(s, grove.place(tree), data, data);
        }
}

// Who only sends waits for the sum of an earlier piece: else pieces on the way up fill the lines
// before those that come down and those from farther away.
// Higher trees need more pieces under way to hide their messages' latency.
void allreduce_by_trees(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Grove grove(shape, *options.forest, -1, {0, n}, pieces_of(shape, options, n));
    Places places(s);
    int ahead = kPiecesAhead * height_of(*options.forest);
    std::vector<StepId> summed(grove.trees(), kNoStep);  // of the latest piece
    for (int step = 0; step < grove.segments() + ahead; ++step) {
        for (size_t tree = 0; tree < grove.trees() && step >= ahead; ++tree) {
            Region data = result(s, grove.piece(tree, step - ahead));
            summed[tree] = send_down(s, grove.place(tree), data, data);
        }
        if (step >= grove.segments()) continue;
        places.begin(step);
        for (size_t tree = 0; tree < grove.trees(); ++tree) {
            const TreePlace& place = grove.place(tree);
            Block piece = grove.piece(tree, step);
            auto landings = places.take(place.children.size(), piece.length);
            StepId sent = reduce_piece(s, place, landings, input(s, piece), result(s, piece));
            if (step >= ahead) s.after(sent, summed[tree]);
        }
    }
}

void reduce_by_trees(Builder& s, const Shape& shape, const Options& options) {
    size_t n = shape.bytes();
    Grove grove(shape, *options.forest, shape.root, {0, n}, pieces_of(shape, options, n));
    bool is_root = shape.rank == shape.root;
    Places places(s);
    for (int segment = 0; segment < grove.segments(); ++segment) {
        places.begin(segment);
        for (size_t tree = 0; tree < grove.trees(); ++tree) {
            const TreePlace& place = grove.place(tree);
            Block piece = grove.piece(tree, segment);
            auto landings = places.take(place.children.size(), piece.length);
            Region own = input(s, piece), sum = landings.empty() ? own : landings[0];
            reduce_piece(s, place, landings, own, is_root ? result(s, piece) : sum);
        }
    }
}

// The groves of all roots, each for its block.
std::vector<Grove> groves_of(const Shape& shape, const Options& options,
                             const std::vector<Block>& blocks) {
    std::vector<Grove> groves;
    int segments = pieces_of(shape, options, longest_block(blocks));
    for (int root = 0; root < shape.size; ++root)
        groves.emplace_back(shape, *options.forest, root, blocks[static_cast<size_t>(root)],
                            segments);
    return groves;
}

void allgather_by_trees(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = result_blocks(shape);
    Block mine = blocks[static_cast<size_t>(shape.rank)];
    if (!shape.in_place) s.copy(s.input(0, mine.length), result(s, mine));
    std::vector<Grove> groves = groves_of(shape, options, blocks);
    for (int segment = 0; segment < groves[0].segments(); ++segment)
        for (int root = 0; root < shape.size; ++root) {
            const Grove& grove = groves[static_cast<size_t>(root)];
            for (size_t tree = 0; tree < grove.trees(); ++tree) {
                Block piece = grove.piece(tree, segment);
                Region data = result(s, piece), from = data;
                if (root == shape.rank && !shape.in_place)
                    from = s.input(piece.offset - mine.offset, piece.length);
                send_down(s, grove.place(tree), from, data);
            }
        }
}

void reduce_scatter_by_trees(Builder& s, const Shape& shape, const Options& options) {
    auto blocks = input_blocks(shape);
    Block mine = blocks[static_cast<size_t>(shape.rank)];
    std::vector<Grove> groves = groves_of(shape, options, blocks);
    Region total = shape.in_place ? s.scratch(mine.length) : s.result(0, mine.length);
    Places places(s);
    for (int segment = 0; segment < groves[0].segments(); ++segment) {
        places.begin(segment);
        for (int root = 0; root < shape.size; ++root) {
            const Grove& grove = groves[static_cast<size_t>(root)];
            for (size_t tree = 0; tree < grove.trees(); ++tree) {
                const TreePlace& place = grove.place(tree);
                Block piece = grove.piece(tree, segment);
                auto landings = places.take(place.children.size(), piece.length);
                Region own = input(s, piece), sum = landings.empty() ? own : landings[0];
                if (root == shape.rank) sum = total.slice(piece.offset - mine.offset, piece.length);
                reduce_piece(s, place, landings, own, sum);
            }
        }
    }
    s.copy(total, s.result(0, mine.length));
}

// The rank behind `rank` on the way down to `to`; -1: that is not below it.
int next_of(const Tree& tree, int rank, int to) {
    while (to >= 0) {
        int parent = tree.parents[static_cast<size_t>(to)];
        if (parent == rank) return to;
        to = parent;
    }
    return -1;
}

}  // namespace

// Idea: each of the root's trees carries its share of the vector.
// Source: as above.     Cost: height (a + n/S b) + busiest n b     Limits: the user's trees, of this root
void bcast_forest(Builder& s, const Shape& shape, const Options& options) {
    bcast_by_trees(s, shape, options);
}

// Idea: each tree adds up its share of the vector on the way to its root and sends it back down.
// Source: as above.     Cost: 2 height (a + n/S b) + busiest n b + ...
// Limits: the user's trees, commutative
void allreduce_forest(Builder& s, const Shape& shape, const Options& options) {
    allreduce_by_trees(s, shape, options);
}

// Idea: each rank's block goes down the trees of which that rank is the root.
// Source: as above.     Cost: height (a + m/S b) + busiest m b     Limits: the user's trees
void allgather_forest(Builder& s, const Shape& shape, const Options& options) {
    allgather_by_trees(s, shape, options);
}

// Idea: each rank's block is added up on the way to that rank, by the trees of which it is the
// root.
// Source: as above.     Cost: height (a + m/S (b + r)) + busiest m b     Limits: the user's trees, commutative
void reduce_scatter_forest(Builder& s, const Shape& shape, const Options& options) {
    reduce_scatter_by_trees(s, shape, options);
}

// Idea: as by the user's trees, by those that load cables least: a chain's cables carry the vector
// once either way at once, a ring's 3/4 of it.
// Source: Tutte 1961; Wang et al. 2020.     Cost: 2 height (a + n/S b) + laden n b
// Limits: commutative; trees by cables (coll/cables.h)
void allreduce_cables(Builder& s, const Shape& shape, const Options& options) {
    allreduce_by_trees(s, shape, options);
}

// Idea: likewise.
// Source: as above.     Cost: height (a + m/S b) + laden m b     Limits: trees by cables
void allgather_cables(Builder& s, const Shape& shape, const Options& options) {
    allgather_by_trees(s, shape, options);
}

// Idea: likewise.
// Source: as above.     Cost: height (a + m/S (b + r)) + laden m b     Limits: as the first's
void reduce_scatter_cables(Builder& s, const Shape& shape, const Options& options) {
    reduce_scatter_by_trees(s, shape, options);
}

// Idea: as by the user's trees, by those of the root that load cables least: as many at once as
// cables part the root from any other machine.
// Source: Edmonds 1973; Wang et al. 2020.     Cost: height (a + n/S b) + laden n b
// Limits: trees by cables
void bcast_cables(Builder& s, const Shape& shape, const Options& options) {
    bcast_by_trees(s, shape, options);
}

// Idea: what a bcast sends down those trees comes up and is added up on the way.
// Source: as above.     Cost: height (a + n/S (b + r)) + laden n b
// Limits: commutative; trees by cables
void reduce_cables(Builder& s, const Shape& shape, const Options& options) {
    reduce_by_trees(s, shape, options);
}

// Idea: each block goes down a tree of its sender's as far as its receiver; who is between hands it
// on piece by piece, and the pieces for all take turns, so that all cables carry some at once.
// Source: as above.     Cost: height (a + m/S b) + laden m b     Limits: regular; trees by cables
void alltoall_cables(Builder& s, const Shape& shape, const Options& options) {
    auto in = shape.in_place ? result_blocks(shape) : input_blocks(shape);
    auto out = result_blocks(shape);
    copy_input_aside(s, shape, out);
    int p = shape.size, r = shape.rank;
    std::vector<Grove> groves =
        groves_of(shape, options, std::vector<Block>(static_cast<size_t>(p), {0, shape.bytes()}));
    Places places(s);
    for (int segment = 0; segment < groves[0].segments(); ++segment) {
        places.begin(segment);
        for (int step = 1; step < p; ++step)
            for (int root = 0; root < p; ++root) {
                int to = (root + step) % p;
                auto trees = options.forest->of_root(root);
                for (size_t i = 0; i < trees.size(); ++i) {
                    int parent = trees[i]->parents[static_cast<size_t>(r)];
                    int next = r == to ? -1 : next_of(*trees[i], r, to);
                    if (r != to && next < 0) continue;
                    Block piece = groves[static_cast<size_t>(root)].piece(i, segment);
                    auto part = [&](Block block) {
                        return Block{block.offset + piece.offset, piece.length};
                    };
                    Region data = r == root ? input(s, part(in[static_cast<size_t>(to)]))
                                  : r == to ? result(s, part(out[static_cast<size_t>(root)]))
                                            : places.take(piece.length);
                    if (r != root) s.recv(parent, data);
                    if (r != to) s.send(next, data);
                }
            }
    }
    s.copy(input(s, in[static_cast<size_t>(r)]), result(s, out[static_cast<size_t>(r)]));
}

// Idea: as by the user's trees, by those in which the ranks with the quickest lines are roots, each
// of a share by its speed, and those with slow ones nowhere: a slow line carries the vector once
// either way, in a ring 2 (p-1)/p times.
// Source: Legrand, Marchal, Robert 2005; Jiang et al. 2020 (coll/uneven.h).
// Cost: 2 (a + (height - 1) a1 + height n/S (b + r)) + n pace
// Limits: commutative; links of unlike rates
void allreduce_uneven(Builder& s, const Shape& shape, const Options& options) {
    allreduce_by_trees(s, shape, options);
}

// Idea: trees by which each byte goes from island to island once, and the lines of all of an
// island's machines carry a part.
// Source: Karonis et al. 2000; Traeff, Hunold 2020 (coll/islands.h).
// Cost: along + tree n/S b + n pace     Limits: machines in islands
void bcast_islands(Builder& s, const Shape& shape, const Options& options) {
    bcast_by_trees(s, shape, options);
}

// Idea: likewise, upwards.
// Source: as above.     Cost: along + tree n/S (b + r) + n pace     Limits: commutative; islands
void reduce_islands(Builder& s, const Shape& shape, const Options& options) {
    reduce_by_trees(s, shape, options);
}

// Idea: each rank is the root of a tree, and adds up its share of the vector.
// Source: as above.     Cost: 2 (along + height n/(p S) (b + r)) + n pace
// Limits: commutative; machines in islands
void allreduce_islands(Builder& s, const Shape& shape, const Options& options) {
    allreduce_by_trees(s, shape, options);
}

// Idea: each rank's block goes once into each other island, and from there to all of it.
// Source: as above.     Cost: along + m/S b + m pace     Limits: machines in islands
void allgather_islands(Builder& s, const Shape& shape, const Options& options) {
    allgather_by_trees(s, shape, options);
}

// Idea: what is for a rank is added up within each island and leaves it once.
// Source: as above.     Cost: along + m/S (b + r) + m pace     Limits: commutative; machines in islands
void reduce_scatter_islands(Builder& s, const Shape& shape, const Options& options) {
    reduce_scatter_by_trees(s, shape, options);
}

}  // namespace pomona::coll
