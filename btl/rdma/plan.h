// btl/rdma/plan.h: which pairs of ranks of two machines have queue pairs of a cable between them.
// Idea: a device has ten for all ranks of its machine, and whoever comes first must not take them
// from whoever needs them. Both ends, and all their neighbours, compute the same shares from where
// ranks are: lanes first (the n-th rank here, the n-th there: what hierarchical collectives use),
// then the ends of rings, then neighbours of lanes. Where they do not suffice for all, the lowest
// ranks of the two machines own a second one, by which pairs without any may go (btl/link/
// carried.h).
#pragma once

#include <cstddef>
#include <vector>

namespace pomona::rdma {

// A rank: which one of its machine's, and how many these are.
struct Seat {
    int index = 0, ranks = 1;
};

// 0, 1 or 2. `lower`: on the machine of the lower number. `owners`: the lowest ranks own one for
// those without any.
int queue_pairs_of(const Seat& lower, const Seat& higher, bool owners = false);

// The same of a job's ranks, as one of them sees it.
class Plan {
public:
    Plan() = default;
    // The machines of the ranks from `first` on; of others nothing is known.
    Plan(int rank, std::vector<int> machine_of, int first, bool owners);

    // 2 where nothing is known of the peer: it gets what is left.
    int queue_pairs(int peer) const;
    // The lowest rank of this one's machine; -1: not known.
    int owner_of(int rank) const;
    // Is it on another machine, without queue pairs between this rank and that one?
    bool by_owner(int peer) const;
    // Have some ranks of this one's machine to go by their owner?
    bool shares() const;

private:
    bool knows(int rank) const;
    int machine(int rank) const { return machine_of_[static_cast<size_t>(rank - first_)]; }
    Seat seat(int rank) const;

    int rank_ = 0, first_ = 0;
    bool owners_ = false;
    std::vector<int> machine_of_, owner_of_;
};

}  // namespace pomona::rdma
