// coll/synthesize.cc: see synthesize.h.
#include "coll/synthesize.h"

#include "btl/base/format.h"
#include "btl/base/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace pomona::coll {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Models like many short messages better than processors do: over shaped namespaces pieces of 4 KiB
// by 8 trees took three times as long as the row that they were to beat.
constexpr size_t kSegmentLeast = 32 << 10;
constexpr int kTreesMost = 3;  // of one root

// What a byte from one rank to another keeps busy, in ns; and processors, by what they add up.
class Resources {
public:
    explicit Resources(const PricedNetwork& network)
        : map_(network.links), p_(static_cast<int>(map_.hosts.size())), hosts_(map_.host_count()) {
        for (const LinkMap::Between& each : map_.between)
            cables_ = std::max(cables_, each.cable + 1);
        reduce_ns_ = network.machine.reduce_ns;
    }
    // Ports out and in, processors, lines out and in, cables in two directions, ways between hosts.
    int count() const { return ways() + hosts_ * hosts_; }
    int ranks() const { return p_; }
    double reduce_ns() const { return reduce_ns_; }
    int processor(int rank) const { return 2 * p_ + rank; }
    double start_ns(int from, int to) const {
        const LinkCost& cost = map_.link(from, to);
        return 2 * cost.overhead_ns + cost.latency_ns;
    }
    double byte_ns(int from, int to) const { return map_.link(from, to).byte_ns; }

    template <class F> void each_of(int from, int to, F f) const {
        const LinkCost& cost = map_.link(from, to);
        bool apart = map_.far_apart(from, to);
        double port = apart && map_.port_byte_ns > 0 ? std::min(map_.port_byte_ns, cost.byte_ns)
                                                     : cost.byte_ns;
        f(from, port), f(p_ + to, port);
        if (!apart) return;
        int a = map_.host_of(from), b = map_.host_of(to), cable = map_.cable(from, to);
        if (cable >= 0) return f(3 * p_ + 2 * hosts_ + 2 * cable + (a > b), cost.byte_ns);
        f(3 * p_ + a, line(a, cost)), f(3 * p_ + hosts_ + b, line(b, cost));
        // One that is slower than the lines at its ends.
        if (cost.byte_ns > line(a, cost)) f(ways() + a * hosts_ + b, cost.byte_ns);
    }

    std::string name(int resource, std::span<const std::string> hosts) const {
        auto host = [&](int number) {
            auto at = static_cast<size_t>(number);
            return at < hosts.size() ? hosts[at] : format("host {}", number);
        };
        auto of_rank = [&](int rank) {
            return format("rank {} ({})", rank, host(map_.host_of(rank)));
        };
        if (resource < p_) return format("what {} sends", of_rank(resource));
        if (resource < 2 * p_) return format("what {} takes in", of_rank(resource - p_));
        if (resource < 3 * p_) return format("what {} adds up", of_rank(resource - 2 * p_));
        resource -= 3 * p_;
        if (resource < hosts_) return format("the line out of {}", host(resource));
        if (resource < 2 * hosts_) return format("the line into {}", host(resource - hosts_));
        resource -= 2 * hosts_;
        if (int way = resource - 2 * cables_; way >= 0)
            return format("the way from {} to {}", host(way / hosts_), host(way % hosts_));
        for (int a = 0; a < hosts_; ++a)
            for (int b = a + 1; b < hosts_; ++b)
                if (map_.host_cable(a, b) == resource / 2)
                    return resource % 2 ? format("the cable from {} to {}", host(b), host(a))
                                        : format("the cable from {} to {}", host(a), host(b));
        return "a cable";
    }

private:
    int ways() const { return 3 * p_ + 2 * hosts_ + 2 * cables_; }
    double line(int host, const LinkCost& cost) const {
        if (map_.line_byte_ns.empty()) return cost.byte_ns;
        double own = map_.line_byte_ns[static_cast<size_t>(host)];
        return own > 0 ? own : cost.byte_ns;
    }
    const LinkMap& map_;
    int p_, hosts_, cables_ = 0;
    double reduce_ns_ = 0;
};

