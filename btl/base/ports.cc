// btl/base/ports.cc: ports and lines, and when they are free.
#include "btl/base/ports.h"

#include "btl/base/asking.h"

#include <algorithm>
#include <utility>

namespace pomona {

int LinkMap::host_count() const {
    return hosts.empty() ? 1 : *std::max_element(hosts.begin(), hosts.end()) + 1;
}

const LinkCost& LinkMap::host_link(int a, int b) const {
    if (a == b) return within.empty() ? near : within[static_cast<size_t>(a)];
    if (between.empty()) return far;
    return between[static_cast<size_t>(a) * within.size() + static_cast<size_t>(b)].cost;
}

int LinkMap::host_cable(int a, int b) const {
    if (a == b || between.empty()) return -1;
    return between[static_cast<size_t>(a) * within.size() + static_cast<size_t>(b)].cable;
}

int LinkMap::first_hop(int from, int to) const {
    const auto& way = roads.between(host_of(from), host_of(to));
    return way.empty() ? host_of(to) : way.front();
}

int LinkMap::last_hop(int from, int to) const {
    const auto& way = roads.between(host_of(from), host_of(to));
    return way.empty() ? host_of(from) : way.back();
}

bool LinkMap::shares_lines() const {
    std::vector<int> sorted = hosts;
    std::sort(sorted.begin(), sorted.end());
    bool several = !sorted.empty() && sorted.front() != sorted.back();
    return several && (together_byte_ns > 0 ||
                       std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end());
}

Ports::Ports(int ranks, LinkMap map)
    : map_(std::move(map)), lines_shared_(map_.shares_lines()),
      host_count_(std::max(map_.host_count(), map_.roads.machines())),
      lines_(map_.roads.lines_most()), out_free_(static_cast<size_t>(ranks)), in_free_(out_free_),
      processor_free_(out_free_) {
    int cables = 0;
    for (const LinkMap::Between& each : map_.between) cables = std::max(cables, each.cable + 1);
    line_out_free_.assign(static_cast<size_t>(host_count_ * lines_ + 2 * cables), 0);
    line_in_free_ = line_out_free_;
}

void Ports::reset() {
    for (auto* each : {&out_free_, &in_free_, &processor_free_, &line_out_free_, &line_in_free_})
        std::fill(each->begin(), each->end(), 0.0);
    together_free_ = 0;
    way_free_.clear();
    under_way_.clear();
    waiting_.clear();
}

// What a message takes at `host`, to or from the other one, to which it has a path of its own.
size_t Ports::line(int host, int other, bool out) const {
    int cable = map_.host_cable(host, other);
    if (cable < 0) return static_cast<size_t>(host * lines_ + map_.roads.line(host, other));
    bool falling = out == (host > other);
    return static_cast<size_t>(host_count_ * lines_ + 2 * cable + falling);
}

double Ports::line_byte(int host, int other) const {
    double link = map_.host_link(host, other).byte_ns;
    if (map_.line_byte_ns.empty() || map_.host_cable(host, other) >= 0) return link;
    double own = map_.line_byte_ns[static_cast<size_t>(host)];
    return own > 0 ? own : link;
}

double Ports::answer_ns(double now, int from, int to, size_t bytes) {
    const LinkCost& cost = map_.link(from, to);
    if (cost.ask_ns <= 0 || !map_.far_apart(from, to) || bytes < asking::kNever) return 0;
    std::deque<UnderWay>& there = under_way_[{from, to}];
    while (!there.empty() && there.front().until <= now) there.pop_front();
    size_t sum = 0;
    for (const UnderWay& each : there) sum += each.bytes;
    if (auto found = waiting_.find({from, to}); found != waiting_.end()) sum += found->second;
    double rate = cost.byte_ns > 0 ? 1 / cost.byte_ns : asking::kNoLine;
    return bytes <= asking::unasked_most(rate, sum, asking::kLongest) ? 0 : cost.ask_ns;
}

Ports::Departure Ports::depart(double now, int from, int to, size_t bytes, double slow) {
    bool apart = map_.far_apart(from, to);
    int here = map_.host_of(from), first = apart ? map_.first_hop(from, to) : here;
    const LinkCost& cost = map_.host_link(here, first);
    double start = std::max(now, out_free_[static_cast<size_t>(from)]);
    double leaves = start + slow * cost.overhead_ns, length = static_cast<double>(bytes);
    double sent = leaves + slow * cost.byte_ns * length;
    if (apart) {
        double& free = line_out_free_[line(here, first, true)];
        leaves = std::max(leaves, free);
        sent = leaves + slow * cost.byte_ns * length;
        double line_ns = line_byte(here, first);
        free = leaves + slow * line_ns * length;
        // Two hosts whose way is slower than their lines: what else goes by these passes it.
        if (cost.byte_ns > line_ns) {
            double& way = way_free_[{here, first}];
            leaves = std::max(leaves, way);
            sent = leaves + slow * cost.byte_ns * length;
            way = sent;
        }
        // Messages pass side by side; none is through before all bytes until then are.
        if (map_.together_byte_ns > 0) {
            together_free_ = std::max(together_free_, now) + map_.together_byte_ns * length;
            sent = std::max(sent, together_free_);
        }
    }
    double port = busy_ns(cost, apart, slow * length);
    out_free_[static_cast<size_t>(from)] = port < 0 ? sent : start + slow * cost.overhead_ns + port;
    double head = sent - cost.byte_ns * length + cost.latency_ns;
    if (apart && map_.link(from, to).ask_ns > 0)
        under_way_[{from, to}].push_back({sent + 2 * cost.latency_ns, bytes});
    if (apart && first != map_.host_of(to)) {
        const auto& way = map_.roads.between(here, map_.host_of(to));
        for (size_t i = 0; i < way.size(); ++i)
            head = pass(i ? way[i - 1] : here, way[i],
                        i + 1 < way.size() ? way[i + 1] : map_.host_of(to), head, bytes);
    }
    return {sent, head};
}

// A message on its way through a host, whose lines it shares: when its first byte is at the next
// one. It is handed on in frames, so it enters and leaves at the same time.
double Ports::pass(int before, int host, int next, double head, size_t bytes) {
    const LinkCost &in = map_.host_link(before, host), &out = map_.host_link(host, next);
    auto length = static_cast<double>(bytes);
    double& in_free = line_in_free_[line(host, before, false)];
    double enters = std::max(head, in_free);
    in_free = enters + in.byte_ns * length;
    double& out_free = line_out_free_[line(host, next, true)];
    double leaves = std::max(enters + in.overhead_ns + out.overhead_ns, out_free);
    // What comes slowly leaves slowly.
    double behind = std::max(0.0, in.byte_ns - out.byte_ns) * length;
    out_free = leaves + std::max(in.byte_ns, out.byte_ns) * length;
    return leaves + behind + out.latency_ns;
}

double Ports::arrive(double now, int from, int to, size_t bytes, double slow) {
    bool apart = map_.far_apart(from, to);
    int here = map_.host_of(to), last = apart ? map_.last_hop(from, to) : here;
    const LinkCost& cost = map_.host_link(last, here);
    double start = now;
    double length = static_cast<double>(bytes);
    if (apart) {
        double& free = line_in_free_[line(here, last, false)];
        start = std::max(start, free);
        free = start + slow * line_byte(here, last) * length;
    }
    // The line is free again while this rank is busy with what came before.
    start = std::max(start, in_free_[static_cast<size_t>(to)]);
    double taken = start + slow * cost.byte_ns * length + slow * cost.overhead_ns;
    double port = busy_ns(cost, apart, slow * length);
    double& own = in_free_[static_cast<size_t>(to)];
    own = port < 0 ? taken : std::max(now, own) + port + slow * cost.overhead_ns;
    return taken;
}

// How long a message of so many bytes keeps its rank busy; below 0: until it is over.
double Ports::busy_ns(const LinkCost& cost, bool apart, double bytes) const {
    bool aside = apart && map_.port_byte_ns > 0 && map_.port_byte_ns < cost.byte_ns;
    return aside ? map_.port_byte_ns * bytes : -1;
}

double Ports::compute(double now, int rank, double work_ns, double slow) {
    double start = std::max(now, processor_free_[static_cast<size_t>(rank)]);
    return processor_free_[static_cast<size_t>(rank)] = start + slow * work_ns;
}

}  // namespace pomona
