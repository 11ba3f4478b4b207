// coll/forest.h: a row of the user's: the trees that a collective's data goes by on one network,
// each with its share of the bytes.
// Idea: `pomona synthesize` searches for them where links are unlike; a job on the same machines
// takes them before rules and formulas. A forest is data, so it is read from text, checked before
// it is used (coll/contributions.h) and built by one function for each collective
// (coll/algorithms/forest.cc).
// Source: packing of weighted trees: Edmonds, "Edge-disjoint branchings", 1973; for collectives:
// Wang et al., "Blink: Fast and generic collectives for distributed ML", MLSys 2020. Form, lines
// ended by a line feed or ';', '#' begins a comment; sizes as in coll/rules.h:
//   network mac1:2 mac2 linuxbox                  hosts with their ranks; 1 where none is said
//   gigabits 0-1=38 0-2=0.94 1-2=0.94             what joined them when the forests were made
//   allreduce 64K..16M segment=32K: 5 (- 0 0 1), 3 (2 0 - 1)
// The last says: 5 of 8 parts of the vector go by the tree whose rank 0 is the root, ranks 1 and 2
// its children and rank 3 the child of 1; in pieces of 32 KiB of the vector at most. Ranks are
// counted host by host. Trees of a bcast serve its root; of allgather and reduce_scatter each rank
// is a root.
#pragma once

#include "btl/base/result.h"
#include "coll/shape.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pomona::coll {

struct Tree {
    int share = 1;             // of the sum of those with the same root; of all in an allreduce
    std::vector<int> parents;  // of each rank; -1: the root
    int root() const;
    // Whom a rank passes data to, the largest subtree first.
    std::vector<int> children(int rank) const;
    int height() const;
    bool operator==(const Tree&) const = default;
};

struct Forest {
    Collective collective = Collective::allreduce;
    size_t from = 0, to = SIZE_MAX;  // bytes that a rank gives; `to` is not in it
    size_t segment = 0;              // bytes of a piece at most; 0: in one piece
    std::vector<Tree> trees;
    int line = 0;  // of the text

    int size() const { return trees.empty() ? 0 : static_cast<int>(trees[0].parents.size()); }
    // Has it trees for this shape?
    bool serves(const Shape& shape) const;
    // Into how many pieces so many bytes go.
    int segments(size_t bytes) const;
    // The trees of one root (of all in an allreduce: -1), in their order.
    std::vector<const Tree*> of_root(int root) const;
    bool operator==(const Forest&) const = default;
};

// The hosts that forests are for.
struct ForestNetwork {
    struct Pair {
        int a = 0, b = 0;
        double gigabits = 0;
        bool operator==(const Pair&) const = default;
    };
    std::vector<std::string> hosts;
    std::vector<int> ranks;  // of each
    std::vector<Pair> pairs;
    std::vector<Forest> forests;
    int size() const;
    bool operator==(const ForestNetwork&) const = default;
};

// "" and "none" are none. `problem` gets a sentence for people, with the number of the line.
Result<std::vector<ForestNetwork>> parse_forests(std::string_view text, std::string& problem);
std::string forest_text(const Forest& forest);            // a line, without its end
std::string network_lines(const ForestNetwork& network);  // all of its lines

// Is a forest right: builds all ranks' schedules for several sizes and follows every contribution.
// "" or a sentence.
std::string verify_forest(const Forest& forest);

// The forests for ranks on these machines: their ranks renumbered. Hosts must be named by the
// machines' numbers. Empty where not all of the network's machines, with as many ranks, are there,
// or others too.
std::vector<Forest> forests_for(const ForestNetwork& network, std::span<const int> nodes);

// Those of one communicator, as Machine carries them. Never null where a machine has any.
using Forests = std::shared_ptr<const std::vector<Forest>>;
// The one that counts for a shape: the first whose range holds `bytes`; null where there is none.
// `any`: else one of another range.
const Forest* find_forest(const Forests& forests, const Shape& shape, size_t bytes, bool any);

}  // namespace pomona::coll
