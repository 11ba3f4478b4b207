// mpi/runtime/machine_links.cc: see machine_links.h.
#include "mpi/runtime/machine_links.h"

#include "btl/base/kept_file.h"
#include "btl/base/log.h"
#include "btl/link/link.h"
#include "pmix/link_history.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace pomona {

namespace {

using coll::Link;
using coll::PairLink;
using tcp::InterfaceKind;
using tcp::Place;

constexpr size_t kMachinesMost = coll::kPairedNodesMost;
constexpr const char *kHostKey = "host", *kHistoryKey = "link-history";
constexpr size_t kHistoryMost = 64 << 10;

// Through TCP. Estimates, of which only that they are far apart matters: a cable between Macs, and
// Wi-Fi.
constexpr Link kThunderbolt{15000, 2500, 0.3}, kWifi{1.5e6, 5000, 20};
constexpr double kUsualMegabits = 10000;  // what the built-in Links::net stands for

Link estimate(const Place& a, const Place& b, const Link& usual) {
    InterfaceKind kind = std::max(a.kind, b.kind);
    if (kind == InterfaceKind::thunderbolt) return kThunderbolt;
    if (kind == InterfaceKind::wifi) return kWifi;
    uint32_t megabits = a.megabits && b.megabits ? std::min(a.megabits, b.megabits)
                                                 : std::max(a.megabits, b.megabits);
    Link link = usual;
    if (megabits) link.byte_ns *= kUsualMegabits / megabits;
    return link;
}

// The number of a place's interface among its machine's. VLANs (eth0.7) of one are one line.
int line_of(const std::vector<Place>& places, size_t place) {
    std::vector<std::string_view> seen;
    for (const Place& each : places) {
        std::string_view name = each.interface;
        name = name.substr(0, name.find('.'));
        auto at = std::find(seen.begin(), seen.end(), name) - seen.begin();
        if (at == static_cast<ptrdiff_t>(seen.size())) seen.push_back(name);
        if (&each == &places[place]) return static_cast<int>(at);
    }
    return 0;
}

// The whole way between two machines; nothing where addresses do not tell.
std::optional<Link> estimate_way(const MachinePlaces& places, const Roads& roads, int a, int b,
                                 const Link& usual) {
    std::vector<int> way = roads.between(a, b);
    way.push_back(b);
    Link whole;
    int at = a;
    for (int next : way) {
        const auto &own = places[static_cast<size_t>(at)],
                   &peer = places[static_cast<size_t>(next)];
        auto joined = tcp::joining(own, peer);
        if (!joined) return std::nullopt;
        Link part = estimate(own[joined->own], peer[joined->peer], usual);
        // Each process between takes a message in and hands it on.
        whole.latency_ns += part.latency_ns + (at == a ? 0 : 2 * part.overhead_ns);
        whole.overhead_ns = std::max(whole.overhead_ns, part.overhead_ns);
        whole.byte_ns = std::max(whole.byte_ns, part.byte_ns);
        at = next;
    }
    return whole;
}

// Per byte, the best that is known of a machine's line by which `peer` is reached; 0: nothing is.
double known_of_line(const MachinePlaces& places, const coll::Links& links, int machine, int peer) {
    auto count = static_cast<int>(places.size());
    const auto& own = places[static_cast<size_t>(machine)];
    auto line_to = [&](int other) {
        if (other < 0 || other >= count) return -1;
        auto joined = tcp::joining(own, places[static_cast<size_t>(other)]);
        return joined ? line_of(own, joined->own) : -1;
    };
    int line = line_to(peer);
    double best = 0;
    for (const PairLink& pair : links.pairs) {
        if (line < 0 || (pair.a != machine && pair.b != machine)) continue;
        if (line_to(pair.a == machine ? pair.b : pair.a) != line) continue;
        best = best == 0 ? pair.link.byte_ns : std::min(best, pair.link.byte_ns);
    }
    return best;
}

}  // namespace

std::vector<Place> published_places(Wireup& wireup, int rank) {
    auto published = wireup.lookup(rank, "tcp");
    if (!published.ok()) return {};
    auto all = parse_link_addresses(*published);
    if (!all || all->empty()) return {};
    // All of a process's TCP transports are reached at the same places.
    auto address = tcp::parse_address(all->front().second);
    return address ? std::move(address->places) : std::vector<Place>{};
}

MachinePlaces find_machine_places(Wireup& wireup) {
    const Job& job = wireup.job();
    MachinePlaces places;
    for (int rank = job.first; rank < job.size; ++rank) {
        auto node = static_cast<size_t>(job.node(rank));
        if (node >= kMachinesMost) return {};
        if (node >= places.size()) places.resize(node + 1);
        if (places[node].empty()) places[node] = published_places(wireup, rank);
    }
    return places;
}

