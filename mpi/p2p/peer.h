// mpi/p2p/peer.h: one other process of the job, as the engine sees it.
#pragma once

#include "btl/base/list.h"
#include "btl/transport.h"

#include <deque>

namespace pomona {

class P2pRequest;

struct Peer {
    explicit Peer(int rank) : rank(rank) {}

    const int rank;                 // in the job
    Endpoint* endpoint = nullptr;   // made at the first send
    size_t eager_max = 0;           // above it a message asks first
    bool gone = false;
    Error why{};                    // why it is gone

    // What could not be pushed yet, in this order of precedence. Frames of `control` (cts, ack) carry
    // no matching order; `backlog` keeps the order of sends; `streams` are large sends whose
    // receiver has said yes, taking turns.
    std::deque<FrameHeader> control;
    List<P2pRequest> backlog;
    List<P2pRequest> streams;
    bool queued = false;            // in Engine's list of peers with something waiting

    // Bytes of this peer's messages that wait here for their receive.
    size_t unexpected_bytes = 0;
};

}  // namespace pomona
