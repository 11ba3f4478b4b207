// coll/islands.h: trees for machines that stand in islands: some reach each other by much quicker
// links (a cable, a switch of their own) than the machines of other islands.
// Idea: the levels of a communicator are its islands, islands within these, machines and ranks. A
// slow line is to carry nothing twice. So what leaves an island leaves each of its ranks for one
// rank of the other one, which passes it on within: to one rank of each machine there, and these to
// theirs. All members of an island carry a part, so that the lines of all its machines are used.
//
//   islands {0 1} and {2 3}; what rank 0 gives:   0       what rank 1 gives:   1
//                                                1 2                          0 3
//                                                  3                          2
//
// Each rank is the root of one such tree: its block's in an allgather and, turned round, in a
// reduce_scatter; an allreduce adds up an equal share of the vector at each root. A bcast or reduce
// has a tree for each rank of its root's island, through which its share goes from island to
// island, one after the other.
// Source: levels: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance", IPDPS 2000; several ranks at once: Traeff, Hunold, IEEE
// CLUSTER 2020 (coll/algorithms/lanes.cc).
// Cost: O(p^2) for p ranks, once a communicator; of bcast and reduce O(p^3)
// Limits: 3 to 8 machines, 64 ranks at most (16 of a bcast or reduce), two islands of which one has
// two machines, and links between islands that take twice as long for a byte as the slowest within
// any
#pragma once

#include "coll/cost.h"

#include <span>
#include <vector>

namespace pomona::coll {

inline constexpr int kIslandRanksMost = 64, kIslandMachinesMost = 8;
// Of bcast and reduce, which have trees for each root, and formulas that choose well only beside
// prices.
inline constexpr int kRootedIslandRanksMost = 16;

// The partitions of ranks on these machines, islands of islands first, machines last: by rank, the
// number of its part. Empty where the limits do not hold.
std::vector<std::vector<int>> levels_of(const Machine& machine, std::span<const int> nodes);

// Forests of an allreduce, an allgather and a reduce_scatter, and for each root of a bcast and a
// reduce; null where the limits do not hold.
Forests forests_by_island(const Machine& machine, std::span<const int> nodes);

}  // namespace pomona::coll
