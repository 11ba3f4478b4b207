// mpi/p2p/engine.cc: sends, receives, probes and the frames they cause.
// How messages travel: mpi/p2p/header.h. Large ones: mpi/p2p/large.cc. Peers, and what waits for
// them: mpi/p2p/peers.cc. Waiting and threads: mpi/p2p/progress.cc. Peers that are lost:
// mpi/p2p/failure.cc. Taking back: mpi/p2p/withdraw.cc. Steps of collectives: mpi/p2p/steps.cc.
#include "mpi/p2p/engine.h"

#include "btl/base/check.h"
#include "mpi/object/lifetime.h"
#include "mpi/p2p/user_buffer.h"

#include <cstring>

namespace pomona {

static std::byte* start_of(const Data& data) {
    return static_cast<std::byte*>(data.buffer) + data.type->true_lb();
}

// ---- requests

[[gnu::always_inline]] inline P2pRequest* Engine::make_here(Communicator& comm, const Data& data,
                                                            Envelope envelope) {
    P2pRequest* request = take();
    fill(*request, comm, data, envelope);
    if (outlives(comm)) comm.retain();
    if (outlives(*data.type)) const_cast<Datatype*>(data.type)->retain();
    return request;
}

P2pRequest* Engine::make(Communicator& comm, Data data, Envelope envelope) {
    return make_here(comm, data, envelope);
}

[[gnu::always_inline]] inline void Engine::fill(P2pRequest& request, Communicator& comm,
                                                const Data& data, Envelope envelope) {
    request.engine = this;
    request.comm_ = &comm;
    request.context = comm.context();
    request.source = comm.rank();
    request.rank = envelope.rank;
    request.tag = envelope.tag;
    request.buffer = data.buffer;
    request.count = data.count;
    request.type = data.type;
    request.bytes = static_cast<size_t>(data.count) * static_cast<size_t>(data.type->size());
}

// A request nobody refers to goes back to the pool.
void Engine::recycle(P2pRequest* request) {
    if (request == sent_request_.get()) {  // a program that completes a handle's copies
        request->references_.store(1, std::memory_order_relaxed);
        return;
    }
    Communicator* comm = request->comm_;
    const Datatype* type = request->type;
    request->enter_pool();
    if (pool_.size() < 4096) pool_.push_back(request);
    else delete request;
    if (type && outlives(*type)) const_cast<Datatype*>(type)->release();
    if (comm && outlives(*comm)) comm->release();
}

void Engine::adopt(P2pRequest& request, Communicator& comm, const Data& data, Envelope envelope) {
    fill(request, comm, data, envelope);
    if (outlives(comm)) comm.retain();
    if (outlives(*data.type)) const_cast<Datatype*>(data.type)->retain();
}

void Engine::let_go(P2pRequest& request) {
    Communicator* comm = request.comm_;
    if (outlives(*request.type)) const_cast<Datatype*>(request.type)->release();
    if (outlives(*comm)) comm->release();
}

void P2pRequest::recycle() {
    Engine::Hold hold(*engine);
    engine->recycle(this);
}
void P2pRequest::recycle_held() { engine->recycle(this); }

int P2pRequest::start() {
    engine->start(*this);
    return MPI_SUCCESS;
}

void P2pRequest::cancel() { engine->cancel(*this); }

// ---- sends

// The whole of most small sends: no request is made. False when it takes more. `limit`: of the
// peer, which the message must be shorter than.
inline bool Engine::send_at_once(Communicator& comm, const Data& data, Envelope to, SendMode mode,
                                 size_t Peer::*limit) {
    Peer& peer = *comm.peers[to.rank];
    size_t bytes = static_cast<size_t>(data.count) * static_cast<size_t>(data.type->size());
    if (mode == SendMode::synchronous || bytes >= peer.*limit || !peer.backlog.empty() ||
        !peer.endpoint || !data.type->contiguous())
        return false;
    Header header{comm.context(), comm.rank(), to.tag, bytes, FrameKind::eager, 0, 0};
    if (peer.endpoint->push(header.pack(), {start_of(data), bytes}) != Push::sent) return false;
    count(counters_.messages_sent);
    count(counters_.bytes_sent, bytes);
    leave_turns();
    return true;
}

// What non-blocking sends return that were over at once: one request for all of them, as it says
// nothing of any.
P2pRequest* Engine::sent_request() {
    if (!sent_request_) {
        sent_request_ = std::make_unique<P2pRequest>(nullptr);
        sent_request_->engine = this;
        sent_request_->is_send = true;
        sent_request_->done_.store(1, std::memory_order_relaxed);  // never anything else
    }
    sent_request_->retain();
    return sent_request_.get();
}

bool Engine::send_now(Communicator& comm, const Data& data, Envelope to) {
    return send_at_once(comm, data, to, SendMode::standard, &Peer::eager_limit);
}

Outcome Engine::send(Communicator& comm, Data data, Envelope to, SendMode mode) {
    {
        Hold hold(*this);
        if (send_at_once(comm, data, to, mode, &Peer::eager_limit)) return pass(), Outcome{};
    }
    P2pRequest request(&comm);
    fill(request, comm, data, to);
    request.is_send = true;
    request.mode = mode;
    {
        Hold hold(*this);
        begin_send(request);
    }
    wait(request);
    return request.outcome();
}

P2pRequest* Engine::send_init(Communicator& comm, Data data, Envelope to, SendMode mode) {
    Hold hold(*this);
    P2pRequest* request = make(comm, data, to);
    request->is_send = true;
    request->mode = mode;
    request->persistent_ = true;
    request->inactive_ = true;
    request->cancellable = true;
    return request;
}

P2pRequest* Engine::isend(Communicator& comm, Data data, Envelope to, SendMode mode) {
    Hold hold(*this);
    if (send_at_once(comm, data, to, mode, &Peer::held_from)) return sent_request();
    P2pRequest* request = make(comm, data, to);
    request->is_send = true;
    request->mode = mode;
    request->cancellable = true;
    hold_for_engine(*request);
    begin_send(*request);
    leave_turns();
    return request;
}

void Engine::start(P2pRequest& request) {
    request.done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
    request.inactive_ = false;
    request.outcome_ = {};
    request.offset = request.accepted = request.rest = 0;
    request.matched = request.asked = request.readable = request.withdrawing = false;
    request.offered = false;
    request.work = 0;
    hold_for_engine(request);
    if (request.is_send) begin_send(request);
    else begin_recv(request);
    leave_turns();
}

// Completes, or puts the send where drain() continues it.
void Engine::begin_send(P2pRequest& send) {
    if (!send.peer) send.peer = send.comm_->peers[send.rank];
    Peer& peer = *send.peer;
    send.active = true;
    if (send.comm_ && send.comm_->revoked) return fail(send, MPIX_ERR_REVOKED, kRevokedText);
    if (peer.gone) return fail(send, peer.error_gone(), peer.why_gone());
    if (!peer.endpoint && !connect(peer) && peer.gone)
        return fail(send, MPIX_ERR_PROC_FAILED, "The destination cannot be reached");
    if (send.mode == SendMode::synchronous && !send.token) send.token = operations_.add(&send);
    if (peer.endpoint && peer.backlog.empty() && peer.control.empty()) {
        Push push = push_message(peer, send);
        if (push == Push::sent) return;
        if (push == Push::gone) peer.refuses = true;
    }
    count(counters_.sends_deferred);
    peer.backlog.push_back(&send);
    queue(peer);
}

// Pushes a send's first frame: the message itself, or the question.
Push Engine::push_message(Peer& peer, P2pRequest& send) {
    Header header{send.context, send.source, send.tag, send.bytes, FrameKind::eager, 0, send.types};
    if (send.bytes < peer.eager_limit || goes_unasked(peer, send))
        return push_eager(peer, send, header);
    return push_question(peer, send);
}

// Above the limit, where the transport says so at the moment.
bool Engine::goes_unasked(const Peer& peer, const P2pRequest& send) const {
    bool held_back = peer.eager_limit < peer.eager_limit_open;
    return !held_back && params_.eager_max == 0 && is_plain(send) &&
           send.bytes <= peer.endpoint->unasked_most();
}

Push Engine::push_eager(Peer& peer, P2pRequest& send, Header header) {
    if (send.mode == SendMode::synchronous) {
        if (send.types) return push_question(peer, send);  // the frame has no room for both
        // What has arrived could be taken back with the peer's help only.
        if (send.cancellable && !offer(peer, send)) return push_whole_question(peer, send, header);
        header.flags = kFlagSync | (send.offered ? kFlagOffered : 0);
        header.token = send.token;
    }
    if (is_plain(send) && send.bytes >= peer.held_from && send.mode != SendMode::synchronous)
        return push_held(peer, send, header);
    Push push = push_payload(peer, send, header);
    if (push == Push::sent && send.mode != SendMode::synchronous) sent(send);
    return push;
}

// A frame with the whole message behind it.
Push Engine::push_payload(Peer& peer, P2pRequest& send, const Header& header) {
    Push push;
    if (is_plain(send)) {
        push = peer.endpoint->push(header.pack(), {byte_at(send, 0), send.bytes});
    } else {
        push = peer.endpoint->push_fill(
            header.pack(), send.bytes,
            [](void* context, Bytes target) {
                auto* request = static_cast<P2pRequest*>(context);
                request->type->pack(request->buffer, request->count, 0, target);
            },
            &send);
    }
    if (push != Push::sent) return push;
    count(counters_.messages_sent);
    count(counters_.bytes_sent, send.bytes);
    send.offset = send.bytes;
    send.asked = true;
    return push;
}

// Where the transport may leave the bytes where they are. No receiver has to be found any more: so
// it cannot be cancelled.
Push Engine::push_held(Peer& peer, P2pRequest& send, const Header& header) {
    if (!send.token) send.token = operations_.add(&send);
    bool held = false;
    Push push =
        peer.endpoint->push_held(header.pack(), {byte_at(send, 0), send.bytes}, send.token, held);
    if (push != Push::sent) return push;
    count(counters_.messages_sent);
    send.accepted = send.bytes;
    send.asked = send.matched = true;
    if (!held) released(peer.rank, send.token);
    return push;
}

// All bytes of a send have left.
void Engine::sent(P2pRequest& send) {
    send.outcome_.bytes = static_cast<MPI_Count>(send.offset);
    finish_p2p(send);
}

// ---- receives

inline bool Engine::recv_expected(Communicator& comm, const Data& data, Envelope from,
                                  Outcome& outcome) {
    constexpr size_t kMost = 8 << 10;
    size_t room = static_cast<size_t>(data.count) * static_cast<size_t>(data.type->size());
    Matcher& matching = *comm.matcher;
    if (threaded_ || room > kMost || !data.type->contiguous() || matching.posted_count() != 0 ||
        matching.message_count() != 0 ||
        (from.rank >= 0 ? comm.peers[from.rank]->gone : !failed_.empty()))
        return false;
    Expected& expected = expecting_;
    expected = {comm.context(), from.rank, from.tag, start_of(data), 0, room, false, false, {}};
    expected_ = &expected;
    wait_until(ExpectedOver{this, &expected});
    outcome = expected.outcome;
    return expected.met;
}

// Is it what is waited for? What cannot be taken at once is kept as unexpected, where recv() finds
// it.
inline bool Engine::meets_expected(const Header& header, ConstBytes payload) {
    Expected& it = *expected_;
    if (header.context != it.context ||
        (header.source != it.source && it.source != MPI_ANY_SOURCE) ||
        (header.tag != it.tag && it.tag != MPI_ANY_TAG))
        return false;
    leave_expected();
    if (header.kind != FrameKind::eager || header.flags || payload.size() > it.room ||
        payload.size() < it.least)
        return false;
    count(counters_.messages_received);
    count(counters_.bytes_received, payload.size());
    copy_short(it.to, payload);
    it.outcome.source = header.source;
    it.outcome.tag = header.tag;
    it.outcome.bytes = static_cast<MPI_Count>(payload.size());
    return it.met = true;
}

Outcome Engine::recv(Communicator& comm, Data data, Envelope from) {
    Outcome outcome;
    if (recv_expected(comm, data, from, outcome)) return outcome;
    P2pRequest request(&comm);
    fill(request, comm, data, from);
    {
        Hold hold(*this);
        begin_recv(request);
    }
    wait(request);
    if (__builtin_expect(request.stalled(), 0)) end_stalled(request);
    return request.outcome();
}

P2pRequest* Engine::irecv(Communicator& comm, Data data, Envelope from) {
    Hold hold(*this);
    P2pRequest* request = make_here(comm, data, from);
    request->simple = data.type->contiguous();
    hold_for_engine(*request);
    // The whole of begin_recv() where no message is kept.
    bool any = __builtin_expect(from.rank < 0, 0);
    if (__builtin_expect(comm.matcher->message_count() != 0, 0) ||
        __builtin_expect(any ? !failed_.empty() : comm.peers[from.rank]->gone, 0)) {
        begin_recv(*request);
        return request;
    }
    request->active = true;
    comm.matcher->post(*request);
    return request;
}

P2pRequest* Engine::recv_init(Communicator& comm, Data data, Envelope from) {
    Hold hold(*this);
    P2pRequest* request = make(comm, data, from);
    request->persistent_ = true;
    request->inactive_ = true;
    return request;
}

void Engine::begin_recv(P2pRequest& recv) {
    recv.active = true;
    receive_from_now(recv, &Matcher::post);
}

// Takes a message that is kept, or is posted by `post`.
void Engine::receive_from_now(P2pRequest& recv, void (Matcher::*post)(P2pRequest&)) {
    Matcher& matching = recv.completion ? matcher(recv.context) : *recv.comm_->matcher;
    if (Message* message = matching.find_message(recv.rank, recv.tag)) {
        // In case that it turns out to be void.
        if (post == &Matcher::post) recv.order = matching.next_order();
        matching.take(*message);
        deliver_kept(recv, *message);
        message->release();
        return;
    }
    const Peer* source = recv.completion  ? recv.peer
                         : recv.rank >= 0 ? recv.comm_->peers[recv.rank]
                                          : nullptr;
    if (matching.revoked) return fail(recv, MPIX_ERR_REVOKED, kRevokedText);
    if (source && source->gone) {
        fail(recv, source->error_gone(), source->why_gone());
        return;
    }
    (matching.*post)(recv);
    if (!source && !failed_.empty() && unacknowledged(*recv.comm_)) stall(recv);
}

void Engine::deliver_kept(P2pRequest& recv, Message& message) {
    forget_kept(message);
    deliver(recv, *message.peer, message.header, {message.bytes, message.length});
}

// It is not among the unread messages of its sender any more.
void Engine::forget_kept(const Message& message) {
    Peer& peer = *message.peer;
    peer.unexpected_bytes -= message.length + sizeof(Message);
    if (peer.held_back && peer.unexpected_bytes < params_.unexpected_max / 2) {
        peer.held_back = false;
        push_control(peer, {0, 0, 0, 0, FrameKind::resume, 0, 0});
    }
}

// The whole of deliver() for most receives of users: a short message, one run of bytes.
inline void Engine::deliver_short(P2pRequest& recv, const Header& header, ConstBytes payload) {
    copy_short(byte_at(recv, 0), payload);
    recv.outcome_.source = header.source;
    recv.outcome_.tag = header.tag;
    recv.outcome_.bytes = static_cast<MPI_Count>(payload.size());
    recv.active = false;
    if (threaded_ || recv.callback_function) return complete(recv);
    if (&recv == awaited_) enough = true;
    recv.engine_refers_ = false;
    recv.done_.store(1, std::memory_order_release);
    release_held(recv);
}

// What the sender tells of its types.
static uint64_t types_of(const Header& header, ConstBytes payload) {
    if (header.kind == FrameKind::eager) return header.flags & kFlagSync ? 0 : header.token;
    if (header.flags & kFlagWhole || payload.size() != kPlaceAndTypesBytes) return 0;
    uint64_t types;
    std::memcpy(&types, payload.data() + kPlaceBytes, sizeof types);
    return types;
}

// A message and its receive have met.
void Engine::deliver(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes payload) {
    if (__builtin_expect(recv.stalled(), 0)) refresh(recv);
    if (__builtin_expect(header.flags & kFlagOffered, 0) && header.kind == FrameKind::eager &&
        !receive_offer(peer, header.token))
        return pass_over(recv, peer, header.token);
    recv.matched = true;
    recv.peer = &peer;
    recv.outcome_.source = header.source;
    recv.outcome_.tag = header.tag;
    size_t taken = std::min<size_t>(header.length, recv.bytes);
    if (taken < header.length) {
        recv.outcome_.error = MPI_ERR_TRUNCATE;
        recv.outcome_.reason = "The message is longer than the receive buffer";
    }
    if (recv.exact && header.length < recv.bytes) {
        bool lost = header.length == 0;  // see coll/carrier.h
        recv.outcome_.error = lost ? MPI_ERR_OTHER : MPI_ERR_TRUNCATE;
        recv.outcome_.reason = lost ? "A member failed in its part of this collective, or gave the "
                                      "count 0"
                                    : "A member gave another count or datatype to this collective";
    }
    recv.outcome_.bytes = static_cast<MPI_Count>(taken);
    if (__builtin_expect(recv.checked, 0)) recv.met(header, types_of(header, payload));
    if (__builtin_expect(header.kind == FrameKind::rts && peer.gone, 0))
        return fail(recv, peer.error_gone(), peer.why_gone());
    if (__builtin_expect(header.flags & kFlagLost, 0)) return fail_part(recv, header.flags);
    if (header.kind == FrameKind::eager) {
        unpack(recv, 0, payload.first(taken));
        if (header.flags & kFlagSync)
            push_control(peer, {0, 0, 0, 0, FrameKind::ack, 0, header.token});
        finish_p2p(recv);
        return;
    }
    if (header.flags & kFlagWhole) return hold_whole(recv, peer, header, payload.first(taken));
    recv.accepted = taken;
    recv.offered = header.flags & kFlagOffered;
    answer(recv, peer, header, payload);
}

// ---- completion

void Engine::finish_p2p(P2pRequest& request) {
    took_whole_ = true;
    if (request.token) {
        operations_.remove(request.token);
        if (!whole_.empty()) whole_.erase(request.token);
        request.token = 0;
        request.unsettled_ = false;
        if (request.outgoing) {
            request.outgoing = false;
            --request.peer->large_outgoing;
        }
        if (request.asked_for) was_asked_for(request);
    }
    request.active = false;
    if (coll::Completion* completion = request.completion) {
        // A step of a schedule: no user holds it.
        request.completion = nullptr;
        if (__builtin_expect(request.outcome_.error == MPI_SUCCESS, 1)) {
            recycle(&request);
            return completion->function(completion, nullptr);
        }
        int error = request.outcome_.error;
        bool lost = error == MPI_ERR_OTHER && !request.is_send;  // see deliver()
        Error why{error == MPI_ERR_TRUNCATE   ? Code::truncated
                  : error == MPI_ERR_NO_MEM   ? Code::out_of_memory
                  : error == MPIX_ERR_REVOKED ? Code::refused
                  : lost                      ? Code::data_lost
                                              : Code::peer_gone,
                  request.outcome_.reason ? request.outcome_.reason : "",
                  request.peer ? request.peer->rank : -1};
        recycle(&request);
        return completion->function(completion, &why);
    }
    if (Request* parent = request.parent) {
        parent->part_done(*this, request);
        request.recycle_held();
        return;
    }
    complete(request);
}

P2pRequest* Engine::prepare(Communicator& comm, Data data, Envelope envelope) {
    return make(comm, data, envelope);
}

void Engine::start_part(P2pRequest& part) {
    if (part.is_send) begin_send(part);
    else begin_recv(part);
}

void Engine::fail(P2pRequest& request, int error, const char* reason) {
    request.outcome_.error = error;
    request.outcome_.reason = reason;
    finish_p2p(request);
}

// ---- frames

inline void Engine::arrive_message(Peer& peer, const Header& header, ConstBytes payload) {
    count(counters_.messages_received);
    count(counters_.bytes_received, payload.size());
    Matcher& matching = matcher(header.context);
    if (P2pRequest* recv = matching.take_posted(header.source, header.tag)) {
        if (recv->simple && header.kind == FrameKind::eager && !header.flags &&
            payload.size() <= recv->bytes)
            return deliver_short(*recv, header, payload);
        return deliver(*recv, peer, header, payload);
    }
    if (__builtin_expect(matching.revoked, 0)) return refuse(peer, header);
    count(counters_.unexpected_messages);
    auto* message = new Message;
    message->header = header;
    message->peer = &peer;
    if (!payload.empty()) {
        message->length = payload.size();
        message->bytes = static_cast<std::byte*>(std::malloc(payload.size()));
        if (!message->bytes) never("Out of memory for an unexpected message");
        std::memcpy(message->bytes, payload.data(), payload.size());
    }
    matching.keep(*message);
    notify();  // parked threads may be probing
    peer.unexpected_bytes += payload.size() + sizeof(Message);
    if (peer.unexpected_bytes > params_.unexpected_max && !peer.held_back) {
        // Too much of it unread: from now on this peer asks before it sends anything.
        peer.held_back = true;
        push_control(peer, {0, 0, 0, 0, FrameKind::hold, 0, 0});
    }
}

void Engine::arrive(int rank, const FrameHeader& frame, ConstBytes payload) {
    Peer& peer = *peers_[rank];
    if (__builtin_expect(!plain_message(frame, payload.size()), 0))
        return arrive_frame(peer, frame, payload);
    took_whole_ = true;
    Header header = unpack_plain(frame);
    if (expected_ && meets_expected(header, payload)) return;
    arrive_message(peer, header, payload);
}

// What is no plain message. Not a part of arrive(), which has less to save without it.
void Engine::arrive_frame(Peer& peer, const FrameHeader& frame, ConstBytes payload) {
    if (frame.word[2] == kCarriedWord && carrier_)
        return carrier_->carry(peer.rank, frame, payload, *this);
    auto header = parse(frame, payload.size());
    if (!header) return protocol_error(peer, "A frame does not parse");
    // Many pieces of a long message may still come, by a line that is slower than this rank.
    bool piece = header->kind == FrameKind::data && peer.endpoint && peer.endpoint->is_line();
    took_whole_ |= !piece;
    // Of a lost peer only whole messages count.
    if (peer.gone && header->kind != FrameKind::eager) return;
    switch (header->kind) {
    case FrameKind::carried: return;  // parse() takes none
    case FrameKind::eager:
    case FrameKind::rts:
        if (expected_ && meets_expected(*header, payload)) return;
        return arrive_message(peer, *header, payload);
    case FrameKind::cts: return arrive_cts(peer, *header);
    case FrameKind::data: return arrive_data(peer, *header, payload);
    case FrameKind::pulled: return arrive_pulled(peer, *header);
    case FrameKind::settled: return arrive_settled(peer, *header);
    case FrameKind::withdraw: return arrive_withdraw(peer, *header);
    case FrameKind::withdrawn: return arrive_withdrawn(peer, *header);
    case FrameKind::refused: return arrive_refused(peer, *header);
    case FrameKind::hold: peer.eager_limit = peer.held_from = 0; return;
    case FrameKind::resume:
        peer.eager_limit = peer.eager_limit_open;
        peer.held_from = peer.held_from_open;
        return;
    case FrameKind::notice:
        if (listener_) listener_->notice(peer, *header, payload);
        return;
    case FrameKind::revoked: {
        P2pRequest* send = operations_.find(header->token);
        if (!send && was_withdrawn(peer, header->token)) return;
        if (!send || !send->is_send || send->peer != &peer || send->matched)
            return protocol_error(peer, "A refusal names no send");
        // This may be how this process hears of it first.
        Header word{send->context & ~uint64_t{1},
                    peer.rank,
                    static_cast<int32_t>(Notice::revoke),
                    0,
                    FrameKind::notice,
                    0,
                    0};
        fail(*send, MPIX_ERR_REVOKED, kRevokedText);
        if (listener_) listener_->notice(peer, word, {});
        return;
    }
    case FrameKind::ack: {
        P2pRequest* send = operations_.find(header->token);
        if (!send && was_withdrawn(peer, header->token)) return;
        if (!send || !send->is_send || send->peer != &peer)
            return protocol_error(peer, "An acknowledgement names no send");
        return sent(*send);
    }
    }
}

}  // namespace pomona
