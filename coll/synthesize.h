// coll/synthesize.h: a search for trees that a network's links carry best: behind `pomona
// synthesize`.
// Idea: two kinds of forests begin it. For long vectors, trees are packed: one after the other
// carries a small share by the cheapest spanning arborescence, where what is loaded already has
// become dear; so the load on the busiest port, line or cable comes close to the least. For short
// ones, a tree grows to whomever is reached first. Then single parents, roots, shares and pieces
// are changed while the price (coll/price.h) falls. The same seed finds the same forest.
// Source: packing by multiplicative weights: Garg, Koenemann, SIAM J. Comput. 37(2), 2007, for
// collectives Wang et al., "Blink", MLSys 2020; arborescences: Edmonds, J. Res. NBS 71B, 1967;
// growing trees: Bhat, Raghavendra, Prasanna, "Efficient collective communication in distributed
// heterogeneous systems", JPDC 63(3), 2003 (earliest completing edge first).
// Cost: O(shares p^3) for a packing, and a price for each change that is tried.
#pragma once

#include "coll/forest.h"
#include "coll/price.h"
#include "coll/select.h"

#include <optional>
#include <string>

namespace pomona::coll {

inline constexpr int kSynthesizedHostsMost = 8, kSynthesizedRanksMost = 32;

struct Wanted {
    Collective collective = Collective::allreduce;
    size_t bytes = 1 << 20;  // that a rank gives
    int root = 0;            // of a bcast
    uint64_t seed = 1;
    int tries = 1500;  // prices of changes
};

// The shape of a call with so many bytes, on the network's hosts.
Shape shape_of(const Wanted& wanted, const PricedNetwork& network, size_t bytes);

struct Synthesis {
    Forest forest;  // for all sizes
    double ns = 0;
    int tried = 0;  // prices
};
Synthesis synthesize(const Wanted& wanted, const PricedNetwork& network);

// The catalog's best row by price on this network, with its options; `priced.cost_ns` is the price.
Plan best_row(const Shape& shape, const PricedNetwork& network);
// A forest's price; nothing where its schedules do not fit together.
std::optional<double> price_of(const Forest& forest, const Shape& shape,
                               const PricedNetwork& network);

// What is busiest while a plan runs: a port, a line, a cable or a processor.
struct Busiest {
    std::string what;
    double ns = 0;
    size_t bytes = 0;
};
Busiest busiest_of(const Plan& plan, const Shape& shape, const PricedNetwork& network,
                   std::span<const std::string> hosts);

}  // namespace pomona::coll
