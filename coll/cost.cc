// coll/cost.cc: costs of links as text; bytes from users and files, so it is fuzzed (tests/fuzz).
#include "coll/cost.h"

#include "btl/base/decimal.h"
#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "coll/cables.h"
#include "coll/islands.h"
#include "coll/uneven.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace pomona::coll {

namespace {

constexpr std::string_view kCable = ":cable";

bool read_link(std::string_view text, Link& link) {
    bool good = read_decimal(take_piece(text, ':'), link.latency_ns);
    good = good && read_decimal(take_piece(text, ':'), link.overhead_ns);
    return good && read_decimal(text, link.byte_ns) && link.message_ns() > 0;
}

std::string show(double value) {
    std::string text = format("{:.5f}", value);
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}

std::string show(const Link& link) {
    return format("{}:{}:{}", show(link.latency_ns), show(link.overhead_ns), show(link.byte_ns));
}

// "0-3": two machines.
std::optional<PairLink> read_pair(std::string_view name) {
    PairLink pair;
    const char* end = name.data() + name.size();
    auto [minus, one] = std::from_chars(name.data(), end, pair.a);
    if (one != std::errc() || minus == end || *minus != '-') return std::nullopt;
    auto [last, other] = std::from_chars(minus + 1, end, pair.b);
    bool good = other == std::errc() && last == end && pair.a >= 0 && pair.a < pair.b &&
                pair.b < kPairedNodesMost;
    return good ? std::optional(pair) : std::nullopt;
}

// Base 2, of 1 and more, by additions and multiplications alone: the C library's functions may
// differ in the last bit between systems, and all ranks must come to the same.
double log2_alike(double value) {
    double whole = 0, part = 0;
    for (; value >= 2; value /= 2) whole += 1;
    for (double bit = 0.5; bit > 1e-9; bit /= 2) {
        value *= value;
        if (value >= 2) value /= 2, part += bit;
    }
    return whole + part;
}

// In order; false: it is there.
bool add_pair(std::vector<PairLink>& pairs, const PairLink& pair) {
    auto before = [](const PairLink& x, const PairLink& y) {
        return x.a != y.a ? x.a < y.a : x.b < y.b;
    };
    auto at = std::lower_bound(pairs.begin(), pairs.end(), pair, before);
    if (at != pairs.end() && !before(pair, *at)) return false;
    pairs.insert(at, pair);
    return true;
}

Error bad(std::string& problem, std::string text) {
    problem = std::move(text);
    return Error{Code::invalid_argument, "Costs of links cannot be read"};
}

}  // namespace

double distance_from_cache(double bytes) {
    constexpr double near = 512 << 10, far = 4 << 20;
    if (!(bytes > near)) return 0;
    return bytes >= far ? 1 : log2_alike(bytes / near) / 3;  // far is 2^3 near
}

PairCosts::PairCosts(int machines, const Link& usual)
    : machines_(machines), links_(static_cast<size_t>(machines * machines), usual) {}

void PairCosts::set(int a, int b, const Link& link) {
    links_[static_cast<size_t>(a * machines_ + b)] = link;
    links_[static_cast<size_t>(b * machines_ + a)] = link;
}

// Between three machines and more (ascending): those that were named, and those that addresses
// tell.
static Cables cables_among(std::span<const PairLink> pairs, const Roads& roads, int count,
                           std::span<const int> machines) {
    Cables cables(count);
    if (machines.size() < 3) return cables;
    auto among = [&](int machine) {
        return std::binary_search(machines.begin(), machines.end(), machine);
    };
    for (const PairLink& pair : pairs)
        if (pair.cable && among(pair.a) && among(pair.b)) cables.join(pair.a, pair.b);
    for (int a : machines)
        for (int b : machines)
            if (a < b && roads.own_line(a, b, machines)) cables.join(a, b);
    return cables;
}

// All members compute this from the same numbers: those of the job, and where members are.
Machine Machine::among(const Links& links, bool shared_memory, std::span<const int> nodes,
                       const Roads& roads) {
    std::vector<int> there(nodes.begin(), nodes.end());
    std::sort(there.begin(), there.end());
    there.erase(std::unique(there.begin(), there.end()), there.end());
    bool several = there.size() > 1;
    Machine machine =
        of(links, shared_memory, several, several ? detours_of(roads, nodes) : Detours{});
    if (!several || there.back() >= kPairedNodesMost) return machine;
    machine.roads = machine.detours.any() ? roads : Roads{};
    // Machines without members may be between others.
    int machines = std::max(there.back() + 1, machine.roads.machines());
    PairCosts pairs(machines, links.net);
    for (const PairLink& pair : links.pairs)
        if (pair.b < machines) pairs.set(pair.a, pair.b, pair.link);
    if (Cables cables = cables_among(links.pairs, roads, machines, there); cables.any()) {
        machine.cables = std::move(cables);
        machine.apart = true;
        for (int a : there)
            for (int b : there)
                machine.apart = machine.apart && (a == b || machine.cables.between(a, b));
    }
    Link slowest{}, quickest{1e18, 1e18, 1e18};
    for (int a : there)
        for (int b : there) {
            if (a >= b) continue;
            const Link& link = pairs.between(a, b);
            slowest = {std::max(slowest.latency_ns, link.latency_ns),
                       std::max(slowest.overhead_ns, link.overhead_ns),
                       std::max(slowest.byte_ns, link.byte_ns)};
            quickest = {std::min(quickest.latency_ns, link.latency_ns),
                        std::min(quickest.overhead_ns, link.overhead_ns),
                        std::min(quickest.byte_ns, link.byte_ns)};
        }
    bool measured = std::any_of(links.pairs.begin(), links.pairs.end(), [&](const PairLink& pair) {
        return std::binary_search(there.begin(), there.end(), pair.a) &&
               std::binary_search(there.begin(), there.end(), pair.b);
    });
    if (measured) {
        machine.far = slowest;
        machine.ask_overhead_ns = 4 * slowest.overhead_ns;
    } else {
        // `far` has what the longest way through others takes longer.
        for (int a : there)
            for (int b : there) {
                Link way = links.net;
                way.latency_ns += static_cast<double>(machine.roads.between(a, b).size()) *
                                  links.net.message_ns();
                if (a < b) pairs.set(a, b, way);
            }
    }
    if (!(slowest == quickest) || machine.roads.known()) machine.pairs = std::move(pairs);
    machine.by_cable = forests_by_cable(machine, nodes);
    machine.by_speed = forests_by_speed(machine, nodes);
    machine.by_island = forests_by_island(machine, nodes);
    return machine;
}