Roads roads_between(const MachinePlaces& places) {
    size_t machines = places.size();
    if (machines < 3) return {};
    std::vector<bool> direct(machines * machines, true);
    std::vector<int> lines(machines * machines, -1);
    for (size_t a = 0; a < machines; ++a)
        for (size_t b = 0; b < a; ++b) {
            if (places[a].empty() || places[b].empty()) continue;
            direct[a * machines + b] = direct[b * machines + a] =
                tcp::share_network(places[a], places[b]);
            auto joined = tcp::joining(places[a], places[b]);
            if (!joined) continue;
            lines[a * machines + b] = line_of(places[a], joined->own);
            lines[b * machines + a] = line_of(places[b], joined->peer);
        }
    return {static_cast<int>(machines), std::move(direct), std::move(lines)};
}

std::vector<PairLink> estimated_pairs(const MachinePlaces& places, const Roads& roads,
                                      const coll::Links& links) {
    std::vector<PairLink> out;
    const Link usual = coll::Links().net;
    bool unlike = false;
    for (int a = 0; a < static_cast<int>(places.size()); ++a)
        for (int b = a + 1; b < static_cast<int>(places.size()); ++b) {
            bool named =
                std::any_of(links.pairs.begin(), links.pairs.end(),
                            [&](const PairLink& each) { return each.a == a && each.b == b; });
            auto link = named ? std::nullopt : estimate_way(places, roads, a, b, usual);
            if (!link) continue;
            // Jobs see some pairs before others (pmix/link_learning.h): a line is no quicker to
            // somebody of whom nothing is known.
            if (roads.between(a, b).empty())
                link->byte_ns = std::max({link->byte_ns, known_of_line(places, links, a, b),
                                          known_of_line(places, links, b, a)});
            // What goes through others because there is no other way is told by the roads.
            unlike = unlike || (roads.between(a, b).empty() && !(*link == usual));
            out.push_back({a, b, *link});
        }
    return unlike || !links.pairs.empty() ? out : std::vector<PairLink>{};
}

static bool names_net(std::string_view said) {
    return said == "built-in" || said.starts_with("net=") || said.find(",net=") != said.npos;
}

Status publish_machine_links(Wireup& wireup, const std::string& history) {
    const Job& job = wireup.job();
    if (job.origin == Origin::mpirun) return {};
    if (job.local_rank == 0) TRY(wireup.publish(kHostKey, bytes_of(job.host)));
    if (job.rank != job.first) return {};
    auto text = read_kept(history);
    if (!text.ok()) return {};
    std::string kept = link_memory_text(latest_of_each(read_link_memory(*text)));
    return kept.size() <= kHistoryMost ? wireup.publish(kHistoryKey, bytes_of(kept)) : Status();
}

static std::string published_text(Wireup& wireup, int rank, const char* key) {
    auto found = wireup.lookup(rank, key);
    if (!found.ok()) return {};
    return {reinterpret_cast<const char*>(found->data()), found->size()};
}

std::vector<std::string> machine_names(Wireup& wireup) {
    const Job& job = wireup.job();
    std::vector<std::string> hosts;
    for (int rank = job.first; rank < job.size && job.origin != Origin::mpirun; ++rank) {
        auto node = static_cast<size_t>(job.node(rank));
        if (node >= kMachinesMost) return {};
        if (node >= hosts.size()) hosts.resize(node + 1);
        if (hosts[node].empty()) hosts[node] = published_text(wireup, rank, kHostKey);
    }
    return hosts;
}

// What the first rank has kept of the links between this job's hosts.
static void learn_measured(Wireup& wireup, coll::Links& links) {
    const Job& job = wireup.job();
    std::string history = published_text(wireup, job.first, kHistoryKey);
    if (history.empty()) return;
    std::vector<std::string> hosts = machine_names(wireup);
    if (hosts.empty()) return;
    std::string missing, problem;
    auto net = coll::parse_links(net_costs(read_link_memory(history), hosts, missing), problem);
    if (net.ok()) links.net = net->net, links.pairs = net->pairs;
}

void learn_machine_links(Wireup& wireup, std::string_view said, coll::Links& links, Roads& roads) {
    MachinePlaces places = find_machine_places(wireup);
    roads = roads_between(places);
    if (names_net(said)) return;
    if (wireup.job().origin != Origin::mpirun && links.pairs.empty()) learn_measured(wireup, links);
    if (!(links.net == coll::Links().net)) return;  // all pairs were measured
    for (const PairLink& pair : estimated_pairs(places, roads, links)) {
        LOG(info, coll, "Between machines {} and {} about {:.2g} Gb/s are expected", pair.a, pair.b,
            8 / pair.link.byte_ns);
        links.pairs.push_back(pair);
    }
    std::sort(links.pairs.begin(), links.pairs.end(), [](const PairLink& x, const PairLink& y) {
        return x.a != y.a ? x.a < y.a : x.b < y.b;
    });
}

}  // namespace pomona
