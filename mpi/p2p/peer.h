// mpi/p2p/peer.h: one other process of the job, as the engine sees it.
#pragma once

#include "btl/base/list.h"
#include "btl/base/queue.h"
#include "btl/transport.h"
#include "mpi/p2p/copy_choice.h"

#include <vector>

namespace pomona {

class P2pRequest;

// A piece of a large send that the endpoint has begun to take.
struct Piece {
    P2pRequest* send = nullptr;  // null: none
    size_t offset = 0;           // in the message, of what is left of it
    size_t rest = 0;             // so much is left
};

// A notice that could not be pushed yet.
struct KeptNotice {
    FrameHeader header;
    std::vector<std::byte> payload;
};

struct Peer {
    explicit Peer(int rank) : rank(rank) {}

    const int rank;                // in the job
    Endpoint* endpoint = nullptr;  // made at the first send, or later when it is not up yet
    size_t eager_limit = 0;        // messages of fewer bytes are sent without asking
    size_t eager_limit_open = 0;   // eager_limit while the peer has not asked us to hold back
    // Messages of fewer bytes are always over when they are pushed: others may stay where they are.
    size_t held_from = 0;
    size_t held_from_open = 0;
    bool gone = false;     // dead or given up: nothing is sent to it any more
    bool failed = false;   // gone, and its operations have been failed (Engine::fail_peer)
    bool refuses = false;  // a push said that it is gone; Sink::gone has not been called yet
    Error why{};           // why it is gone
    // While it has not published where it is: when to look it up again, and how long that goes on.
    Nanoseconds connect_again = 0, connect_until = 0;
    int error_gone() const;  // the class of errors of its operations
    const char* why_gone() const { return why.what[0] ? why.what : "The other process has ended"; }

    // What could not be pushed yet, in this order of precedence. Frames of `control` (cts, ack)
    // carry no matching order, nor do `notices` (mpi/p2p/notice.h); `backlog` keeps the order of
    // sends; `streams` are large sends whose receiver has said yes, one after the other.
    Queue<FrameHeader> control;
    Queue<KeptNotice> notices;
    List<P2pRequest> backlog;
    List<P2pRequest> streams;
    Piece piece{};  // that `endpoint` has begun to take: nothing else passes there
    // Receives whose data can be read from this peer's memory, one after the other, and how many
    // it was asked to send instead.
    List<P2pRequest> readable;
    CopyChoice copy_choice;
    uint32_t asked_for = 0;
    size_t asked_for_bytes = 0;
    uint32_t large_outgoing = 0;     // sends to it that have asked and are not over
    Nanoseconds large_finished = 0;  // when the last measured message from here was over
    bool queued = false;             // in Engine's list of peers with something waiting

    // Bytes of this peer's messages that wait here for their receive.
    size_t unexpected_bytes = 0;
    bool held_back = false;  // has been told to ask first
};

}  // namespace pomona
