// coll/cables.cc: see cables.h.
#include "coll/cables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <tuple>

namespace pomona::coll {

namespace {

constexpr int kRounds = 12;     // shares of each root's data
constexpr int kRateUnits = 16;  // of the quickest cable
constexpr int64_t kScale = 720720 * kRateUnits;

// Ranks and the cables between their machines; loads in shares, by cable and direction.
class CableGraph {
public:
    CableGraph(const Machine& machine, std::span<const int> nodes)
        : p_(static_cast<int>(nodes.size())), rates_(static_cast<size_t>(p_ * p_)) {
        auto byte_ns = [&](int a, int b) {
            return machine.pairs.known() ? machine.pairs.between(a, b).byte_ns
                                         : machine.far.byte_ns;
        };
        double quickest = 0;
        auto each = [&](auto&& call) {
            for (int a = 0; a < p_; ++a)
                for (int b = 0; b < p_; ++b) {
                    int from = nodes[static_cast<size_t>(a)], to = nodes[static_cast<size_t>(b)];
                    if (from != to && machine.cables.between(from, to))
                        call(a, b, byte_ns(from, to));
                }
        };
        each([&](int, int, double ns) { quickest = quickest > 0 ? std::min(quickest, ns) : ns; });
        each([&](int a, int b, double ns) {
            double units = ns > 0 ? quickest * kRateUnits / ns : kRateUnits;
            rates_[index(a, b)] = std::max(1, static_cast<int>(std::lround(units)));
        });
    }
    int size() const { return p_; }
    bool joined(int a, int b) const { return rates_[index(a, b)] > 0; }
    // Have all cables the same rate?
    bool alike() const {
        return std::all_of(rates_.begin(), rates_.end(),
                           [](int rate) { return rate == 0 || rate == kRateUnits; });
    }
    // How long so many shares take by a cable.
    int64_t time(int a, int b, int64_t shares) const {
        return shares * kScale / rates_[index(a, b)];
    }
    size_t index(int a, int b) const { return static_cast<size_t>(a * p_ + b); }
    bool connected() const {
        std::vector<int> all = distances(0);
        return std::find(all.begin(), all.end(), -1) == all.end();
    }
    std::vector<int> distances(int from) const {
        std::vector<int> found(static_cast<size_t>(p_), -1), open{from};
        found[static_cast<size_t>(from)] = 0;
        for (size_t i = 0; i < open.size(); ++i)
            for (int next = 0; next < p_; ++next)
                if (joined(open[i], next) && found[static_cast<size_t>(next)] < 0) {
                    found[static_cast<size_t>(next)] = found[static_cast<size_t>(open[i])] + 1;
                    open.push_back(next);
                }
        return found;
    }

private:
    int p_;
    std::vector<int> rates_;
};

using Parents = std::vector<int>;
using Loads = std::vector<int64_t>;

int64_t busiest(const CableGraph& graph, const Loads& loads) {
    int64_t most = 0;
    for (int a = 0; a < graph.size(); ++a)
        for (int b = 0; b < graph.size(); ++b)
            if (graph.joined(a, b))
                most = std::max(most, graph.time(a, b, loads[graph.index(a, b)]));
    return most;
}

// The spanning tree whose cables have carried least so far, by its edges (Kruskal), from the rank
// that is nearest to all.
Parents least_loaded_tree(const CableGraph& graph, Loads& loads) {
    int p = graph.size();
    std::vector<std::tuple<int64_t, int, int>> edges;
    for (int a = 0; a < p; ++a)
        for (int b = a + 1; b < p; ++b)
            if (graph.joined(a, b))
                edges.emplace_back(graph.time(a, b, loads[graph.index(a, b)] + 1), a, b);
    std::sort(edges.begin(), edges.end());
    std::vector<int> group(static_cast<size_t>(p));
    std::iota(group.begin(), group.end(), 0);
    std::vector<std::vector<int>> joined(static_cast<size_t>(p));
    for (auto [time, a, b] : edges) {
        int one = group[static_cast<size_t>(a)], other = group[static_cast<size_t>(b)];
        if (one == other) continue;
        std::replace(group.begin(), group.end(), other, one);
        joined[static_cast<size_t>(a)].push_back(b), joined[static_cast<size_t>(b)].push_back(a);
        ++loads[graph.index(a, b)], ++loads[graph.index(b, a)];
    }
    Parents best;
    int least = p;
    for (int root = 0; root < p; ++root) {
        Tree tree{1, Parents(static_cast<size_t>(p), -1)};
        std::vector<int> open{root};
        for (size_t i = 0; i < open.size(); ++i)
            for (int next : joined[static_cast<size_t>(open[i])])
                if (next != tree.parents[static_cast<size_t>(open[i])])
                    tree.parents[static_cast<size_t>(next)] = open[i], open.push_back(next);
        if (int height = tree.height(); height < least) least = height, best = tree.parents;
    }
    return best;
}

// A tree from `root` that grows by the cable that has carried least so far, near ones first (Prim).
Parents grown_tree(const CableGraph& graph, int root, Loads& loads) {
    int p = graph.size();
    Parents parents(static_cast<size_t>(p), -1);
    std::vector<int> depth(static_cast<size_t>(p), -1);
    depth[static_cast<size_t>(root)] = 0;
    for (int joined = 1; joined < p; ++joined) {
        std::tuple<int64_t, int, int, int> best{INT64_MAX, 0, 0, 0};
        for (int a = 0; a < p; ++a)
            for (int b = 0; b < p; ++b)
                if (depth[static_cast<size_t>(a)] >= 0 && depth[static_cast<size_t>(b)] < 0 &&
                    graph.joined(a, b))
                    best = std::min(best, {graph.time(a, b, loads[graph.index(a, b)] + 1),
                                           depth[static_cast<size_t>(a)], a, b});
        auto [time, above, a, b] = best;
        parents[static_cast<size_t>(b)] = a, depth[static_cast<size_t>(b)] = above + 1;
        ++loads[graph.index(a, b)];
    }
    return parents;
}

// Directed cables that no tree has taken yet.
class FreeCables {
public:
    explicit FreeCables(const CableGraph& graph) : graph_(graph) {
        int p = graph.size();
        free_.resize(static_cast<size_t>(p * p));
        for (int a = 0; a < p; ++a)
            for (int b = 0; b < p; ++b) free_[graph.index(a, b)] = graph.joined(a, b);
    }
    bool has(int a, int b) const { return free_[graph_.index(a, b)] != 0; }
    void set(int a, int b, bool free) { free_[graph_.index(a, b)] = free; }
    // Ways from `root` to any one rank that share no cable: so many there are to each, up to
    // `most`.
    int ways_from(int root, int most) const {
        for (int to = 0; to < graph_.size() && most > 0; ++to)
            if (to != root) most = std::min(most, ways_between(root, to, most));
        return most;
    }

private:
    // The greatest flow, a way at a time (Ford, Fulkerson).
    int ways_between(int from, int to, int most) const {
        std::vector<char> left = free_;
        int found = 0;
        for (; found < most; ++found) {
            Parents before(static_cast<size_t>(graph_.size()), -1);
            std::vector<int> open{from};
            for (size_t i = 0; i < open.size() && before[static_cast<size_t>(to)] < 0; ++i)
                for (int next = 0; next < graph_.size(); ++next)
                    if (left[graph_.index(open[i], next)] > 0 && next != from &&
                        before[static_cast<size_t>(next)] < 0) {
                        before[static_cast<size_t>(next)] = open[i];
                        open.push_back(next);
                    }
            if (before[static_cast<size_t>(to)] < 0) break;
            for (int at = to; at != from; at = before[static_cast<size_t>(at)]) {
                --left[graph_.index(before[static_cast<size_t>(at)], at)];
                ++left[graph_.index(at, before[static_cast<size_t>(at)])];
            }
        }
        return found;
    }

