// mpi/p2p/failure.cc: what happens to operations whose peer is gone, or sent what it must not.
// The rule: gone() only marks the peer; its operations fail at the end of the next turn(), when no
// function that uses them is on the stack. So whoever pushes, connects or answers may go on using
// requests and lists afterwards. A push that says `gone` marks nothing, since frames that the peer
// sent before may still be on the way to here: it counts as `busy` until the transport calls
// gone(). What can only end by a message of the lost one fails at once. A receive of any source
// might still be met: it is stalled, which ends waiting for it, until the user acknowledges.
// Revoked communicators: in their contexts no message meets a receive any more. Whoever still asks
// (rts, synchronous) is told `revoked`, also later, so that each question has one answer; what was
// met goes on to its end.
#include "mpi/p2p/engine.h"

#include "btl/base/log.h"
#include "mpi/object/communicator.h"

#include <algorithm>
#include <utility>

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

// A peer that cannot be reached for want of memory has not failed.
int Peer::error_gone() const {
    return why.code == Code::out_of_memory ? MPI_ERR_NO_MEM : MPIX_ERR_PROC_FAILED;
}

// Fails everything that can only end with this peer's help.
void Engine::fail_peer(Peer& peer) {
    peer.failed = true;
    bool known = std::find(failed_.begin(), failed_.end(), peer.rank) != failed_.end();
    if (!known) failed_.push_back(peer.rank);
    peer.control.clear();
    peer.notices.clear();
    peer.piece = {};
    int error = peer.error_gone();
    const char* reason = peer.why_gone();
    auto fail_list = [&](List<P2pRequest>& list) {
        while (P2pRequest* send = list.pop_front()) fail(*send, error, reason);
    };
    leave_expected();
    drop_questions(peer);
    std::erase_if(withdrawn_, [&](auto& each) { return each.second.peer == &peer; });
    fail_list(peer.backlog);
    fail_list(peer.streams);
    fail_list(peer.readable);
    // Failing one may end others (a schedule cancels its steps, a communicator goes), so the next
    // one is looked for anew each time.
    while (P2pRequest* lost = operation_with(peer)) fail(*lost, error, reason);
    while (P2pRequest* posted = take_posted_from(peer)) fail(*posted, error, reason);
    stall_receives_of(peer);
    boards.fail_gone();
    lose(peer);
    notify();
}

// Ends the collectives of the communicators that it is a member of.
void Engine::lose(const Peer& peer) {
    std::vector<Ref<Communicator>> all;  // ending some may free others
    for (auto& [context, matching] : matchers_)
        if (Communicator* comm = matching->comm)
            if (comm->group->find(peer.rank) >= 0 ||
                (comm->remote_group && comm->remote_group->find(peer.rank) >= 0))
                all.push_back(Ref<Communicator>::share(comm));
    for (auto& comm : all) comm->lose(peer.rank);
}

// ---- receives of any source

std::vector<int> Engine::failed_of(const Communicator& comm) const {
    std::vector<int> found;
    for (int rank : failed_)
        if (comm.group->find(rank) >= 0 ||
            (comm.remote_group && comm.remote_group->find(rank) >= 0))
            found.push_back(rank);
    return found;
}

bool Engine::unacknowledged(const Communicator& comm) const {
    return !failed_.empty() && failed_of(comm).size() > comm.acknowledged;
}

void Engine::stall(P2pRequest& recv) {
    recv.simple = false;  // so that deliver() sees it
    recv.plain_ = false;  // so that reporting its end looks closer
    recv.outcome_.error = MPIX_ERR_PROC_FAILED_PENDING;
    recv.outcome_.reason = kMaybeSender;
    if (&recv == awaited_) enough = true;
    // Release: publishes the outcome to whoever waits.
    recv.done_.store(Request::kStalled, std::memory_order_release);
    if (recv.parent || recv.callback_function) fail_stalled(recv);  // nobody can go on with it
    else notify();
}

// As it was before it was stalled.
void Engine::refresh(P2pRequest& recv) {
    recv.outcome_ = {};
    recv.done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
}

void Engine::fail_stalled(P2pRequest& recv) {
    refresh(recv);
    recv.comm_->matcher->withdraw(recv);
    fail(recv, MPIX_ERR_PROC_FAILED, kMaybeSender);
}

