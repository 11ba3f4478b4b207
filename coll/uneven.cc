// coll/uneven.cc: see uneven.h.
#include "coll/uneven.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace pomona::coll {

namespace {

constexpr double kUnlike = 2;       // times the quickest link's time per byte
constexpr int kUnits = 16;          // of the quickest link's
constexpr double kUnitsMost = 1e9;  // a sum of all stays far below 2^63
constexpr int kRoundsEach = 6;      // shares of a machine, in the mean, at most
constexpr int kMuchBetter = 2;      // times quicker a way through a third machine must be

using Parents = std::vector<int>;
using Loads = std::vector<int64_t>;

// The machines, each with its ranks, and how long a byte takes between two of them.
class Speeds {
public:
    Speeds(const Machine& machine, std::span<const int> nodes) {
        std::vector<int> there(nodes.begin(), nodes.end());
        std::sort(there.begin(), there.end());
        there.erase(std::unique(there.begin(), there.end()), there.end());
        members.resize(there.size());
        for (size_t r = 0; r < nodes.size(); ++r) {
            auto at = std::lower_bound(there.begin(), there.end(), nodes[r]) - there.begin();
            members[static_cast<size_t>(at)].push_back(static_cast<int>(r));
        }
        double quickest = 0, slowest = 0;
        auto each = [&](auto&& call) {
            for (size_t a = 0; a < there.size(); ++a)
                for (size_t b = 0; b < there.size(); ++b)
                    if (a != b) call(a, b, machine.pairs.between(there[a], there[b]).byte_ns);
        };
        each([&](size_t, size_t, double ns) {
            if (ns > 0) quickest = quickest > 0 ? std::min(quickest, ns) : ns;
            slowest = std::max(slowest, ns);
        });
        unlike = quickest > 0 && slowest >= kUnlike * quickest;
        units_.resize(there.size() * there.size());
        if (!unlike) return;
        each([&](size_t a, size_t b, double ns) {
            double units = std::min(kUnits * (ns / quickest), kUnitsMost);
            units_[a * there.size() + b] = std::max<int64_t>(1, std::llround(units));
        });
    }
    size_t count() const { return members.size(); }
    int64_t byte(size_t a, size_t b) const { return units_[a * count() + b]; }