    const CableGraph& graph_;
    std::vector<char> free_;
};

// Trees from `root` that share no cable in one direction, as many as cables part it from any other
// rank (Edmonds). Each grows, near ranks first, by cables without which there still are ways for
// the trees that follow (the proof of Lovasz, "On two minimax theorems in graph", 1976).
std::vector<Parents> disjoint_trees(const CableGraph& graph, int root) {
    int p = graph.size();
    FreeCables free(graph);
    std::vector<Parents> trees;
    for (int left = free.ways_from(root, p) - 1; left >= 0; --left) {
        Parents parents(static_cast<size_t>(p), -1);
        std::vector<int> reached{root};  // in the order of their depths
        auto grow = [&] {
            for (int a : reached)
                for (int b = 0; b < p; ++b) {
                    bool inside = b == root || parents[static_cast<size_t>(b)] >= 0;
                    if (inside || !free.has(a, b)) continue;
                    free.set(a, b, false);
                    if (free.ways_from(root, left) == left) {
                        parents[static_cast<size_t>(b)] = a;
                        reached.push_back(b);
                        return true;
                    }
                    free.set(a, b, true);
                }
            return false;
        };
        while (static_cast<int>(reached.size()) < p)
            if (!grow()) return trees;
        trees.push_back(std::move(parents));
    }
    return trees;
}

// Shortest ways from `root`, of which each takes the one whose busiest cable has carried least.
Parents shortest_ways(const CableGraph& graph, int root, Loads& loads) {
    int p = graph.size();
    std::vector<int> distance = graph.distances(root), order(static_cast<size_t>(p));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return distance[static_cast<size_t>(a)] < distance[static_cast<size_t>(b)];
    });
    Parents parents(static_cast<size_t>(p), -1);
    auto busiest_of_way = [&](int at) {
        int64_t most = 0;
        for (int up; (up = parents[static_cast<size_t>(at)]) >= 0; at = up)
            most = std::max(most, graph.time(up, at, loads[graph.index(up, at)] + 1));
        return most;
    };
    for (int to : order) {
        if (to == root) continue;
        std::tuple<int64_t, int> best{INT64_MAX, 0};
        for (int from = 0; from < p; ++from)
            if (graph.joined(from, to) &&
                distance[static_cast<size_t>(from)] + 1 == distance[static_cast<size_t>(to)])
                best = std::min(best,
                                {std::max(busiest_of_way(from),
                                          graph.time(from, to, loads[graph.index(from, to)] + 1)),
                                 from});
        parents[static_cast<size_t>(to)] = std::get<1>(best);
        for (int at = to; at != root; at = parents[static_cast<size_t>(at)])
            ++loads[graph.index(parents[static_cast<size_t>(at)], at)];
    }
    return parents;
}

