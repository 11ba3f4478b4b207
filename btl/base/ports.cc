// btl/base/ports.cc: ports and lines, and when they are free.
#include "btl/base/ports.h"

#include <algorithm>
#include <utility>

namespace pomona {

int LinkMap::host_count() const {
    return hosts.empty() ? 1 : *std::max_element(hosts.begin(), hosts.end()) + 1;
}

const LinkCost& LinkMap::link(int from, int to) const {
    int a = host_of(from), b = host_of(to);
    if (a == b) return within.empty() ? near : within[static_cast<size_t>(a)];
    if (between.empty()) return far;
    return between[static_cast<size_t>(a) * within.size() + static_cast<size_t>(b)].cost;
}

int LinkMap::cable(int from, int to) const {
    int a = host_of(from), b = host_of(to);
    if (a == b || between.empty()) return -1;
    return between[static_cast<size_t>(a) * within.size() + static_cast<size_t>(b)].cable;
}

bool LinkMap::shares_lines() const {
    std::vector<int> sorted = hosts;
    std::sort(sorted.begin(), sorted.end());
    bool several = !sorted.empty() && sorted.front() != sorted.back();
    return several && std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

Ports::Ports(int ranks, LinkMap map)
    : map_(std::move(map)), host_count_(map_.host_count()), out_free_(static_cast<size_t>(ranks)),
      in_free_(out_free_), processor_free_(out_free_) {
    int cables = 0;
    for (const LinkMap::Between& each : map_.between) cables = std::max(cables, each.cable + 1);
    line_out_free_.assign(static_cast<size_t>(host_count_ + 2 * cables), 0);
    line_in_free_ = line_out_free_;
}

void Ports::reset() {
    for (auto* each : {&out_free_, &in_free_, &processor_free_, &line_out_free_, &line_in_free_})
        std::fill(each->begin(), each->end(), 0.0);
}

// What a message from `from` to `to` takes at the end of rank `end`, which is one of them.
size_t Ports::line(int from, int to, int end) const {
    int cable = map_.cable(from, to);
    if (cable < 0) return static_cast<size_t>(map_.host_of(end));
    return static_cast<size_t>(host_count_ + 2 * cable + (map_.host_of(from) > map_.host_of(to)));
}

double Ports::line_byte(int rank, const LinkCost& cost, int from, int to) const {
    if (map_.line_byte_ns.empty() || map_.cable(from, to) >= 0) return cost.byte_ns;
    double own = map_.line_byte_ns[static_cast<size_t>(map_.host_of(rank))];
    return own > 0 ? own : cost.byte_ns;
}

Ports::Departure Ports::depart(double now, int from, int to, size_t bytes, double slow) {
    const LinkCost& cost = map_.link(from, to);
    double start = std::max(now, out_free_[static_cast<size_t>(from)]);
    double leaves = start + slow * cost.overhead_ns, length = static_cast<double>(bytes);
    double sent = leaves + slow * cost.byte_ns * length;
    if (map_.far_apart(from, to)) {
        double& free = line_out_free_[line(from, to, from)];
        leaves = std::max(leaves, free);
        sent = leaves + slow * cost.byte_ns * length;
        free = leaves + slow * line_byte(from, cost, from, to) * length;
    }
    out_free_[static_cast<size_t>(from)] = sent;
    double head = sent - cost.byte_ns * length + cost.latency_ns;
    if (map_.roads.known() && map_.far_apart(from, to))
        for (int host : map_.roads.between(map_.host_of(from), map_.host_of(to)))
            head = pass(host, head, bytes);
    return {sent, head};
}

// A message on its way through a host, whose line it shares: when its first byte is at the next one. It is
// handed on in frames, so it enters and leaves at the same time.
double Ports::pass(int host, double head, size_t bytes) {
    auto at = static_cast<size_t>(host);
    double work = map_.far.byte_ns * static_cast<double>(bytes);
    double enters = std::max(head, line_in_free_[at]);
    line_in_free_[at] = enters + work;
    double leaves = std::max(enters + 2 * map_.far.overhead_ns, line_out_free_[at]);
    line_out_free_[at] = leaves + work;
    return leaves + map_.far.latency_ns;
}

double Ports::arrive(double now, int from, int to, size_t bytes, double slow) {
    const LinkCost& cost = map_.link(from, to);
    double start = std::max(now, in_free_[static_cast<size_t>(to)]);
    double length = static_cast<double>(bytes);
    if (map_.far_apart(from, to)) {
        double& free = line_in_free_[line(from, to, to)];
        start = std::max(start, free);
        free = start + slow * line_byte(to, cost, from, to) * length;
    }
    return in_free_[static_cast<size_t>(to)] =
               start + slow * cost.byte_ns * length + slow * cost.overhead_ns;
}

double Ports::compute(double now, int rank, double work_ns, double slow) {
    double start = std::max(now, processor_free_[static_cast<size_t>(rank)]);
    return processor_free_[static_cast<size_t>(rank)] = start + slow * work_ns;
}

}  // namespace pomona
