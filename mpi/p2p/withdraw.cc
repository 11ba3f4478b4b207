// mpi/p2p/withdraw.cc: operations that are taken back: MPI_Cancel, and steps of a collective that
// failed.
// Idea: what nobody else knows of is simply taken out. A send whose first frame is out asks its
// peer to drop the message (`withdraw`). The peer answers `withdrawn` where no receive has met it;
// else what answers the message itself is on the way. Where the data has not left and nobody may
// read it here, the send ends at once, and that answer meets a refusal. Else it tells that it was
// too late, and the send waits for it: it comes as soon as the peer's engine turns.
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"

namespace pomona {

static constexpr const char* kPartFailed = "Another part of the collective failed";

void Engine::cancel(P2pRequest& request) {
    if (request.stalled()) refresh(request);
    if (request.done() || !request.active) return;
    if (request.matched) {
        // A receive whose message turns out to be cancelled is so too (forget_met()).
        request.withdrawing |= !request.is_send;
        return;
    }
    if (request.is_send) {
        if (request.asked) {
            withdraw(request, 0);
            if (!request.outgoing || request.readable) return;
            withdrawn_.insert({request.token, {request.peer, kFlagCancelled}});
        } else if (request.linked()) {
            List<P2pRequest>::remove(&request);
        } else {
            return;
        }
    } else {
        request.comm_->matcher->withdraw(request);
    }
    request.outcome_.cancelled = true;
    finish_p2p(request);
}

// Asks the peer to drop a message that it has been told of.
void Engine::withdraw(P2pRequest& send, uint8_t told) {
    if (send.withdrawing || !send.token) return;
    send.withdrawing = true;
    send.told = told;
    push_control(*send.peer,
                 {send.context, send.source, send.tag, 0, FrameKind::withdraw, told, send.token});
}

// ---- steps of collective schedules

void Engine::cancel_step(uint64_t context, coll::Completion& done, uint8_t told) {
    P2pRequest* found = find_step(context, done);
    if (!found) return;
    if (found->is_send && found->asked) {
        if (found->matched ? !refuse_rest(*found, told) : (withdraw(*found, told), found->readable))
            return;
        if (!found->matched) withdrawn_.insert({found->token, {found->peer, told}});
    } else if (found->is_send) {
        List<P2pRequest>::remove(found);
    } else {
        matcher(context).withdraw(*found);
    }
    fail(*found, MPIX_ERR_PROC_FAILED, kPartFailed);
}

// A posted receive, a send in a backlog, or one that has asked.
P2pRequest* Engine::find_step(uint64_t context, const coll::Completion& done) {
    P2pRequest* found = nullptr;
    auto look_at = [&](P2pRequest& each) {
        if (each.completion == &done) found = &each;
    };
    matcher(context).each_posted(look_at);
    for (size_t i = 0; !found && i < peers_.size(); ++i) {
        List<P2pRequest>& backlog = peers_[i]->backlog;
        for (P2pRequest* each = backlog.front(); each && !found; each = backlog.next(each))
            look_at(*each);
    }
    if (!found)
        operations_.each([&](P2pRequest& each) {
            if (each.is_send) look_at(each);
        });
    return found;
}

// A send that the peer has accepted, between two pieces: the peer gets no more of it. False when it
// has to go on.
bool Engine::refuse_rest(P2pRequest& send, uint8_t told) {
    Peer& peer = *send.peer;
    if (!send.linked() || send.rest != 0) return false;
    List<P2pRequest>::remove(&send);
    push_control(peer, {send.remote_token, 0, 0, 0, FrameKind::refused, told, 0});
    return true;
}

// A receive in a collective in which the sender failed.
void Engine::fail_part(P2pRequest& recv, uint8_t told) {
    if (told & kFlagFailure)
        return fail(recv, MPIX_ERR_PROC_FAILED,
                    "A member left this operation, as a process has failed");
    fail(recv, MPI_ERR_OTHER, "A member failed in its part of this collective");
}

// Is this the number of a send that ended here? Then what the peer was told. It is asked once: by
// the peer's answer.
std::optional<uint8_t> Engine::was_withdrawn(const Peer& peer, uint64_t token) {
    auto found = withdrawn_.find(token);
    if (found == withdrawn_.end() || found->second.peer != &peer) return std::nullopt;
    uint8_t told = found->second.told;
    withdrawn_.erase(found);
    return told;
}

// ---- frames

void Engine::arrive_withdraw(Peer& peer, const Header& header) {
    auto found = matchers_.find(header.context);
    if (found == matchers_.end() || !header.token) return;
    Message* message = found->second->find_kept([&](const Message& each) {
        return each.peer == &peer && each.header.token == header.token;
    });
    if (!message) return;  // met: its answer is on the way
    if (header.flags & kFlagLost) {
        // Stays, without its data, for the receive that is still to come.
        peer.unexpected_bytes -= message->length;
        message->drop_bytes();
        message->header.kind = FrameKind::eager;
        message->header.flags = header.flags & (kFlagLost | kFlagFailure);
        message->header.length = message->header.token = 0;
    } else {
        found->second->take(*message);
        forget_kept(*message);
        message->release();
    }
    push_control(peer, {0, 0, 0, 0, FrameKind::withdrawn, 0, header.token});
}

void Engine::arrive_withdrawn(Peer& peer, const Header& header) {
    if (was_withdrawn(peer, header.token)) return;
    P2pRequest* send = operations_.find(header.token);
    if (!send || !send->withdrawing || send->peer != &peer || send->matched)
        return protocol_error(peer, "A withdrawn message names no send");
    if (send->completion) return fail(*send, MPIX_ERR_PROC_FAILED, kPartFailed);
    send->outcome_.cancelled = true;
    finish_p2p(*send);
}

void Engine::arrive_refused(Peer& peer, const Header& header) {
    P2pRequest* recv = operations_.find(header.context);
    if (!recv || recv->is_send || recv->peer != &peer || recv->rest != 0)
        return protocol_error(peer, "A refusal names no receive");
    if (header.flags & kFlagCancelled) return forget_met(*recv);
    fail_part(*recv, header.flags);
}

// The message that a receive has met was cancelled before any of it left. The receive takes another
// one, as if it had not met this.
void Engine::forget_met(P2pRequest& recv) {
    if (recv.offset != 0 || recv.completion)
        return protocol_error(*recv.peer, "A message was cancelled after its data");
    if (recv.of_mprobe)
        return fail(recv, MPI_ERR_OTHER,
                    "The sender cancelled the message after MPI_Mprobe had found it");
    if (recv.withdrawing) {
        recv.outcome_ = {};
        recv.outcome_.cancelled = true;
        return finish_p2p(recv);
    }
    operations_.remove(recv.token);
    recv.token = recv.remote_token = 0;
    recv.accepted = 0;
    recv.matched = recv.measured = false;
    recv.peer = nullptr;
    recv.outcome_ = {};
    receive_from_now(recv, &Matcher::post_again);
}

}  // namespace pomona
