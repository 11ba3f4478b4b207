// mpi/p2p/withdraw.cc: operations that are taken back: MPI_Cancel, and steps of a collective that
// failed.
// Idea: what nobody else knows of is simply taken out. A send whose first frame is out asks its
// peer to drop the message (`withdraw`). The peer answers `withdrawn` where no receive has met it;
// else what answers the message itself is on the way. Where the data has not left and nobody may
// read it here, the send ends at once, and that answer meets a refusal. Else it tells that it was
// too late.
// MPI_Wait after MPI_Cancel must not wait for others (MPI 5.0, 3.8.4). So sends that MPI_Cancel may
// name are either not there yet (those above, and synchronous ones, which ask first), or offered by
// a word that both ends reach (btl/send_offer.h), or their receive has met them: then nothing of
// them has left and they are refused, or a copy of them goes on.
#include "btl/base/clock.h"
#include "mpi/object/communicator.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/user_buffer.h"

#include <new>
#include <sched.h>

namespace pomona {

static constexpr const char* kPartFailed = "Another part of the collective failed";

void Engine::cancel(P2pRequest& request) {
    if (request.stalled()) refresh(request);
    if (request.done() || !request.active) return;
    if (request.matched) {
        // A receive whose message turns out to be cancelled is so too (forget_met()).
        request.withdrawing |= !request.is_send;
        if (request.is_send && request.cancellable) cancel_met(request);
        return;
    }
    if (request.is_send) {
        if (request.offered && cancel_offered(request)) return;
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

// ---- sends that are offered

// The word of a message; none where there is no such memory.
std::optional<SendOffer> Engine::offer_from(Peer& peer, uint64_t token) {
    if (!peer.endpoint) connect(peer);
    auto* word =
        peer.endpoint ? peer.endpoint->offer_of_peer(static_cast<uint32_t>(token)) : nullptr;
    if (!word) return std::nullopt;
    return SendOffer(*word, static_cast<uint32_t>(token >> 32));
}

bool Engine::offer(Peer& peer, P2pRequest& send) {
    if (!send.token) send.token = operations_.add(&send);
    auto* word = peer.endpoint->own_offer(static_cast<uint32_t>(send.token));
    if (word) SendOffer(*word, static_cast<uint32_t>(send.token >> 32)).make();
    return send.offered = word != nullptr;
}

// The peer's message may be read. A peer whose word cannot be reached is gone, and takes nothing
// back.
bool Engine::take_offer(Peer& peer, uint64_t token) {
    auto offer = offer_from(peer, token);
    return !offer || offer->take();
}

void Engine::leave_offer(Peer& peer, uint64_t token, SendOffer::State state) {
    if (auto offer = offer_from(peer, token)) offer->leave(state);
}

bool Engine::receive_offer(Peer& peer, uint64_t token) {
    auto offer = offer_from(peer, token);
    return !offer || offer->receive();
}

// The message that a receive has met was taken back.
void Engine::pass_over(P2pRequest& recv, Peer& peer, uint64_t token) {
    push_control(peer, {0, 0, 0, 0, FrameKind::withdrawn, 0, token});
    recv.peer = &peer;
    forget_met(recv);
}

// False where the peer is at it for too long: then its answer is waited for.
bool Engine::cancel_offered(P2pRequest& send) {
    Peer& peer = *send.peer;
    if (!send.asked) return false;
    SendOffer word(*peer.endpoint->own_offer(static_cast<uint32_t>(send.token)),
                   static_cast<uint32_t>(send.token >> 32));
    SendOffer::State state = word.withdraw();
    // A piece is read in less than a millisecond, but its reader may have lost its core. Where
    // others want this one, too, a yield may take as long as their turns.
    constexpr int kYieldsMost = 20'000;
    constexpr Nanoseconds kLongest = 100'000'000;
    RealClock clock;
    Nanoseconds end = clock.now() + kLongest;
    for (int i = 0; state == SendOffer::State::reading && i < kYieldsMost && clock.now() < end;
         ++i) {
        sched_yield();
        state = word.withdraw();
    }
    if (state != SendOffer::State::received && state != SendOffer::State::withdrawn) return false;
    bool withdrawn = state == SendOffer::State::withdrawn;
    uint64_t token = send.token;
    if (withdrawn) withdraw(send, 0);
    withdrawn_.insert({token, {&peer, kFlagCancelled}});  // its answer is on the way, or will be
    send.outcome_.cancelled = withdrawn;
    if (withdrawn) return finish_p2p(send), true;
    send.offset = send.bytes;
    if (send.readable) count(counters_.bytes_sent, send.bytes);
    sent(send);
    return true;
}

// ---- sends that were met, and whose receiver does not go on

namespace {
// What is left of a send that is over for its user.
struct Copy : coll::Completion {
    explicit Copy(size_t length) : data(new std::byte[length]) {
        function = [](coll::Completion* self, const Error*) { delete static_cast<Copy*>(self); };
    }
    std::unique_ptr<std::byte[]> data;
};
}  // namespace

// Memory that is lacking is no reason to fail: then the send goes on as it is.
void Engine::cancel_met(P2pRequest& send) try {
    Peer& peer = *send.peer;
    if (peer.endpoint && peer.endpoint->takes_bulk()) {
        uint64_t token = send.token;
        if (token && peer.endpoint->copy_bulk(token)) released(peer.rank, token);
    } else if (send.linked() && send.offset == 0) {
        send.outcome_.cancelled = refuse_rest(send, kFlagCancelled);
        finish_p2p(send);
    } else if (send.linked()) {
        go_on_by_copy(send);
    }
} catch (const std::bad_alloc&) {}

// Another request takes the place of a stream that is under way.
void Engine::go_on_by_copy(P2pRequest& send) {
    auto copy = std::make_unique<Copy>(send.accepted);
    size_t begin = send.offset - send.rest;
    Bytes left{copy->data.get() + begin, send.accepted - begin};
    if (is_plain(send)) std::memcpy(left.data(), byte_at(send, begin), left.size());
    else send.type->pack(send.buffer, send.count, begin, left);
    Peer& peer = *send.peer;
    auto* rest = new P2pRequest(nullptr);  // goes to the pool
    rest->engine = this;
    rest->is_send = rest->asked = rest->matched = rest->active = true;
    rest->context = send.context;
    rest->source = send.source;
    rest->tag = send.tag;
    rest->peer = &peer;
    rest->buffer = copy->data.get();
    rest->bytes = send.bytes;
    rest->accepted = send.accepted;
    rest->offset = send.offset;
    rest->rest = send.rest;
    rest->work = send.work;
    rest->remote_token = send.remote_token;
    rest->outgoing = std::exchange(send.outgoing, false);
    rest->token = std::exchange(send.token, 0);
    rest->completion = copy.release();
    operations_.replace(rest->token, rest);
    List<P2pRequest>::insert_before(&send, rest);
    List<P2pRequest>::remove(&send);
    if (peer.piece.send == &send) peer.piece.send = rest;
    send.offset = send.bytes;
    sent(send);
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
    if (recv.asked_for) was_asked_for(recv);
    if (recv.token) operations_.remove(recv.token);
    whole_.erase(recv.token);
    recv.token = recv.remote_token = 0;
    recv.offered = false;
    recv.accepted = 0;
    recv.matched = recv.measured = false;
    recv.peer = nullptr;
    recv.outcome_ = {};
    receive_from_now(recv, &Matcher::post_again);
}

}  // namespace pomona
