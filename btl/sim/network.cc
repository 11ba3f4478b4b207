// btl/sim/network.cc: ports, delays and faults.
#include "btl/sim/network.h"

#include <algorithm>
#include <utility>

namespace pomona::sim {

Network::Network(World& world, int ranks, std::vector<int> nodes, LinkCost near, LinkCost far,
                 Faults faults)
    : world_(world), nodes_(std::move(nodes)), near_(near), far_(far), faults_(faults),
      out_free_(ranks, 0), in_free_(ranks, 0), processor_free_(ranks, 0) {
    int machines = nodes_.empty() ? 1 : *std::max_element(nodes_.begin(), nodes_.end()) + 1;
    line_out_free_.assign(machines, 0), line_in_free_.assign(machines, 0);
}

Network::Departure Network::depart(int from, int to, size_t bytes) {
    const LinkCost& cost = link(from, to);
    double slow = slowness(from);
    Time start = std::max(world_.now(), out_free_[from]);
    Time leaves = start + slow * cost.overhead_ns;
    if (far(from, to)) leaves = std::max(leaves, line_out_free_[nodes_[from]]);
    Time sent = leaves + slow * cost.byte_ns * static_cast<double>(bytes);
    out_free_[from] = sent;
    if (far(from, to)) line_out_free_[nodes_[from]] = sent;
    Time head = sent - cost.byte_ns * static_cast<double>(bytes) + cost.latency_ns;
    if (faults_.jitter_ns > 0) head += faults_.jitter_ns * world_.random().unit();
    if (faults_.reorder_chance > 0 && world_.random().chance(faults_.reorder_chance))
        head += 20 * cost.latency_ns * world_.random().unit();
    if (from == faults_.clogged_from && to == faults_.clogged_to)
        head = std::max(head, faults_.clogged_until);
    if ((from < faults_.partition_below) != (to < faults_.partition_below))
        head = std::max(head, faults_.partition_until);
    return {sent, head};
}

Time Network::arrive(int from, int to, size_t bytes) {
    const LinkCost& cost = link(from, to);
    Time start = std::max(world_.now(), in_free_[to]);
    if (far(from, to)) start = std::max(start, line_in_free_[nodes_[to]]);
    double work = slowness(to) * cost.byte_ns * static_cast<double>(bytes);
    if (far(from, to)) line_in_free_[nodes_[to]] = start + work;
    return in_free_[to] = start + work + slowness(to) * cost.overhead_ns;
}

Time Network::compute(int rank, double work_ns) {
    Time start = std::max(world_.now(), processor_free_[rank]);
    return processor_free_[rank] = start + slowness(rank) * work_ns;
}

}  // namespace pomona::sim
