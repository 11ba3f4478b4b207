// btl/tcp/pairs.h: from which own address to which of a peer's addresses a path is tried, in what
// order.
// Idea: both sides know both lists of places, and compute the same from them: pairs of interfaces
// that have none in common, the most plausible first. Path k begins with the k-th of these pairs,
// so that two cables carry two paths whichever side makes which; if that one does not work, all
// others follow.
#pragma once

#include "btl/tcp/wire.h"

namespace pomona::tcp {

// How plausible it is that one place reaches another one; the lower the better.
enum class Reach {
    cable,             // Thunderbolt at both ends, one network, or addresses that do not tell
    network,           // one network, interfaces of one kind
    other_kind,        // one network
    link_local,        // perhaps one cable: the addresses do not tell
    routed,            // different networks, interfaces of one kind
    routed_elsewhere,  // different networks, interfaces of different kinds
    never
};
Reach reach(const Place& own, const Place& peer);

// By which addresses, by their numbers, two hosts share a network most plausibly; of several the
// first.
struct Joining {
    size_t own, peer;
    bool operator==(const Joining&) const = default;
};
std::optional<Joining> joining(const std::vector<Place>& own, const std::vector<Place>& peer);
// Have these two, on different hosts, addresses of one network? Link-local ones do not tell.
bool share_network(const std::vector<Place>& own, const std::vector<Place>& peer);
// May a host be all that joins two of the others: it shares a network with each of them, and they
// share none? Where routers join their networks this is a guess. So it is where addresses do not
// tell (link-local ones): it counts if one of the two has fewer such interfaces, and no others,
// than hosts to reach by them.
bool stands_between(const std::vector<Place>& own, const std::vector<std::vector<Place>>& others);

// Is each of the peer's addresses one of this side's too? Then no packet leaves the machine.
bool same_machine(const std::vector<Place>& own, const std::vector<Place>& peer);

struct Attempt {
    int own = -1;     // by number; -1: the system chooses, and routes decide
    size_t peer = 0;  // by number
    bool operator==(const Attempt&) const = default;
};

// The own interface from which the system would go to an address that is an own one too; link-local
// addresses of IPv6 mean nothing without it. Null: there is none.
const Place* own_place_of(const std::vector<Place>& own, const Place& peer);

// By which interfaces a connection goes, as far as that is known.
struct Ends {
    std::string own, peer;                      // names
    InterfaceKind kind = InterfaceKind::wired;  // of the two the worse
    std::string text;                           // "eth0 10.0.0.1 to 10.0.0.2 (eth1)"
};
Ends ends_of(const Place* own, const Place* peer, const std::optional<Ip>& peer_ip);

struct AttemptsAsked {
    bool own_first = true;  // this side's rank is the lower one: both must say who is who
    size_t path = 0;
};

// The attempts for a path, the best first; none twice, kAttemptsMost at the most.
inline constexpr size_t kAttemptsMost = 64;
std::vector<Attempt> attempts_for(const std::vector<Place>& own, const std::vector<Place>& peer,
                                  AttemptsAsked asked);
// The same without paths (tests): each place once, in the peer's order.
std::vector<Attempt> attempts_at_each(const std::vector<Place>& peer);

}  // namespace pomona::tcp