// Which ways data takes by an edge from a parent to a child.
struct Flow {
    bool down = true, up = false;
};
Flow flow_of(Collective collective) {
    return {collective != Collective::reduce_scatter,
            collective == Collective::allreduce || collective == Collective::reduce_scatter};
}

using Matrix = std::vector<std::vector<double>>;

// The cheapest spanning arborescence from `root`: parents. Chu, Liu 1965; Edmonds 1967: each takes
// its cheapest edge in, and rings of these become one node until there is none.
std::vector<int> arborescence(const Matrix& cost, int root) {
    auto n = static_cast<int>(cost.size());
    std::vector<int> in(static_cast<size_t>(n), -1);
    for (int v = 0; v < n; ++v)
        for (int u = 0; u < n && v != root; ++u)
            if (u != v && cost[static_cast<size_t>(u)][static_cast<size_t>(v)] < kNever &&
                (in[static_cast<size_t>(v)] < 0 ||
                 cost[static_cast<size_t>(u)][static_cast<size_t>(v)] <
                     cost[static_cast<size_t>(in[static_cast<size_t>(v)])][static_cast<size_t>(v)]))
                in[static_cast<size_t>(v)] = u;
    // A ring?
    std::vector<int> seen(static_cast<size_t>(n), -1), ring;
    for (int v = 0; v < n && ring.empty(); ++v) {
        int at = v;
        while (at >= 0 && seen[static_cast<size_t>(at)] < 0)
            seen[static_cast<size_t>(at)] = v, at = in[static_cast<size_t>(at)];
        if (at < 0 || seen[static_cast<size_t>(at)] != v) continue;
        for (int each = at;;) {
            ring.push_back(each);
            each = in[static_cast<size_t>(each)];
            if (each == at) break;
        }
    }
    if (ring.empty()) return in;
    // The ring becomes node `whole`; an edge into it costs what it saves inside.
    std::vector<int> number(static_cast<size_t>(n), -1), back;
    for (int v = 0; v < n; ++v)
        if (std::find(ring.begin(), ring.end(), v) == ring.end())
            number[static_cast<size_t>(v)] = static_cast<int>(back.size()), back.push_back(v);
    auto whole = back.size();
    Matrix smaller(whole + 1, std::vector<double>(whole + 1, kNever));
    std::vector<int> from(whole + 1, -1), to(whole + 1, -1);  // by the node outside
    for (int u = 0; u < n; ++u)
        for (int v = 0; v < n; ++v) {
            double each = cost[static_cast<size_t>(u)][static_cast<size_t>(v)];
            int a = number[static_cast<size_t>(u)], b = number[static_cast<size_t>(v)];
            if (u == v || (a < 0 && b < 0)) continue;
            if (a >= 0 && b >= 0) {
                smaller[static_cast<size_t>(a)][static_cast<size_t>(b)] = each;
            } else if (b < 0) {
                each -=
                    cost[static_cast<size_t>(in[static_cast<size_t>(v)])][static_cast<size_t>(v)];
                if (each < smaller[static_cast<size_t>(a)][whole])
                    smaller[static_cast<size_t>(a)][whole] = each, to[static_cast<size_t>(a)] = v;
            } else if (each < smaller[whole][static_cast<size_t>(b)]) {
                smaller[whole][static_cast<size_t>(b)] = each, from[static_cast<size_t>(b)] = u;
            }
        }
    std::vector<int> made = arborescence(smaller, number[static_cast<size_t>(root)]);
    for (size_t v = 0; v < whole; ++v) {
        int parent = made[v];
        if (parent < 0) continue;
        in[static_cast<size_t>(back[v])] =
            static_cast<size_t>(parent) == whole ? from[v] : back[static_cast<size_t>(parent)];
    }
    int entered = made[whole];
    int first = to[static_cast<size_t>(entered)];
    in[static_cast<size_t>(first)] = back[static_cast<size_t>(entered)];
    in[static_cast<size_t>(root)] = -1;
    return in;
}

// The same tree with another root.
std::vector<int> rooted_at(std::vector<int> parents, int root) {
    for (int at = root, before = -1; at >= 0;) {
        int next = parents[static_cast<size_t>(at)];
        parents[static_cast<size_t>(at)] = before;
        before = at, at = next;
    }
    return parents;
}

