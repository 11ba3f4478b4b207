// coll/ring_order.cc: see ring_order.h.
#include "coll/ring_order.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace pomona::coll {

namespace {

constexpr int kAllOrdersMost = 7;  // machines: 720 orders
constexpr double kClearly = 0.99;  // an order must be so much better to be taken

const Link& between(const Machine& machine, int a, int b) {
    if (a == b) return machine.near;
    return machine.pairs.known() ? machine.pairs.between(a, b) : machine.far;
}

// Adds up what each line carries.
class Lines {
public:
    explicit Lines(const Machine& machine) : machine_(machine) {}

    void carry(int from, int to) {
        const auto& way = machine_.roads.between(from, to);
        int at = from;
        double slowest = 0, message = 0;
        auto hop = [&](int next) {
            const Link& link = between(machine_, at, next);
            message += link.message_ns(), slowest = std::max(slowest, link.byte_ns);
            load(at, line(at, next), true, link.byte_ns);
            load(next, line(next, at), false, link.byte_ns);
            at = next;
        };
        for (int next : way) hop(next);
        hop(to);
        out.message_ns += message, out.mean_byte_ns += slowest;
        out.pace_ns = std::max(out.pace_ns, slowest);
    }
    RingLinks out;

private:
    int line(int at, int to) const {
        return machine_.cables.between(at, to) ? -1 - to : machine_.roads.line(at, to);
    }
    void load(int machine, int line, bool outwards, double byte_ns) {
        double& sum = loads_[{2 * machine + outwards, line}];
        sum += byte_ns;
        out.pace_ns = std::max(out.pace_ns, sum);
    }
    const Machine& machine_;
    std::map<std::pair<int, int>, double> loads_;
};

// Of two rings the one whose busiest line has less to carry; of these the one with shorter ways.
bool better(const RingLinks& x, const RingLinks& y) {
    if (x.pace_ns < kClearly * y.pace_ns) return true;
    return x.pace_ns <= y.pace_ns && x.message_ns < kClearly * y.message_ns;
}

// Tries all orders of the machines behind the first one.
std::vector<int> best_of_all(const Machine& machine, std::vector<int> order) {
    std::vector<int> best = order, each = order;
    RingLinks least = links_of_ring(machine, best);
    std::sort(each.begin() + 1, each.end());
    do {
        RingLinks links = links_of_ring(machine, each);
        if (better(links, least)) least = links, best = each;
    } while (std::next_permutation(each.begin() + 1, each.end()));
    return best;
}

// Of many machines: parts of the ring are turned round while that makes it better.
std::vector<int> turned(const Machine& machine, std::vector<int> order) {
    RingLinks least = links_of_ring(machine, order);
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 1; i < order.size(); ++i)
            for (size_t j = i + 1; j < order.size(); ++j) {
                std::vector<int> other = order;
                std::reverse(other.begin() + static_cast<ptrdiff_t>(i),
                             other.begin() + static_cast<ptrdiff_t>(j) + 1);
                RingLinks links = links_of_ring(machine, other);
                if (better(links, least)) least = links, order = std::move(other), again = true;
            }
    }
    return order;
}

std::vector<int> machines_in_order(std::span<const int> nodes) {
    std::vector<int> out;
    for (int node : nodes)
        if (std::find(out.begin(), out.end(), node) == out.end()) out.push_back(node);
    return out;
}

std::vector<int> ranks_in(const std::vector<int>& machines, std::span<const int> nodes) {
    std::vector<int> out;
    for (int machine : machines)
        for (size_t r = 0; r < nodes.size(); ++r)
            if (nodes[r] == machine) out.push_back(static_cast<int>(r));
    return out;
}

}  // namespace

RingLinks links_of_ring(const Machine& machine, std::span<const int> nodes, bool closed) {
    Lines lines(machine);
    size_t links = nodes.size() - !closed;
    auto count = static_cast<double>(std::max<size_t>(links, 1));
    for (size_t r = 0; r < links; ++r) {
        int from = nodes[r], to = nodes[(r + 1) % nodes.size()];
        if (from != to) lines.carry(from, to);
        else {
            lines.out.message_ns += machine.near.message_ns();
            lines.out.mean_byte_ns += machine.near.byte_ns;
            lines.out.pace_ns = std::max(lines.out.pace_ns, machine.near.byte_ns);
        }
    }
    lines.out.message_ns /= count, lines.out.mean_byte_ns /= count;
    return lines.out;
}

std::vector<int> ranks_by_node(std::span<const int> nodes) {
    return ranks_in(machines_in_order(nodes), nodes);
}

std::vector<int> with_ring(std::vector<int> nodes, std::span<const int> ring) {
    nodes.insert(nodes.end(), ring.begin(), ring.end());
    return nodes;
}

std::vector<int> ring_order(const Machine& machine, std::span<const int> nodes) {
    if (!machine.unlike()) return {};
    std::vector<int> plain = machines_in_order(nodes);
    if (plain.size() < 4) return {};  // of three all rings are the same, one way or the other
    std::vector<int> best =
        plain.size() <= kAllOrdersMost ? best_of_all(machine, plain) : turned(machine, plain);
    return best == plain ? std::vector<int>{} : ranks_in(best, nodes);
}

}  // namespace pomona::coll
