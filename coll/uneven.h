// coll/uneven.h: uneven shares by speed, for an allreduce among machines of which some have a much
// slower line than others: a Mac on Wi-Fi among Macs on cables.
// Idea: each rank owns a share of the vector, adds up what the others send of it, and sends them
// the sum: the quicker its line, the more. In a ring every line carries 2 (p-1)/p vectors either
// way, so the slow one sets the pace; a slow machine that owns nothing sends the vector once and
// takes the sum once, both at the same time, which is the least that any schedule asks of it. With
// several ranks on a machine its line carries one vector of theirs: they add up among themselves
// first. A machine whose way to an owner is much slower than one through a third goes through that.
//
//   4 machines, 3 has a tenth of the rate:    0       1       2       a third of the vector each;
//                                            123     023     013      3 is nowhere a root
// Shares are counted out one by one: each to the owner with whom the busiest port is done first,
// until more would not help. All is in whole numbers, so that all ranks come to the same.
// Source: trees for a reduction with shares by the platform's rates: Legrand, Marchal, Robert,
// "Optimizing the steady-state throughput of scatter and reduce operations on heterogeneous
// platforms", JPDC 65(12):1497-1514, 2005; owners by their lines: Jiang et al., "A unified
// architecture for accelerating distributed DNN training in heterogeneous GPU/CPU clusters"
// (BytePS), OSDI 2020.
// Cost: O(h^4) for h machines, once a communicator
// Limits: 3 to 8 machines, 16 ranks at most, a link of twice the time per byte of another
#pragma once

#include "coll/cost.h"

#include <span>

namespace pomona::coll {

// More ranks go by formulas alone; more machines have so many trees that their prices take long.
inline constexpr int kUnevenRanksMost = 16, kUnevenMachinesMost = 8;

// One forest, of an allreduce, for ranks on these machines; null where the limits do not hold.
Forests forests_by_speed(const Machine& machine, std::span<const int> nodes);

}  // namespace pomona::coll