// `round` appends trees, one of each root, and adds to loads. Of all numbers of rounds the one that
// loads the busiest cable least for its data; equal trees are one with a greater share.
template <class Round>
Forest packed(const CableGraph& graph, Collective collective, Round&& round) {
    Loads loads(static_cast<size_t>(graph.size() * graph.size()));
    std::vector<Parents> made;
    size_t kept = 0;
    int64_t least = 0, rounds = 0;
    for (int64_t i = 1; i <= kRounds; ++i) {
        round(made, loads);
        int64_t most = busiest(graph, loads);
        // Clearly better: each tree more makes pieces shorter.
        if (rounds && 100 * most * rounds >= 99 * least * i) continue;
        least = most, rounds = i, kept = made.size();
    }
    made.resize(kept);
    Forest forest;
    forest.collective = collective;
    for (const Parents& parents : made) {
        auto same = std::find_if(forest.trees.begin(), forest.trees.end(),
                                 [&](const Tree& tree) { return tree.parents == parents; });
        if (same != forest.trees.end()) ++same->share;
        else forest.trees.push_back({1, parents});
    }
    return forest;
}

// Where cables are alike disjoint trees carry equal shares; else the greatest to the quickest.
Forest of_one_root(const CableGraph& graph, int root) {
    if (!graph.alike())
        return packed(graph, Collective::bcast, [&](std::vector<Parents>& trees, Loads& loads) {
            trees.push_back(grown_tree(graph, root, loads));
        });
    Forest forest;
    forest.collective = Collective::bcast;
    for (Parents& parents : disjoint_trees(graph, root))
        forest.trees.push_back({1, std::move(parents)});
    return forest;
}

}  // namespace

Forests forests_by_cable(const Machine& machine, std::span<const int> nodes) {
    auto ranks = static_cast<int>(nodes.size());
    std::vector<int> there(nodes.begin(), nodes.end());
    std::sort(there.begin(), there.end());
    bool alone = std::adjacent_find(there.begin(), there.end()) == there.end();
    if (!alone || ranks < 3 || ranks > kCabledRanksMost || !machine.cables.any()) return nullptr;
    CableGraph graph(machine, nodes);
    if (!graph.connected()) return nullptr;
    auto of_all_roots = [&](auto tree) {
        return [&graph, tree, ranks](std::vector<Parents>& made, Loads& loads) {
            for (int root = 0; root < ranks; ++root) made.push_back(tree(graph, root, loads));
        };
    };
    std::vector<Forest> made{packed(graph, Collective::alltoall, of_all_roots(shortest_ways))};
    // What goes down a root's trees in a bcast comes up in a reduce.
    for (int root = 0; root < ranks; ++root) {
        Forest down = of_one_root(graph, root);
        made.push_back(down);
        down.collective = Collective::reduce;
        made.push_back(std::move(down));
    }
    if (!machine.apart) {
        made.push_back(
            packed(graph, Collective::allreduce, [&](std::vector<Parents>& trees, Loads& loads) {
                trees.push_back(least_loaded_tree(graph, loads));
            }));
        for (Collective each : {Collective::allgather, Collective::reduce_scatter})
            made.push_back(packed(graph, each, of_all_roots(grown_tree)));
    }
    return std::make_shared<const std::vector<Forest>>(std::move(made));
}

}  // namespace pomona::coll