Result<Links> parse_links(std::string_view text, std::string& problem) {
    Links links;
    if (text.empty() || text == "built-in") return links;
    struct Row {
        std::string_view name;
        Link* link;
        double* number;
        bool given = false;
    };
    Row rows[] = {{"shm", &links.shm, nullptr},
                  {"tcp", &links.tcp, nullptr},
                  {"net", &links.net, nullptr},
                  {"copy", nullptr, &links.copy_ns},
                  {"reduce", nullptr, &links.reduce_ns},
                  {"switch", nullptr, &links.switch_ns},
                  {"ask", nullptr, &links.ask_ns},
                  {"fresh", nullptr, &links.fresh_ns},
                  {"byte_eager", nullptr, &links.byte_eager_ns},
                  {"byte_far", nullptr, &links.byte_far_ns},
                  {"copy_far", nullptr, &links.copy_far_ns},
                  {"reduce_far", nullptr, &links.reduce_far_ns},
                  {"both", nullptr, &links.both},
                  {"both_far", nullptr, &links.both_far},
                  {"chunk", nullptr, &links.chunk},
                  {"chunk_far", nullptr, &links.chunk_far},
                  {"bcast_far", nullptr, &links.bcast_far},
                  {"hand", nullptr, &links.hand},
                  {"crowd", nullptr, &links.crowd}};
    bool more = true;
    while (more) {
        more = text.find(',') != text.npos;
        std::string_view item = take_piece(text, ','), value = item;
        std::string_view name = take_piece(value, '=');
        if (auto pair = read_pair(name)) {
            pair->cable = value.ends_with(kCable);
            if (pair->cable) value.remove_suffix(kCable.size());
            if (!read_link(value, pair->link))
                return bad(problem, format("{} takes L:o:G as in 60:35:0.08, or L:o:G:cable where "
                                           "these two machines have a line of their own",
                                           name));
            if (!add_pair(links.pairs, *pair)) return bad(problem, format("{} stands twice", name));
            continue;
        }
        Row* row = nullptr;
        for (Row& each : rows)
            if (each.name == name) row = &each;
        if (!row)
            return bad(
                problem,
                "Costs of links are named shm, tcp, net, copy, reduce, switch, ask, fresh, "
                "byte_eager, byte_far, copy_far, reduce_far, both, both_far, chunk, chunk_far, "
                "bcast_far, hand and crowd, as in shm=60:35:0.08,copy=0.05, or are pairs of "
                "machines such as 0-3, from 0 to 63, the lower one first");
        if (row->given) return bad(problem, format("{} stands twice", name));
        row->given = true;
        if (row->link && !read_link(value, *row->link))
            return bad(problem, format("{} takes L:o:G, nanoseconds of latency and of overhead and "
                                       "nanoseconds per byte, as in 60:35:0.08",
                                       name));
        if (row->number && !read_decimal(value, *row->number))
            return bad(problem, format("{} takes a number such as 0.05, without a sign", name));
    }
    return links;
}

std::string links_text(const Links& links) {
    std::string text =
        format("shm={},tcp={},net={},copy={},reduce={},switch={}", show(links.shm), show(links.tcp),
               show(links.net), show(links.copy_ns), show(links.reduce_ns), show(links.switch_ns));
    text += format(",ask={},fresh={},byte_eager={},byte_far={},copy_far={},reduce_far={}",
                   show(links.ask_ns), show(links.fresh_ns), show(links.byte_eager_ns),
                   show(links.byte_far_ns), show(links.copy_far_ns), show(links.reduce_far_ns));
    text += format(",both={},both_far={},chunk={},chunk_far={},bcast_far={},hand={}",
                   show(links.both), show(links.both_far), show(links.chunk), show(links.chunk_far),
                   show(links.bcast_far), show(links.hand));
    if (links.crowd != 1) text += format(",crowd={}", show(links.crowd));
    for (const PairLink& pair : links.pairs)
        text += format(",{}-{}={}{}", pair.a, pair.b, show(pair.link), pair.cable ? kCable : "");
    return text;
}

}  // namespace pomona::coll
