// tests/sim/cable_bounds.h: machines that cables join, and how quick a collective among them can be
// at best.
// Bounds, of a vector of n bytes with blocks of n / p:
//   allreduce       each part of a vector takes 2 (k - 1) messages between k groups of machines, of
//                   whatever groups (Harary, Schwenk, "The communication problem on graphs and
//                   digraphs", J. Franklin Institute 297, 1974), by the cables between groups
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

inline int longest_way(const CabledMachines& cables) {
    int longest = 0;
    for (int a = 0; a < cables.machines; ++a)
        for (int b = 0; b < cables.machines; ++b)
            longest = std::max(longest, way_between(cables, a, b));
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

// How often the whole vector goes over the busiest cable in one direction, at least.
inline double least_laden(const CabledMachines& cables, coll::Collective collective) {
    if (collective == coll::Collective::allreduce) return most_of_partitions(cables);
    double vectors = most_of_groups(cables, collective);
    if (collective != coll::Collective::alltoall) return vectors;
    int p = cables.machines, all = 0;
    for (int a = 0; a < p; ++a)
        for (int b = 0; b < p; ++b) all += way_between(cables, a, b);
    return std::max(vectors, all / 2.0 / static_cast<double>(cables.pairs.size()) / p);
}

}  // namespace pomona