// The rank from which the farthest is as near as can be, in links.
int centre_of(const std::vector<int>& parents) {
    int best = 0, least = std::numeric_limits<int>::max();
    for (int root = 0; root < static_cast<int>(parents.size()); ++root) {
        Tree tree{1, rooted_at(parents, root)};
        if (tree.height() < least) least = tree.height(), best = root;
    }
    return best;
}

class Search {
public:
    Search(const Wanted& wanted, const PricedNetwork& network)
        : wanted_(wanted), network_(network), resources_(network), p_(resources_.ranks()),
          flow_(flow_of(wanted.collective)), random_(wanted.seed),
          shape_(shape_of(wanted, network, wanted.bytes)) {}

    Synthesis run() {
        std::vector<Forest> starts;
        for (int most : {1, 2, kTreesMost}) starts.push_back(packed(static_cast<size_t>(most)));
        starts.push_back(grown());
        Synthesis best;
        best.ns = kNever;
        for (Forest& each : starts) {
            Synthesis made = with_best_segment(std::move(each));
            if (made.ns < best.ns) best = std::move(made);
        }
        improve(best);
        best.tried = tried_;
        best.forest = simplified(best.forest);
        return best;
    }

private:
    std::vector<int> roots() const {
        if (wanted_.collective == Collective::bcast) return {wanted_.root};
        if (wanted_.collective == Collective::allreduce) return {-1};
        std::vector<int> all(static_cast<size_t>(p_));
        std::iota(all.begin(), all.end(), 0);
        return all;
    }

    // `f` of each resource that a byte keeps busy on the edge from a parent to a child.
    template <class F> void each_of_edge(int parent, int child, F f) const {
        if (flow_.down) resources_.each_of(parent, child, f);
        if (flow_.up) {
            resources_.each_of(child, parent, f);
            f(resources_.processor(parent), resources_.reduce_ns());
        }
    }

    // Each root's data in small shares, by the cheapest tree each; of each root the `most` trees
    // that carry the most are kept.
    Forest packed(size_t most) {
        constexpr int kShares = 48;
        constexpr double kSteep = 10;
        std::vector<double> load(static_cast<size_t>(resources_.count()));
        std::map<std::pair<int, std::vector<int>>, int> carried;
        for (int round = 0; round < kShares; ++round)
            for (int root : roots()) {
                double top = std::max(1e-9, *std::max_element(load.begin(), load.end()));
                Matrix cost(static_cast<size_t>(p_), std::vector<double>(static_cast<size_t>(p_)));
                for (int u = 0; u < p_; ++u)
                    for (int v = 0; v < p_; ++v) {
                        if (u == v) continue;
                        double sum = 0;
                        each_of_edge(u, v, [&](int resource, double ns) {
                            sum +=
                                ns * std::exp(kSteep * load[static_cast<size_t>(resource)] / top);
                        });
                        // Nearly alike ones are told apart, the same way each time.
                        cost[static_cast<size_t>(u)][static_cast<size_t>(v)] =
                            sum * (1 + 1e-3 * random_.unit());
                    }
                std::vector<int> tree = arborescence(cost, root < 0 ? 0 : root);
                if (root < 0) tree = rooted_at(tree, centre_of(tree));
                for (int v = 0; v < p_; ++v)
                    if (int u = tree[static_cast<size_t>(v)]; u >= 0)
                        each_of_edge(u, v, [&](int resource, double ns) {
                            load[static_cast<size_t>(resource)] += ns;
                        });
                ++carried[{root, std::move(tree)}];
            }
        Forest forest = empty();
        for (int root : roots()) {
            std::vector<Tree> trees;
            for (const auto& [key, share] : carried)
                if (key.first == root) trees.push_back({share, key.second});
            std::stable_sort(trees.begin(), trees.end(),
                             [](const Tree& x, const Tree& y) { return x.share > y.share; });
            trees.resize(std::min(trees.size(), most));
            forest.trees.insert(forest.trees.end(), trees.begin(), trees.end());
        }
        return forest;
    }

