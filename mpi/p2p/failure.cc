// mpi/p2p/failure.cc: what happens to operations whose peer is gone, or sent what it must not.
// The rule: gone() only marks the peer; its operations fail at the end of the next turn(), when no
// function that uses them is on the stack. So whoever pushes, connects or answers may go on using
// requests and lists afterwards. A push that says `gone` marks nothing, since frames that the peer
// sent before may still be on the way to here: it counts as `busy` until the transport calls gone().
#include "mpi/p2p/engine.h"

#include "btl/base/log.h"
#include "mpi/object/communicator.h"

namespace pomona {

void Engine::protocol_error(Peer& peer, const char* what) {
    LOG(error, mpi, "Rank {} sent what it must not: {}; its connection is given up", peer.rank,
        what);
    Error why{Code::malformed, what, peer.rank};
    // Bytes may be under way to places that are not ours any more once its receives have failed.
    if (peer.endpoint) peer.endpoint->abandon(why);
    gone(peer.rank, why);
}

void Engine::gone(int rank, const Error& why) {
    Peer& peer = *peers_[rank];
    if (peer.gone) return;
    peer.gone = true;
    peer.why = why;
    queue(peer);
}

// No more can be pushed to this peer now. Returns `moved`.
bool Engine::stop_draining(Peer& peer, Push push, bool moved) {
    if (push == Push::gone) peer.refuses = true;
    return moved;
}

// Drops the questions of a lost peer that no receive has met: their data cannot come any more. Its
// messages that are here as a whole stay.
void Engine::drop_questions(const Peer& peer) {
    auto is_question = [&](const Message& message) {
        return message.peer == &peer && message.header.kind == FrameKind::rts;
    };
    for (auto& [context, matching] : matchers_)
        while (Message* message = matching->find_kept(is_question)) {
            matching->take(*message);
            message->release();
        }
}

P2pRequest* Engine::operation_with(const Peer& peer) {
    P2pRequest* found = nullptr;
    operations_.each([&](P2pRequest& each) {
        if (each.peer == &peer) found = &each;
    });
    return found;
}

// A posted receive that names this peer; those of any source go on waiting for the others.
P2pRequest* Engine::take_posted_from(const Peer& peer) {
    for (auto& [context, matching] : matchers_) {
        P2pRequest* found = nullptr;
        matching->each_posted([&](P2pRequest& recv) {
            bool names = recv.completion ? recv.peer == &peer
                                         : recv.rank >= 0 && recv.comm_->peers[recv.rank] == &peer;
            if (names) found = &recv;
        });
        if (!found) continue;
        matching->withdraw(*found);
        return found;
    }
    return nullptr;
}

// Fails everything that can only end with this peer's help.
void Engine::fail_peer(Peer& peer) {
    peer.failed = true;
    peer.control.clear();
    peer.piece = {};
    const char* reason = peer.why_gone();
    auto fail_list = [&](List<P2pRequest>& list) {
        while (P2pRequest* send = list.pop_front()) fail(*send, MPI_ERR_PROC_ABORTED, reason);
    };
    leave_expected();
    drop_questions(peer);
    std::erase_if(withdrawn_, [&](auto& each) { return each.second == &peer; });
    fail_list(peer.backlog);
    fail_list(peer.streams);
    fail_list(peer.pulls);
    // Failing one may end others (a schedule cancels its steps, a communicator goes), so the next one
    // is looked for anew each time.
    while (P2pRequest* lost = operation_with(peer)) fail(*lost, MPI_ERR_PROC_ABORTED, reason);
    while (P2pRequest* posted = take_posted_from(peer)) fail(*posted, MPI_ERR_PROC_ABORTED, reason);
    boards.fail_gone();
    notify();
}

}  // namespace pomona