void Engine::end_stalled(P2pRequest& recv) {
    {
        Hold hold(*this);
        if (recv.stalled()) fail_stalled(recv);
    }
    wait(recv);  // another thread may have met it with a message
}

void Engine::stall_receives_of(const Peer& peer) {
    for (bool again = true; again;) {
        P2pRequest* found = nullptr;
        for (auto& [context, matching] : matchers_) {
            Communicator* comm = matching->comm;
            if (!comm || found ||
                std::find(comm->peers.begin(), comm->peers.end(), &peer) == comm->peers.end())
                continue;
            matching->each_posted([&](P2pRequest& recv) {
                if (!recv.completion && recv.rank == MPI_ANY_SOURCE && !recv.stalled())
                    found = &recv;
            });
        }
        again = found != nullptr;
        if (found) stall(*found);  // which may end others
    }
}

void Engine::resume_stalled(Communicator& comm) {
    if (unacknowledged(comm)) return;
    comm.matcher->each_posted([&](P2pRequest& recv) {
        if (recv.stalled()) refresh(recv);
    });
}

// ---- notices

void Engine::push_notice(Peer& peer, const Header& header, ConstBytes payload) {
    if (peer.gone || (!peer.endpoint && !connect(peer) && peer.gone)) return;
    if (peer.endpoint && peer.notices.empty()) {
        Push push = peer.endpoint->push(header.pack(), payload);
        if (push == Push::sent) return;
        if (push == Push::gone) peer.refuses = true;
    }
    peer.notices.push_back({header.pack(), {payload.begin(), payload.end()}});
    queue(peer);
}

bool Engine::drain_notices(Peer& peer) {
    bool moved = false;
    while (!peer.notices.empty()) {
        KeptNotice& next = peer.notices.front();
        Push push = peer.endpoint->push(next.header, next.payload);
        if (push != Push::sent) return stop_draining(peer, push, moved);
        peer.notices.pop_front();
        moved = true;
    }
    return moved;
}

// ---- revoked communicators

// A message of a revoked context: its sender must not wait for an answer.
void Engine::refuse(Peer& peer, const Header& header) {
    bool asks = header.kind == FrameKind::rts || header.flags & kFlagSync;
    if (asks) push_control(peer, {0, 0, 0, 0, FrameKind::revoked, 0, header.token});
}

void Engine::refuse_kept(Matcher& matching) {
    while (Message* kept = matching.find_kept([](const Message&) { return true; })) {
        matching.take(*kept);
        Peer& peer = *kept->peer;
        peer.unexpected_bytes -= kept->length + sizeof(Message);
        if (peer.held_back && peer.unexpected_bytes < params_.unexpected_max / 2) {
            peer.held_back = false;
            push_control(peer, {0, 0, 0, 0, FrameKind::resume, 0, 0});
        }
        refuse(peer, kept->header);
        kept->release();
    }
}

// Sends whose first frame has not left.
void Engine::fail_unasked(uint64_t context) {
    for (size_t i = 0; i < peers_.size();) {
        List<P2pRequest>& backlog = peers_[i]->backlog;
        P2pRequest* found = backlog.front();
        while (found && found->context != context) found = backlog.next(found);
        if (!found) {
            ++i;
            continue;
        }
        List<P2pRequest>::remove(found);
        fail(*found, MPIX_ERR_REVOKED, kRevokedText);
    }
}

void Engine::revoke(uint64_t context) {
    for (uint64_t each : {context, context | 1}) {
        if (std::exchange(matcher(each).revoked, true)) continue;
        if (Communicator* comm = matcher(each).comm) comm->become_revoked();
        // Failing one may end others and make or drop matchers.
        for (P2pRequest* posted = nullptr;; fail(*posted, MPIX_ERR_REVOKED, kRevokedText)) {
            posted = nullptr;
            matcher(each).each_posted([&](P2pRequest& recv) { posted = &recv; });
            if (!posted) break;
            if (posted->stalled()) refresh(*posted);
            matcher(each).withdraw(*posted);
        }
        fail_unasked(each);
        refuse_kept(matcher(each));
    }
    leave_expected();
    notify();
}

}  // namespace pomona