    // One tree a root, each of whose edges is the one that is over first.
    Forest grown() {
        Forest forest = empty();
        auto bytes = static_cast<double>(wanted_.bytes);
        for (int root : roots()) {
            std::vector<int> best;
            double least = kNever;
            for (int start = root < 0 ? 0 : root; start < (root < 0 ? p_ : root + 1); ++start) {
                std::vector<int> parents(static_cast<size_t>(p_), -2);
                std::vector<double> free(static_cast<size_t>(p_));
                parents[static_cast<size_t>(start)] = -1;
                double last = 0;
                for (int joined = 1; joined < p_; ++joined) {
                    int from = -1, to = -1;
                    double first = kNever;
                    for (int u = 0; u < p_; ++u)
                        for (int v = 0; v < p_; ++v) {
                            if (parents[static_cast<size_t>(u)] == -2 ||
                                parents[static_cast<size_t>(v)] != -2)
                                continue;
                            double over = free[static_cast<size_t>(u)] + resources_.start_ns(u, v) +
                                          bytes * resources_.byte_ns(u, v);
                            if (over < first) first = over, from = u, to = v;
                        }
                    parents[static_cast<size_t>(to)] = from;
                    free[static_cast<size_t>(to)] = last = first;
                    free[static_cast<size_t>(from)] +=
                        bytes * resources_.byte_ns(from, to) + resources_.start_ns(from, to) / 4;
                }
                if (last < least) least = last, best = parents;
            }
            forest.trees.push_back({1, best});
        }
        return forest;
    }

    Forest empty() const {
        Forest forest;
        forest.collective = wanted_.collective;
        return forest;
    }

    double price(const Forest& forest) {
        ++tried_;
        return price_of(forest, shape_, network_).value_or(kNever);
    }

    Synthesis with_best_segment(Forest forest) {
        Synthesis best{forest, price(forest), 0};
        int worse = 0;
        for (size_t segment = rounded(wanted_.bytes / 2); segment >= kSegmentLeast && worse < 2;
             segment /= 2) {
            forest.segment = segment;
            double ns = price(forest);
            worse = ns < best.ns ? 0 : worse + 1;
            if (ns < best.ns) best.forest = forest, best.ns = ns;
        }
        return best;
    }
    static size_t rounded(size_t bytes) {
        size_t out = 1;
        while (out * 2 <= bytes) out *= 2;
        return out;
    }

    void improve(Synthesis& best) {
        while (tried_ < wanted_.tries) {
            Forest other = best.forest;
            if (!change(other)) {
                ++tried_;  // so that it ends
                continue;
            }
            double ns = price(other);
            if (ns < best.ns * (1 - 1e-9)) best.forest = std::move(other), best.ns = ns;
        }
    }

    bool change(Forest& forest) {
        size_t at = random_.below(forest.trees.size());
        Tree& tree = forest.trees[at];
        auto own = std::count_if(forest.trees.begin(), forest.trees.end(), [&](const Tree& each) {
            return wanted_.collective == Collective::allreduce || each.root() == tree.root();
        });
        switch (random_.below(8)) {
        case 0: {  // another share
            if (own < 2) return false;
            tree.share = std::max(1, tree.share + (random_.chance(0.5) ? 1 : -1) *
                                                      std::max(1, tree.share / 8));
            return true;
        }
        case 1: {  // other pieces
            bool longer = random_.chance(0.5);
            if (forest.segment == 0) forest.segment = rounded(wanted_.bytes / 2);
            else forest.segment = longer ? forest.segment * 2 : forest.segment / 2;
            if (forest.segment >= wanted_.bytes) forest.segment = 0;
            return forest.segment == 0 || forest.segment >= kSegmentLeast;
        }
        case 2: {  // one tree less
            if (own < 2) return false;
            forest.trees.erase(forest.trees.begin() + static_cast<ptrdiff_t>(at));
            return true;
        }
        case 3: {  // one tree more: half of the share goes another way
            if (own >= kTreesMost) return false;
            Tree second = tree;
            if (tree.share < 2)
                for (Tree& each : forest.trees) each.share *= 2;
            second.share = tree.share - tree.share / 2, tree.share /= 2;
            if (tree.share < 1) tree.share = 1;
            if (!move(second)) return false;
            forest.trees.insert(forest.trees.begin() + static_cast<ptrdiff_t>(at) + 1, second);
            return true;
        }
        case 4:
            if (wanted_.collective == Collective::allreduce) {
                tree.parents = rooted_at(
                    tree.parents, static_cast<int>(random_.below(static_cast<uint64_t>(p_))));
                return true;
            }
            return move(tree);
        default: return move(tree);
        }
    }

