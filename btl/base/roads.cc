// btl/base/roads.cc: see roads.h.
#include "btl/base/roads.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pomona {

namespace {
constexpr int kLinksMost = 4;  // as long as routes of relays may be

// The shortest ways from one machine to all others, through those with low numbers first.
std::vector<int> ways_from(int start, int machines, const std::vector<bool>& direct) {
    std::vector<int> before(static_cast<size_t>(machines), -1), open{start};
    before[static_cast<size_t>(start)] = start;
    for (size_t i = 0; i < open.size(); ++i)
        for (int next = 0; next < machines; ++next) {
            int& known = before[static_cast<size_t>(next)];
            if (known >= 0 || !direct[static_cast<size_t>(open[i] * machines + next)]) continue;
            known = open[i];
            open.push_back(next);
        }
    return before;
}
}  // namespace

Roads::Roads(int machines, std::vector<bool> direct, std::vector<int> lines)
    : machines_(machines), lines_(std::move(lines)) {
    std::vector<std::vector<int>> between(direct.size());
    bool any = false;
    for (int to = 0; to < machines; ++to) {
        std::vector<int> before = ways_from(to, machines, direct);
        for (int from = 0; from < machines; ++from) {
            std::vector<int> way;
            for (int at = from; at != to && at >= 0; at = before[static_cast<size_t>(at)])
                if (at != from) way.push_back(at);
            bool reached = before[static_cast<size_t>(from)] >= 0;
            if (!reached || way.empty() || way.size() >= kLinksMost) continue;
            between[static_cast<size_t>(from * machines + to)] = std::move(way);
            any = true;
        }
    }
    if (any) between_ = std::move(between);
}

const std::vector<int>& Roads::between(int from, int to) const {
    static const std::vector<int> none;
    if (from >= machines_ || to >= machines_ || between_.empty()) return none;
    return between_[static_cast<size_t>(from * machines_ + to)];
}

int Roads::line(int at, int to) const {
    if (lines_.empty() || at >= machines_ || to >= machines_) return 0;
    return std::max(0, lines_[static_cast<size_t>(at * machines_ + to)]);
}

int Roads::lines_most() const {
    return lines_.empty() ? 1 : std::max(0, *std::max_element(lines_.begin(), lines_.end())) + 1;
}

bool Roads::own_line(int a, int b, std::span<const int> machines) const {
    if (lines_.empty() || a == b || std::max(a, b) >= machines_ || !between(a, b).empty())
        return false;
    auto of = [&](int at, int to) { return lines_[static_cast<size_t>(at * machines_ + to)]; };
    for (auto [at, to] : {std::pair{a, b}, std::pair{b, a}}) {
        if (of(at, to) < 0) return false;
        for (int other : machines)
            if (other != at && other != to && other < machines_ && between(at, other).empty() &&
                of(at, other) == of(at, to))
                return false;
    }
    return true;
}

bool Roads::apart(std::span<const int> machines) const {
    if (machines.size() < 3) return false;
    for (int a : machines)
        for (int b : machines)
            if (a < b && !own_line(a, b, machines)) return false;
    return true;
}

Detours detours_of(const Roads& roads, std::span<const int> nodes) {
    Detours out;
    if (!roads.known() || nodes.empty()) return out;
    auto machines = static_cast<size_t>(*std::max_element(nodes.begin(), nodes.end())) + 1;
    std::vector<double> ranks(machines), all(machines), ring(machines);
    auto pass = [&](std::vector<double>& load, size_t from, size_t to, double messages) {
        const auto& way = roads.between(static_cast<int>(from), static_cast<int>(to));
        for (int machine : way) {
            if (static_cast<size_t>(machine) >= load.size())
                load.resize(static_cast<size_t>(machine) + 1);
            load[static_cast<size_t>(machine)] += messages;
        }
        out.links = std::max(out.links, static_cast<int>(way.size()) + 1);
    };
    for (int node : nodes) ranks[static_cast<size_t>(node)] += 1;
    auto total = static_cast<double>(nodes.size());
    for (size_t from = 0; from < machines; ++from) {
        if (ranks[from] == 0) continue;
        all[from] += ranks[from];
        // To whom each sends is not known: to all others alike.
        for (size_t to = 0; to < machines; ++to)
            if (to != from && ranks[to] > 0)
                pass(all, from, to, ranks[from] * ranks[to] / (total - ranks[from]));
    }
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
        auto from = static_cast<size_t>(nodes[rank]);
        auto to = static_cast<size_t>(nodes[(rank + 1) % nodes.size()]);
        if (from == to) continue;
        ring[from] += 1;
        pass(ring, from, to, 1);
        auto between = roads.between(static_cast<int>(from), static_cast<int>(to)).size();
        out.next += static_cast<double>(between) / total;
    }
    out.all = std::max(1.0, *std::max_element(all.begin(), all.end()));
    out.ring = std::max(1.0, *std::max_element(ring.begin(), ring.end()));
    return out;
}

}  // namespace pomona
