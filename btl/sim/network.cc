// btl/sim/network.cc: delays and faults.
#include "btl/sim/network.h"

#include <algorithm>

namespace pomona::sim {

Network::Departure Network::depart(int from, int to, size_t bytes) {
    double latency = ports_.map().link(from, to).latency_ns;
    auto [sent, head] = ports_.depart(world_.now(), from, to, bytes, slowness(from));
    if (faults_.jitter_ns > 0) head += faults_.jitter_ns * world_.random().unit();
    if (faults_.reorder_chance > 0 && world_.random().chance(faults_.reorder_chance))
        head += 20 * latency * world_.random().unit();
    if (from == faults_.clogged_from && to == faults_.clogged_to)
        head = std::max(head, faults_.clogged_until);
    if ((from < faults_.partition_below) != (to < faults_.partition_below))
        head = std::max(head, faults_.partition_until);
    return {sent, head};
}

Time Network::arrive(int from, int to, size_t bytes) {
    return ports_.arrive(world_.now(), from, to, bytes, slowness(to));
}

Time Network::compute(int rank, double work_ns) {
    return ports_.compute(world_.now(), rank, work_ns, slowness(rank));
}

}  // namespace pomona::sim
