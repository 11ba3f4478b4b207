// coll/cables.h: trees by which collectives fill all cables, where machines are joined by cables
// but not each two: chains, rings, stars, a mesh without some of its cables.
// Idea: a vector is shared out among spanning trees of the cables. A tree that adds up to its root
// and sends back down uses each of its cables once in either direction, so the load on the busiest
// cable is the least when trees are packed evenly; then it is what the best schedule has, since
// Tutte's bound and the packing meet. What each rank gives to all (allgather; turned round,
// reduce_scatter), or one rank alone (bcast; reduce), goes by trees with that rank as root; and
// blocks of an alltoall by shortest ways, so that machines hand them on piece by piece. All is
// counted in whole numbers: all ranks make the same trees, whatever their processors.
// Source: Tutte, "On the problem of decomposing a graph into n connected factors", J. London Math.
// Soc. 36, 1961; of one root: Edmonds, "Edge-disjoint branchings", 1973; packing by taking the
// least loaded tree again and again: Thorup, "Fully-dynamic min-cut", Combinatorica 27, 2007; for
// collectives: Wang et al., "Blink", MLSys 2020.
// Cost: O(rounds p^3) once a communicator     Limits: 3 to 8 ranks, each on a machine of its own,
// all of which are joined by cables
#pragma once

#include "coll/cost.h"

#include <span>

namespace pomona::coll {

inline constexpr int kCabledRanksMost = 8;

// For ranks on these machines; null where the limits do not hold. On a whole mesh of cables none of
// allreduce, allgather and reduce_scatter, which exchange directly there. Of bcast and reduce a
// forest for each root.
Forests forests_by_cable(const Machine& machine, std::span<const int> nodes);

}  // namespace pomona::coll
