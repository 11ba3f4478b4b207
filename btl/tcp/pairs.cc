// btl/tcp/pairs.cc: see pairs.h.
#include "btl/tcp/pairs.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace pomona::tcp {

Reach reach(const Place& own, const Place& peer) {
    const Ip &a = own.ip, &b = peer.ip;
    if (a.six != b.six || a.loopback() != b.loopback() || a.link_local() != b.link_local())
        return Reach::never;
    bool same_kind = own.kind == peer.kind;
    bool cable = same_kind && own.kind == InterfaceKind::thunderbolt;
    if (a.link_local()) return cable ? Reach::cable : Reach::link_local;
    if (same_network(a, b, std::max(own.prefix, peer.prefix)))
        return cable ? Reach::cable : same_kind ? Reach::network : Reach::other_kind;
    return same_kind ? Reach::routed : Reach::routed_elsewhere;
}

namespace {

using Places = std::vector<Place>;

// Two addresses, by their numbers in the lists of the lower and the higher rank.
struct Pair {
    size_t lower, higher;
    Reach reach;
    bool
        alike;  // one of them is an address of both: of one machine, or of networks that know no other
};

bool has(const Places& places, const Ip& ip) {
    return std::any_of(places.begin(), places.end(),
                       [&](const Place& each) { return each.ip == ip; });
}

bool has_loopback(const Places& places) {
    return std::any_of(places.begin(), places.end(),
                       [](const Place& each) { return each.ip.loopback(); });
}

// Cables whose addresses do not tell where they lead: of several, one may lead to the peer at most.
bool has_untold_cables(const Places& places) {
    std::set<std::string> names;
    for (const Place& each : places)
        if (each.kind == InterfaceKind::thunderbolt && each.ip.link_local())
            names.insert(each.interface);
    return names.size() > 1;
}

// The most plausible first; addresses of IPv4 stand before those of IPv6.
std::vector<Pair> all_pairs(const Places& lower, const Places& higher) {
    bool untold = has_untold_cables(lower) || has_untold_cables(higher);
    std::vector<Pair> out;
    for (size_t i = 0; i < lower.size(); ++i)
        for (size_t j = 0; j < higher.size(); ++j) {
            Reach found = reach(lower[i], higher[j]);
            if (untold && lower[i].ip.link_local() && found == Reach::cable)
                found = Reach::link_local;
            bool alike = has(higher, lower[i].ip) || has(lower, higher[j].ip);
            if (found != Reach::never) out.push_back({i, j, found, alike});
        }
    std::stable_sort(out.begin(), out.end(), [](const Pair& a, const Pair& b) {
        return std::tuple(a.alike, a.reach) < std::tuple(b.alike, b.reach);
    });
    return out;
}

// Pairs of interfaces, greedily: each interface once.
using Joined = std::vector<std::pair<std::string, std::string>>;
Joined join(const Places& lower, const Places& higher, const std::vector<Pair>& pairs) {
    Joined out;
    for (const Pair& each : pairs) {
        if (each.alike && !pairs.front().alike) break;
        const std::string &low = lower[each.lower].interface, &high = higher[each.higher].interface;
        bool taken = std::any_of(out.begin(), out.end(), [&](const auto& other) {
            return other.first == low || other.second == high;
        });
        if (!taken) out.emplace_back(low, high);
    }
    return out;
}

}  // namespace

std::optional<Joining> joining(const Places& own, const Places& peer) {
    std::optional<Joining> best;
    for (size_t i = 0; i < own.size(); ++i)
        for (size_t j = 0; j < peer.size(); ++j) {
            const Place &a = own[i], &b = peer[j];
            Reach found = reach(a, b);
            bool shared = !a.ip.link_local() && found <= Reach::other_kind && !has(peer, a.ip) &&
                          !has(own, b.ip);
            if (shared && (!best || found < reach(own[best->own], peer[best->peer])))
                best = Joining{i, j};
        }
    return best;
}

bool share_network(const Places& own, const Places& peer) {
    auto same_ip = [](const Place& a, const Place& b) { return a.ip == b.ip; };
    return std::equal(own.begin(), own.end(), peer.begin(), peer.end(), same_ip) ||
           joining(own, peer).has_value();
}

bool same_machine(const Places& own, const Places& peer) {
    return !peer.empty() && std::all_of(peer.begin(), peer.end(),
                                        [&](const Place& each) { return has(own, each.ip); });
}

// Several interfaces may have one such address, as those of virtual networks on one card.
const Place* own_place_of(const Places& own, const Place& peer) {
    const Place* found = nullptr;
    for (const Place& each : own)
        if (each.ip == peer.ip && (!found || each.interface == peer.interface)) found = &each;
    return found;
}

