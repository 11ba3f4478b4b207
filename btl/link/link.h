// btl/link/link.h: one Endpoint for each process on another machine, made of paths that may break.
// Idea: every frame has a number and is kept until the other side has said that it arrived; so it
// can go again by another path, and what arrives twice is dropped. Messages are handed on in order;
// pieces of long payloads name their place, need no order, and are shared among the paths by their
// rates. A path that breaks is made again in the background. Sink::gone() means that the process
// has left, or cannot be reached for link_grace_s. Two processes without a path of their own go
// through others.
//
// Files: wire.h frames; window.* what is kept and what has arrived; paths.* a path and the choice
// among several; link.* one link: messages; bulk.cc its long payloads; liveness.cc its timers;
// relays.*, relay_wire.h, through.cc paths through others; carried.* those by another rank's RDMA;
// riding.cc paths that are made by words
// over others; transport.cc all links of a process.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/line_seen.h"
#include "btl/base/params.h"
#include "btl/transport.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pomona {

// What a path's frame holds beside a message's payload: the engine's header, and what is added
// where it goes through others.
inline constexpr size_t kLinkRoom = 128;

struct LinkOptions {
    int rank = 0;
    int size = 1 << 24;      // ranks that the job may have
    Clock* clock = nullptr;  // borrowed
    // Of messages, as the engine sees them. Every path takes frames of fragment_max + kLinkRoom
    // bytes.
    Caps caps{};
    size_t unasked_max = 0;  // of one path, for unasked_most() of its endpoint
    // "host3", for people.
    std::function<std::string(int rank)> host{};
    // Paths through others: one process of each host, which may stand between two; asked once, when
    // one is needed. None: there are no such paths.
    std::function<std::vector<int>()> relays{};
    std::function<Result<std::vector<std::byte>>(int rank)> address_of{};  // as it has published it
    std::function<void(int rank)>
        on_peer{};                     // a process is met in this way, before its first frame
    bool* owes = nullptr;              // Sink::owes of who polls, for what it pushes; null: it
                                       // never leaves
    std::function<void()> on_relay{};  // frames of others come through here; often called
    // Paths by the RDMA queue pairs of another rank (carried.h). None: there are no such paths.
    std::function<int(int rank)> owner_of{};     // of its machine; below 0: not known
    std::function<bool(int peer)> by_owner{};    // is this peer reached so, if at all?
    std::function<Endpoint*(int rank)> local{};  // through shared memory
};

// What a path of a link is at the moment, for people.
struct LinkPath {
    std::string name;    // of its transport
    std::string state;   // up, connecting, down
    bool first = false;  // messages take it
    std::string kind, text, why;
    Nanoseconds round_trip = 0;  // 0: not known
    double rate = 0;             // bytes a nanosecond, of long payloads; 0: not known
};
// Those of an endpoint that a link transport has made; none of others.
std::vector<LinkPath> paths_of(const Endpoint& endpoint);

// What a link's paths have carried while more waited, if all of them are lines between machines
// that nobody else stands on; without times where they are not, or too little was seen.
struct LinkSeen {
    std::vector<FullTime> times{};
    std::string by{};  // what messages take first
};
LinkSeen seen_of(const Endpoint& endpoint);
// Asks the peer for an answer, whose time counts below if it comes while the link is there.
void ask_for_round_trip(Endpoint& endpoint);
// Of what messages take, or took, first; 0: not known.
Nanoseconds shortest_round_trip(const Endpoint& endpoint);

// Of a link transport: connects to a process, for three seconds at most, though nobody has anything
// for it; until somebody has, nobody is told if it goes. With an address as published.
void reach(Transport& links, int peer, ConstBytes address);
// Is there a path to that process, or will there be none before it is tried again?
bool is_reached(Transport& links, int peer);

// The published addresses of a link, by the names of its transports; none if they do not parse.
std::optional<std::vector<std::pair<std::string, std::vector<std::byte>>>> parse_link_addresses(
    ConstBytes published);

// Takes the transports over that make the paths; they keep the rules 8 to 13 of transport.h.
std::unique_ptr<Transport> make_link_transport(const Params& params, Counters& counters,
                                               LinkOptions options,
                                               std::vector<std::unique_ptr<Transport>> paths);

}  // namespace pomona
