// mpi/p2p/notice.h: what processes tell each other beside messages: that a communicator is revoked,
// and the words of an agreement (mpi/runtime/consensus.h).
// Idea: a frame of its own kind, without matching, which the receiver's engine hands to whoever
// listens.
#pragma once

#include "mpi/p2p/header.h"

namespace pomona {

struct Peer;

// The tag of a notice's header; `context` names the communicator.
enum class Notice : int32_t {
    revoke = 1,        // no payload
    contribution = 2,  // the words of mpi/runtime/consensus.cc; token: number of the agreement
    decision = 3,
    call = 4,  // of a collective, to who compares (mpi/check/collective_check.h); token: its number
    verdict = 5  // what came of that
};

// Called by the engine, which is held.
class NoticeListener {
public:
    virtual void notice(Peer& from, const Header& header, ConstBytes payload) = 0;
    // Once for each process that has failed, from turn().
    virtual void failed(Peer& peer) = 0;

protected:
    ~NoticeListener() = default;
};

}  // namespace pomona
