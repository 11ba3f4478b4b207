// btl/link/link.h: one Endpoint for each process on another machine, made of paths that may break.
// Idea: every frame has a number and is kept until the other side has said that it arrived; so it can
// go again by another path, and what arrives twice is dropped. Messages are handed on in order; pieces
// of long payloads name their place, need no order, and are shared among the paths by their rates. A
// path that breaks is made again in the background. Sink::gone() means that the process has left, or
// cannot be reached for link_grace_s.
//
// Files: wire.h frames; window.* what is kept and what has arrived; paths.* a path and the choice
// among several; link.* one link: messages; bulk.cc its long payloads; liveness.cc its timers;
// transport.cc all links of a process over its transports.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/transport.h"

#include <functional>
#include <string>

namespace pomona {

struct LinkOptions {
    int rank = 0;
    Clock* clock = nullptr;  // borrowed
    // Of messages, as the engine sees them. Every path takes frames of fragment_max + 32 bytes.
    Caps caps{};
    // "host3", for people.
    std::function<std::string(int rank)> host{};
};

// Takes the transports over that make the paths; they keep the rules 8 to 13 of transport.h.
std::unique_ptr<Transport> make_link_transport(const Params& params, Counters& counters,
                                               LinkOptions options,
                                               std::vector<std::unique_ptr<Transport>> paths);

}  // namespace pomona