namespace {
// Interfaces whose addresses do not tell what they lead to.
size_t untold_lines(const Places& places) {
    std::set<std::string> names;
    for (const Place& each : places)
        if (each.ip.link_local()) names.insert(each.interface);
    return names.size();
}

size_t lines(const Places& places) {
    std::set<std::string> names;
    for (const Place& each : places) names.insert(each.interface);
    return names.size();
}

// It has nothing but such interfaces, and fewer than there are hosts that it shares no network
// with.
bool has_few_lines(const Places& of, const std::vector<const Places*>& all) {
    auto apart = std::count_if(all.begin(), all.end(),
                               [&](const Places* each) { return !share_network(of, *each); });
    return std::all_of(of.begin(), of.end(),
                       [](const Place& each) { return each.ip.link_local(); }) &&
           untold_lines(of) < static_cast<size_t>(apart);
}
}  // namespace

bool stands_between(const Places& own, const std::vector<Places>& others) {
    std::vector<const Places*> all{&own}, joined, perhaps;
    for (const Places& each : others) all.push_back(&each);
    bool some = lines(own) > 1 && untold_lines(own) != 0;
    for (const Places& each : others) {
        bool shares = share_network(own, each);
        if (shares) joined.push_back(&each);
        if (shares || (some && untold_lines(each) != 0)) perhaps.push_back(&each);
    }
    auto any_apart = [](const std::vector<const Places*>& among, auto lack) {
        for (size_t i = 0; i < among.size(); ++i)
            for (size_t j = 0; j < i; ++j)
                if (!share_network(*among[i], *among[j]) && lack(*among[i], *among[j])) return true;
        return false;
    };
    return any_apart(joined, [](const Places&, const Places&) { return true; }) ||
           (some && any_apart(perhaps, [&](const Places& one, const Places& other) {
                return has_few_lines(one, all) || has_few_lines(other, all);
            }));
}

Ends ends_of(const Place* own, const Place* peer, const std::optional<Ip>& peer_ip) {
    Ends out{own ? own->interface : "", peer ? peer->interface : "", InterfaceKind::wired, ""};
    if (own && peer) out.kind = std::max(own->kind, peer->kind);
    else if (own || peer) out.kind = (own ? own : peer)->kind;
    if (own) out.text = own->interface + " " + own->ip.text() + " ";
    out.text += "to " + (peer_ip ? peer_ip->text() : "an unknown address");
    if (peer) out.text += " (" + peer->interface + ")";
    return out;
}

std::vector<Attempt> attempts_for(const Places& own, const Places& peer, AttemptsAsked asked) {
    const Places& lower = asked.own_first ? own : peer;
    const Places& higher = asked.own_first ? peer : own;
    std::vector<Pair> pairs = all_pairs(lower, higher);
    Joined joined = join(lower, higher, pairs);
    // The path's own pair; then what begins or ends at one of its interfaces; then the rest.
    auto distance = [&](const Pair& each) {
        const auto& mine = joined[asked.path % joined.size()];
        bool low = lower[each.lower].interface == mine.first;
        bool high = higher[each.higher].interface == mine.second;
        return low && high ? 0 : low ? 1 : high ? 2 : 3;
    };
    std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
        return std::tuple(a.alike, distance(a)) < std::tuple(b.alike, distance(b));
    });
    std::vector<Attempt> out;
    std::set<size_t> by_routes;
    for (const Pair& each : pairs) {
        size_t from = asked.own_first ? each.lower : each.higher;
        size_t to = asked.own_first ? each.higher : each.lower;
        // To an address that is also an own one no packet leaves this machine by an interface.
        if (!has(own, peer[to].ip)) out.push_back({static_cast<int>(from), to});
        else if (by_routes.insert(to).second) out.push_back({-1, to});
    }
    // At last without a word about the interface: routes may know better. Link-local addresses of
    // IPv6 and loopback ones mean nothing then.
    for (size_t to = 0; to < peer.size(); ++to) {
        const Ip& ip = peer[to].ip;
        if ((ip.six && ip.link_local()) || (ip.loopback() && !has_loopback(own))) continue;
        if (by_routes.insert(to).second) out.push_back({-1, to});
    }
    if (out.size() > kAttemptsMost) out.resize(kAttemptsMost);
    return out;
}

std::vector<Attempt> attempts_at_each(const Places& peer) {
    std::vector<Attempt> out;
    for (size_t to = 0; to < peer.size(); ++to) out.push_back({-1, to});
    return out;
}

}  // namespace pomona::tcp