    // A rank gets another parent, sometimes two.
    bool move(Tree& tree) {
        for (int times = random_.chance(0.3) ? 2 : 1; times > 0; --times) {
            auto rank = static_cast<int>(random_.below(static_cast<uint64_t>(p_)));
            auto parent = static_cast<int>(random_.below(static_cast<uint64_t>(p_)));
            if (tree.parents[static_cast<size_t>(rank)] < 0 || parent == rank) return false;
            for (int each = parent; each >= 0; each = tree.parents[static_cast<size_t>(each)])
                if (each == rank) return false;
            tree.parents[static_cast<size_t>(rank)] = parent;
        }
        return true;
    }

    // Shares without what they have in common.
    static Forest simplified(Forest forest) {
        int common = 0;
        for (const Tree& tree : forest.trees) common = std::gcd(common, tree.share);
        for (Tree& tree : forest.trees) tree.share /= std::max(1, common);
        return forest;
    }

    const Wanted& wanted_;
    const PricedNetwork& network_;
    Resources resources_;
    int p_;
    Flow flow_;
    Random random_;
    Shape shape_;
    int tried_ = 0;
};

}  // namespace

Shape shape_of(const Wanted& wanted, const PricedNetwork& network, size_t bytes) {
    Shape shape;
    shape.collective = wanted.collective;
    shape.size = static_cast<int>(network.links.hosts.size());
    shape.root = wanted.root;
    shape.element = 4;
    shape.count = (bytes + 3) / 4;
    shape.nodes = network.links.hosts;
    shape.board = true;
    return shape;
}

std::optional<double> price_of(const Forest& forest, const Shape& shape,
                               const PricedNetwork& network) {
    const Algorithm* row = find_algorithm(forest.collective, "forest");
    check(row != nullptr);
    Options options;
    options.forest = &forest;
    std::string problem;
    auto found = price(*row, shape, options, network, problem);
    return found.ok() ? std::optional(found->ns) : std::nullopt;
}

Plan best_row(const Shape& shape, const PricedNetwork& network) {
    Machine machine = network.machine;
    machine.forests = nullptr;
    return rank_by_price(shape, machine, network).front();
}

Synthesis synthesize(const Wanted& wanted, const PricedNetwork& network) {
    return Search(wanted, network).run();
}

Busiest busiest_of(const Plan& plan, const Shape& shape, const PricedNetwork& network,
                   std::span<const std::string> hosts) {
    Resources resources(network);
    std::vector<double> load(static_cast<size_t>(resources.count()));
    std::vector<size_t> bytes(load.size());
    Shape own = shape;
    for (own.rank = 0; own.rank < own.size; ++own.rank) {
        Schedule schedule = build_schedule(*plan.algorithm, own, plan.options);
        for (const Step& step : schedule.steps()) {
            auto busy = [&](int resource, double ns) {
                load[static_cast<size_t>(resource)] += ns * static_cast<double>(step.length);
                bytes[static_cast<size_t>(resource)] += step.length;
            };
            if (step.kind == StepKind::send) resources.each_of(own.rank, step.peer, busy);
            if (step.kind == StepKind::reduce)
                busy(resources.processor(own.rank), resources.reduce_ns());
        }
    }
    // A line that is as busy as a port says more.
    size_t most = 0;
    for (size_t i = 0; i < load.size(); ++i)
        if (load[i] >= load[most] * (1 - 1e-9)) most = i;
    return {resources.name(static_cast<int>(most), hosts), load[most], bytes[most]};
}

}  // namespace pomona::coll
