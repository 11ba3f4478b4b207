// coll/price.h: what a schedule costs among ranks that unlike links join: the one price.
// Idea: all ranks' schedules run in virtual time, without data and without a Carrier; ports, lines
// and processors are those of btl/base/ports.h. The catalog's formulas are shortcuts of this price,
// which tests hold to it (tests/sim/coll_cost.cc); the simulator with faults uses the same costs of
// steps. Ranks whose schedules differ in nothing but peers, lengths and offsets share one copy of
// the steps. Where ranks also have like neighbours on like links, one of each kind stands for all
// (colour refinement), so a ring of 4,096 is priced as one rank that sends to itself.
// Source: for the ports, LogGP; Cardon, Crochemore, "Partitioning a graph in O(|A| log2 |V|)", TCS
// 1982.
#pragma once

#include "btl/base/ports.h"
#include "btl/base/result.h"
#include "coll/catalog.h"

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pomona::coll {

// What keeps a rank's processor busy where no message does. Nanoseconds.
double post_work_ns(const Machine& machine, size_t bytes);
double look_work_ns(const Machine& machine, size_t bytes);
double see_work_ns(const Machine& machine, int index);  // to show takes twice that
double local_work_ns(const Machine& machine, const Step& step, int rank);  // copies and reductions

// Where a schedule runs. `links.hosts` says where the ranks are; of `machine` only the costs of
// copies, reductions and the board count here, and links_of() makes its links a map.
struct PricedNetwork {
    Machine machine;
    LinkMap links;
    std::vector<double> slowness;  // by rank: its work and its ports take so many times as long
};
LinkMap links_of(const Machine& machine, std::vector<int> hosts);

struct Price {
    double ns = 0;  // until the last rank is done
    uint64_t messages = 0, bytes = 0;
    int simulated = 0;            // ranks of different kinds; one of each was run
    std::vector<double> done_ns;  // by rank
};

// How long a price may be, where more is of no interest.
inline constexpr double kAnyPrice = std::numeric_limits<double>::infinity();

// All ranks' schedules, each kind of steps once.
class ScheduleSet {
public:
    explicit ScheduleSet(int ranks);
    ~ScheduleSet();
    ScheduleSet(ScheduleSet&&) noexcept;

    // The schedules of a row for all ranks. `shape.rank` is ignored; spans of `shape` must be the
    // same at all ranks.
    static ScheduleSet of(const Algorithm& row, Shape shape, const Options& options);
    // Rank by rank, in order.
    void add(const Schedule& schedule);
    int ranks() const;
    int kinds() const;  // of steps

    // An error names the ranks of a message without a partner, of unlike lengths, or of a deadlock.
    // `collapse`: one rank of each kind stands for all where that is possible. What takes longer
    // than `most_ns` is an error too, as soon as that is seen.
    Result<Price> price(const PricedNetwork& network, std::string& problem, bool collapse = true,
                        double most_ns = kAnyPrice) const;

private:
    friend class Pricing;
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

// In one call. The row must be legal for the shape; `shape.nodes` becomes the hosts of the links.
Result<Price> price(const Algorithm& row, const Shape& shape, const Options& options,
                    const PricedNetwork& network, std::string& problem, double most_ns = kAnyPrice);

}  // namespace pomona::coll
