// coll/islands.cc: see islands.h.
#include "coll/islands.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pomona::coll {

namespace {

constexpr double kMuchQuicker = 2;  // a byte, within an island and between two

using Parents = std::vector<int>;
using Part = std::vector<int>;  // ranks

// Ranks and the levels that they are told apart by.
class Islands {
public:
    Islands(std::vector<std::vector<int>> levels, std::span<const int> nodes)
        : levels_(std::move(levels)) {
        // In each part its machines take turns, so that neighbours by number use different lines.
        std::vector<std::pair<int, int>> order;
        for (size_t rank = 0; rank < nodes.size(); ++rank) {
            auto before = nodes.begin() + static_cast<std::ptrdiff_t>(rank);
            auto turn = static_cast<int>(std::count(nodes.begin(), before, nodes[rank]));
            order.emplace_back(turn, static_cast<int>(rank));
        }
        std::stable_sort(order.begin(), order.end(),
                         [](const auto& x, const auto& y) { return x.first < y.first; });
        for (const auto& [turn, rank] : order) all_.push_back(rank);
    }

    Tree tree_from(int root) const {
        Tree tree{1, Parents(all_.size(), -1)};
        spread(tree.parents, root, all_, 0, false);
        return tree;
    }
    // Of a bcast's or a reduce's: by `through`, a member of the root's island, from there on.
    Tree tree_through(int root, int through) const {
        Tree tree{1, Parents(all_.size(), -1)};
        spread(tree.parents, root, island_of(root), 1, true);
        spread_beyond(tree.parents, through, all_, 0, true);
        return tree;
    }
    Part island_of(int root) const {
        for (const Part& part : parts_of(all_, 0))
            if (holds(part, root)) return part;
        return {};
    }

private:
    static bool holds(const Part& part, int rank) {
        return std::find(part.begin(), part.end(), rank) != part.end();
    }
    std::vector<Part> parts_of(const Part& ranks, size_t level) const {
        std::map<int, Part> found;
        for (int rank : ranks) found[levels_[level][static_cast<size_t>(rank)]].push_back(rank);
        std::vector<Part> parts;
        for (auto& [number, part] : found) parts.push_back(std::move(part));
        return parts;
    }
    // Who takes in what `rank` sends to a part: all of it have as much of what all others send.
    static int entry(const std::vector<Part>& parts, const Part& into, int rank) {
        size_t before = 0;
        for (const Part& part : parts) {
            if (&part == &into) continue;
            auto at = std::find(part.begin(), part.end(), rank);
            before += static_cast<size_t>(at - part.begin());
            if (at != part.end()) break;
        }
        return into[before % into.size()];
    }
    // To all of `ranks`, of which `from` is one. `chain`: from part to part, else to each from
    // here.
    void spread(Parents& parents, int from, const Part& ranks, size_t level, bool chain) const {
        if (level == levels_.size()) {
            for (int rank : ranks)
                if (rank != from) parents[static_cast<size_t>(rank)] = from;
            return;
        }
        for (const Part& part : parts_of(ranks, level))
            if (holds(part, from)) spread(parents, from, part, level + 1, chain);
        spread_beyond(parents, from, ranks, level, chain);
    }
    // To the parts that `from` is not in.
    void spread_beyond(Parents& parents, int from, const Part& ranks, size_t level,
                       bool chain) const {
        const std::vector<Part> parts = parts_of(ranks, level);
        auto own = std::find_if(parts.begin(), parts.end(),
                                [&](const Part& part) { return holds(part, from); });
        int above = from;
        for (size_t i = 1; i < parts.size(); ++i) {
            const Part& part = parts[(static_cast<size_t>(own - parts.begin()) + i) % parts.size()];
            int into = entry(parts, part, above);
            parents[static_cast<size_t>(into)] = above;
            spread(parents, into, part, level + 1, chain);
            if (chain) above = into;
        }
    }

    std::vector<std::vector<int>> levels_;
    Part all_;
};

// The islands of machines that links with at most `longest` for a byte join, by machine; empty
// where some machines of one reach each other less quickly, or there is only one.
std::vector<int> joined_by(const Machine& machine, const std::vector<int>& machines,
                           double longest) {
    std::vector<int> island(machines.size(), -1);
    int count = 0;
    auto quick = [&](size_t i, size_t j) {
        return machine.pairs.between(machines[i], machines[j]).byte_ns <= longest;
    };
    for (size_t i = 0; i < machines.size(); ++i) {
        if (island[i] < 0) island[i] = count++;
        for (size_t j = i + 1; j < machines.size(); ++j)
            if (quick(i, j) && island[j] < 0) island[j] = island[i];
    }
    for (size_t i = 0; i < machines.size(); ++i)
        for (size_t j = i + 1; j < machines.size(); ++j)
            if (quick(i, j) != (island[i] == island[j])) return {};
    return count > 1 ? island : std::vector<int>();
}

}  // namespace

std::vector<std::vector<int>> levels_of(const Machine& machine, std::span<const int> nodes) {
    std::vector<int> machines(nodes.begin(), nodes.end());
    std::sort(machines.begin(), machines.end());
    machines.erase(std::unique(machines.begin(), machines.end()), machines.end());
    auto count = static_cast<int>(machines.size());
    if (count < 3 || count > kIslandMachinesMost || !machine.pairs.known() ||
        nodes.size() > static_cast<size_t>(kIslandRanksMost))
        return {};
    std::vector<double> bytes;
    for (size_t i = 0; i < machines.size(); ++i)
        for (size_t j = i + 1; j < machines.size(); ++j)
            bytes.push_back(machine.pairs.between(machines[i], machines[j]).byte_ns);
    std::sort(bytes.begin(), bytes.end());
    std::vector<std::vector<int>> levels;
    for (size_t i = bytes.size() - 1; i > 0; --i) {
        if (!(bytes[i] >= kMuchQuicker * bytes[i - 1]) || !(bytes[i] > bytes[i - 1])) continue;
        std::vector<int> island = joined_by(machine, machines, bytes[i - 1]);
        if (island.empty()) continue;
        std::vector<int> by_rank;
        for (int node : nodes) {
            auto at = std::lower_bound(machines.begin(), machines.end(), node) - machines.begin();
            by_rank.push_back(island[static_cast<size_t>(at)]);
        }
        levels.push_back(std::move(by_rank));
    }
    if (!levels.empty()) levels.emplace_back(nodes.begin(), nodes.end());
    return levels;
}

Forests forests_by_island(const Machine& machine, std::span<const int> nodes) {
    std::vector<std::vector<int>> levels = levels_of(machine, nodes);
    if (levels.empty()) return nullptr;
    Islands islands(std::move(levels), nodes);
    auto ranks = static_cast<int>(nodes.size());
    std::vector<Forest> forests;
    auto add = [&](Collective collective, std::vector<Tree> trees) {
        Forest forest;
        forest.collective = collective, forest.trees = std::move(trees);
        forests.push_back(std::move(forest));
    };
    std::vector<Tree> trees;
    for (int root = 0; root < ranks; ++root) trees.push_back(islands.tree_from(root));
    for (Collective each :
         {Collective::allreduce, Collective::allgather, Collective::reduce_scatter})
        add(each, trees);
    for (int root = 0; root < ranks && ranks <= kRootedIslandRanksMost; ++root) {
        trees.clear();
        for (int through : islands.island_of(root))
            trees.push_back(islands.tree_through(root, through));
        add(Collective::bcast, trees), add(Collective::reduce, trees);
    }
    return std::make_shared<const std::vector<Forest>>(std::move(forests));
}

}  // namespace pomona::coll
