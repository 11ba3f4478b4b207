// tests/sim/cable_bounds.h: machines that cables join, and how quick a collective among them can be
// at best.
// Bounds, of a vector of n bytes with blocks of n / p:
//   allreduce       each part of a vector takes 2 (k - 1) messages between k groups of machines, of
//                   whatever groups (Harary, Schwenk, "The communication problem on graphs and
//                   digraphs", J. Franklin Institute 297, 1974), by the cables between groups
//   bcast, reduce   the vector crosses the cables between the root's group and the others; trees
//                   fill them (Edmonds, "Edge-disjoint branchings", 1973)
//   allgather       what machines of a group have leaves it by its cables; a reduce_scatter is the
//                   same turned round
//   alltoall        the same with the blocks for those outside; and each block takes as many cables
//                   as its way is long at least
#pragma once

#include "coll/shape.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pomona {

// Of one rate, in both directions at once; all machines are joined.
struct CabledMachines {
    const char* name;
    int machines;
    std::vector<std::pair<int, int>> pairs;
};

// In cables.
inline int way_between(const CabledMachines& cables, int from, int to) {
    std::vector<int> distance(static_cast<size_t>(cables.machines), cables.machines);
    distance[static_cast<size_t>(from)] = 0;
    for (int round = 0; round < cables.machines; ++round)
        for (auto [a, b] : cables.pairs) {
            int &one = distance[static_cast<size_t>(a)], &other = distance[static_cast<size_t>(b)];
            one = std::min(one, other + 1), other = std::min(other, one + 1);
        }
    return distance[static_cast<size_t>(to)];
}

// From a rank to the one that is farthest from it.
inline int longest_way(const CabledMachines& cables, int from) {
    int longest = 0;
    for (int to = 0; to < cables.machines; ++to)
        longest = std::max(longest, way_between(cables, from, to));
    return longest;
}
inline int longest_way(const CabledMachines& cables) {
    int longest = 0;
    for (int from = 0; from < cables.machines; ++from)
        longest = std::max(longest, longest_way(cables, from));
    return longest;
}

// All groups of machines and the cables that leave them.
inline double most_of_groups(const CabledMachines& cables, coll::Collective collective) {
    int p = cables.machines;
    double most = 0;
    for (int group = 1; group + 1 < 1 << p; ++group) {
        auto leaving = std::count_if(cables.pairs.begin(), cables.pairs.end(), [&](auto& pair) {
            return (group >> pair.first & 1) != (group >> pair.second & 1);
        });
        int inside = 0;
        for (int r = 0; r < p; ++r) inside += group >> r & 1;
        int blocks = inside * (collective == coll::Collective::alltoall ? p - inside : 1);
        most = std::max(most, static_cast<double>(blocks) / static_cast<double>(leaving) / p);
    }
    return most;
}

// Groups with the root and not all others: a vector for all, or of all, crosses their cables.
inline double most_around(const CabledMachines& cables, int root) {
    double most = 0;
    for (int group = 1; group + 1 < 1 << cables.machines; ++group) {
        if (!(group >> root & 1)) continue;
        auto leaving = std::count_if(cables.pairs.begin(), cables.pairs.end(), [&](auto& pair) {
            return (group >> pair.first & 1) != (group >> pair.second & 1);
        });
        most = std::max(most, 1 / static_cast<double>(leaving));
    }
    return most;
}

// All ways to part the machines in groups: group[r] is at most one above those before.
inline double most_of_partitions(const CabledMachines& cables) {
    auto p = static_cast<size_t>(cables.machines);
    double most = 0;
    std::vector<int> group(p);
    auto part = [&](auto&& self, size_t at, int groups) -> void {
        if (at < p) {
            for (group[at] = 0; group[at] <= groups; ++group[at])
                self(self, at + 1, std::max(groups, group[at] + 1));
            return;
        }
        auto between = std::count_if(cables.pairs.begin(), cables.pairs.end(), [&](auto& pair) {
            return group[static_cast<size_t>(pair.first)] !=
                   group[static_cast<size_t>(pair.second)];
        });
        if (groups > 1) most = std::max(most, (groups - 1) / static_cast<double>(between));
    };
    part(part, 0, 0);
    return most;
}

// A bcast or a reduce, whose vector is one rank's.
inline bool is_rooted(coll::Collective collective) {
    return collective == coll::Collective::bcast || collective == coll::Collective::reduce;
}

// How often the whole vector goes over the busiest cable in one direction, at least. `root`: of
// those that have one.
inline double least_laden(const CabledMachines& cables, coll::Collective collective, int root = 0) {
    if (collective == coll::Collective::allreduce) return most_of_partitions(cables);
    if (is_rooted(collective)) return most_around(cables, root);
    double vectors = most_of_groups(cables, collective);
    if (collective != coll::Collective::alltoall) return vectors;
    int p = cables.machines, all = 0;
    for (int a = 0; a < p; ++a)
        for (int b = 0; b < p; ++b) all += way_between(cables, a, b);
    return std::max(vectors, all / 2.0 / static_cast<double>(cables.pairs.size()) / p);
}

}  // namespace pomona
