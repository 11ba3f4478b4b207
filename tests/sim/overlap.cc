// tests/sim/overlap.cc: do reducing and receiving overlap, where machines are far apart?
// Goal: while a rank adds up one segment the next one arrives, in rings and in direct exchanges on
// a mesh of cables; so a reduction takes as long as the greater of the two, and not their sum.
// Method: schedules in virtual time (coll/price.h is held to the same by coll_price), on links by
// which a block takes as long as its sum; with one segment, where nothing can overlap, and several.
#include "coll/price.h"
#include "tests/sim/collective_time.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

using coll::Collective;

constexpr int kRanks = 4;
constexpr size_t kBlock = 4 << 20;
constexpr double kByteNs = 0.32;  // 25 Gb/s

// `sums`: how many blocks each rank adds up while one arrives.
coll::Machine machine_of(bool mesh, int sums) {
    coll::Links links;
    links.net = {10'000, 1000, kByteNs};
    coll::Machine machine = coll::Machine::of(links, true, true);
    if (mesh) machine.join_all(kRanks);
    machine.copy_ns = 0.01;
    machine.reduce_ns = kByteNs / sums;
    machine.reduce_far = 1;
    return machine;
}

double time_of(Collective collective, const char* name, const coll::Machine& machine,
               int segments) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = kRanks;
    shape.element = 8;
    shape.count = kBlock / 8 * (collective == Collective::allreduce ? kRanks : 1);
    std::vector<int> nodes;
    for (int rank = 0; rank < kRanks; ++rank) nodes.push_back(rank);
    shape.nodes = nodes;
    const coll::Algorithm& row = *coll::find_algorithm(collective, name);
    return sim::collective_time(row, shape, {segments, 2}, machine, coll::links_of(machine, nodes));
}

constexpr double kArrives = kBlock * kByteNs;  // one block

// A ring takes three blocks and adds up three, one after the other.
TEST(Overlap, of_a_ring) {
    coll::Machine machine = machine_of(false, 1);
    double apart = time_of(Collective::reduce_scatter, "ring", machine, 1);
    EXPECT_NEAR(apart / (3 * 2 * kArrives), 1, 0.05);
    EXPECT_LT(time_of(Collective::reduce_scatter, "ring", machine, 8), 1.25 * 3 * kArrives);
    // Of an allreduce the second half has nothing to add up.
    EXPECT_LT(time_of(Collective::allreduce, "ring", machine, 8), 1.2 * 6 * kArrives);
}

// By cables of its own all three blocks come in the time of one, in which all are added up.
TEST(Overlap, of_a_direct_exchange_on_a_mesh) {
    coll::Machine machine = machine_of(true, 3);
    double apart = time_of(Collective::reduce_scatter, "direct", machine, 1);
    EXPECT_NEAR(apart / (2 * kArrives), 1, 0.1);
    EXPECT_LT(time_of(Collective::reduce_scatter, "direct", machine, 8), 1.3 * kArrives);
    EXPECT_LT(time_of(Collective::allreduce, "direct", machine, 8), 1.25 * 2 * kArrives);
}

}  // namespace
}  // namespace pomona
