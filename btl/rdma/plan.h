// btl/rdma/plan.h: which pairs of ranks of two machines have queue pairs of a cable between them.
// Idea: a device has ten for all ranks of its machine, and whoever comes first must not take them
// from whoever needs them. Both ends, and all their neighbours, compute the same shares from where
// ranks are: lanes first (the n-th rank here, the n-th there: what hierarchical collectives use),
// then the ends of rings, then neighbours of lanes. Pairs without any use TCP.
#pragma once

namespace pomona::rdma {

// A rank: which one of its machine's, and how many these are.
struct Seat {
    int index = 0, ranks = 1;
};

// 0, 1 or 2. `lower`: on the machine of the lower number.
int queue_pairs_of(const Seat& lower, const Seat& higher);

}  // namespace pomona::rdma