    std::vector<std::vector<int>> members;  // ranks, ascending
    bool unlike = false;

private:
    std::vector<int64_t> units_;
};

int64_t busiest(const Loads& loads) { return *std::max_element(loads.begin(), loads.end()); }

// The machines under one owner, each as its parent; adds to loads what a share by them takes on
// either end's port, in each direction.
Parents tree_of(const Speeds& speeds, size_t owner, Loads& loads) {
    size_t count = speeds.count();
    Parents parents(count, -1);
    // Is there a much quicker way through `via`?
    auto better = [&](size_t via, size_t to) {
        int64_t way = std::max(speeds.byte(owner, via), speeds.byte(via, to));
        return kMuchBetter * way <= speeds.byte(owner, to);
    };
    std::vector<size_t> direct, others;
    for (size_t to = 0; to < count; ++to) {
        if (to == owner) continue;
        bool any = false;
        for (size_t via = 0; via < count; ++via)
            any = any || (via != owner && via != to && better(via, to));
        (any ? others : direct).push_back(to);
    }
    auto join = [&](size_t above, size_t below) {
        parents[below] = static_cast<int>(above);
        loads[above] += speeds.byte(above, below), loads[below] += speeds.byte(above, below);
    };
    for (size_t to : direct) join(owner, to);
    // Of those between the one that has least to carry.
    for (size_t to : others) {
        size_t above = owner;
        for (size_t via : direct)
            if (better(via, to) && (above == owner || loads[via] < loads[above])) above = via;
        join(above, to);
    }
    return parents;
}

struct Shared {
    int share;
    Parents parents;  // of machines
};

size_t owner_of(const Shared& tree) {
    auto owner = std::find(tree.parents.begin(), tree.parents.end(), -1);
    return static_cast<size_t>(owner - tree.parents.begin());
}

// Is x / of_x clearly less than y / of_y: by a hundredth?
bool clearly_less(int64_t x, int64_t of_x, int64_t y, int64_t of_y) {
    return 100 * static_cast<double>(x) * static_cast<double>(of_y) <
           99 * static_cast<double>(y) * static_cast<double>(of_x);
}

// Share after share to the owner with whom the busiest port has least to carry, and of such owners
// to the one whose own port has least. Of all numbers of shares the one with which the busiest port
// is done first with all data, and then the busiest owner: each share more makes pieces shorter.
std::vector<Shared> trees_by_speed(const Speeds& speeds) {
    std::vector<Shared> trees, best;
    Loads loads(speeds.count());
    int64_t least = 0, least_of_owners = 0, shares = 0;
    for (int64_t round = 1; round <= kRoundsEach * static_cast<int64_t>(speeds.count()); ++round) {
        Parents parents;
        Loads taken;
        std::pair<int64_t, int64_t> fewest;
        for (size_t owner = 0; owner < speeds.count(); ++owner) {
            Loads with = loads;
            Parents made = tree_of(speeds, owner, with);
            std::pair<int64_t, int64_t> load{busiest(with), with[owner]};
            if (!parents.empty() && load >= fewest) continue;
            fewest = load, parents = std::move(made), taken = std::move(with);
        }
        loads = std::move(taken);
        auto same = std::find_if(trees.begin(), trees.end(),
                                 [&](const Shared& tree) { return tree.parents == parents; });
        if (same != trees.end()) ++same->share;
        else trees.push_back({1, std::move(parents)});
        int64_t of_owners = 0;
        for (const Shared& tree : trees) of_owners = std::max(of_owners, loads[owner_of(tree)]);
        bool better = !shares || clearly_less(fewest.first, round, least, shares) ||
                      (!clearly_less(least, shares, fewest.first, round) &&
                       clearly_less(of_owners, round, least_of_owners, shares));
        if (!better) continue;
        least = fewest.first, least_of_owners = of_owners, shares = round, best = trees;
    }
    return best;
}

// The machines' tree as one of ranks, under `root`. Of each machine one rank stands for the others,
// which are its children: in the next tree the next one.
Tree tree_of_ranks(const Speeds& speeds, const Shared& shared, int share, int root, size_t turn) {
    size_t ranks = 0;
    for (const auto& each : speeds.members) ranks += each.size();
    Tree tree{share, Parents(ranks, -1)};
    auto first_of = [&](size_t machine) {
        const auto& members = speeds.members[machine];
        return shared.parents[machine] < 0 ? root : members[turn % members.size()];
    };
    for (size_t machine = 0; machine < speeds.count(); ++machine) {
        int first = first_of(machine), above = shared.parents[machine];
        for (int rank : speeds.members[machine]) tree.parents[static_cast<size_t>(rank)] = first;
        tree.parents[static_cast<size_t>(first)] =
            above < 0 ? -1 : first_of(static_cast<size_t>(above));
    }
    return tree;
}

}  // namespace

Forests forests_by_speed(const Machine& machine, std::span<const int> nodes) {
    auto ranks = static_cast<int>(nodes.size());
    if (ranks < 3 || ranks > kUnevenRanksMost || !machine.pairs.known()) return nullptr;
    Speeds speeds(machine, nodes);
    auto machines = static_cast<int>(speeds.count());
    if (machines < 3 || machines > kUnevenMachinesMost || !speeds.unlike) return nullptr;
    int64_t whole = 1;  // all ranks of an owner have equal parts of its shares
    for (const auto& each : speeds.members) whole = std::lcm(whole, each.size());
    Forest forest;
    forest.collective = Collective::allreduce;
    size_t turn = 0;
    for (const Shared& shared : trees_by_speed(speeds)) {
        const auto& roots = speeds.members[owner_of(shared)];
        auto share = static_cast<int>(shared.share * whole / static_cast<int64_t>(roots.size()));
        for (int root : roots)
            forest.trees.push_back(tree_of_ranks(speeds, shared, share, root, turn++));
    }
    return std::make_shared<const std::vector<Forest>>(std::vector<Forest>{std::move(forest)});
}

}  // namespace pomona::coll
