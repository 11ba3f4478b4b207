// mpi/p2p/large.cc: messages that ask first (rendezvous): streams of fragments, and reading
// straight from the sender's memory where the system lets the receiver do that (Endpoint::pull).
// Idea: the rts of plain data says where it lies. The receiver answers `cts` (send it) or, having
// read it, `pulled`; whenever reading fails it falls back to `cts`.
#include "btl/base/check.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/user_buffer.h"

#include <algorithm>

namespace pomona {

// Read at a time: the engine looks at everything else in between.
static constexpr size_t kPullPiece = 512 << 10;
// Pushed to a peer at a time, or little more: then the engine looks at everything else.
static constexpr size_t kStreamMost = 1 << 20;
// Asked for ahead of what arrives: so much that the sender never waits for the next go-ahead, or
// two messages.
static constexpr size_t kAskedAhead = 512 << 10;

// ---- the sender's side

// The question; says where plain data lies.
Push Engine::push_question(Peer& peer, P2pRequest& send) {
    send.settled = false;
    if (!send.token) send.token = operations_.add(&send);
    Header header{send.context, send.source, send.tag, send.bytes, FrameKind::rts, 0, send.token};
    if (send.cancellable && peer.endpoint->pulls() && offer(peer, send))
        header.flags = kFlagOffered;
    auto address = reinterpret_cast<uint64_t>(is_plain(send) ? byte_at(send, 0) : nullptr);
    bool readable = peer.endpoint->pulls() && address != 0 && (send.offered || !send.cancellable);
    const uint64_t words[] = {readable ? address : 0, send.types};
    size_t length = send.types ? kPlaceAndTypesBytes : readable ? kPlaceBytes : 0;
    Push push =
        peer.endpoint->push(header.pack(), {reinterpret_cast<const std::byte*>(words), length});
    if (push == Push::sent) {
        send.readable = readable;
        send.asked = send.outgoing = true;
        ++peer.large_outgoing;
        count(counters_.messages_sent);
        count(counters_.rendezvous_started);
    }
    return push;
}

// The question with the whole message behind it, where that is short: a cancelled one must not be
// received, so its receive still ends by the answer to its own, but no data is waited for.
Push Engine::push_whole_question(Peer& peer, P2pRequest& send, Header header) {
    if (send.bytes >= peer.eager_limit) return push_question(peer, send);
    header.kind = FrameKind::rts;
    header.flags = kFlagWhole;
    header.token = send.token;
    Push push = push_payload(peer, send, header);
    if (push == Push::sent) {
        send.outgoing = send.unsettled_ = sent_whole_ = true;
        send.settled = false;
        ++peer.large_outgoing;
        count(counters_.rendezvous_started);
    }
    return push;
}

void Engine::push_settled(Request& request) {
    auto& send = static_cast<P2pRequest&>(request);
    send.unsettled_ = false;
    send.settled = true;
    push_control(*send.peer,
                 {send.context, send.source, send.tag, 0, FrameKind::settled, 0, send.token});
}

void Engine::arrive_cts(Peer& peer, const Header& header) {
    P2pRequest* send = operations_.find(header.token);
    if (!send)
        if (auto told = was_withdrawn(peer, header.token)) {
            // It was met before the peer could drop it.
            if (header.context)
                push_control(peer, {header.context, 0, 0, 0, FrameKind::refused, *told, 0});
            return;
        }
    if (!send || !send->is_send || send->peer != &peer ||
        header.length > send->bytes - send->offset)
        return protocol_error(peer, "A go-ahead names no send");
    send->remote_token = header.context;
    send->accepted = header.length;
    send->matched = true;
    if (send->accepted == 0) {
        // So that both know that it was not cancelled.
        if (!send->settled || header.flags & kFlagWord)
            push_control(peer, {header.context, 0, 0, 0, FrameKind::data, 0, 0});
        return sent(*send);
    }
    if (peer.endpoint->takes_bulk()) return push_bulk(peer, *send);
    peer.streams.push_back(send);
    if (send->withdrawing && send->completion && refuse_rest(*send, send->told))
        return fail(*send, MPIX_ERR_PROC_FAILED, "Another part of the collective failed");
    queue(peer);
    if (!peer.control.empty() || !peer.backlog.empty()) return;
    drain_streams(peer);
}

// The whole message, where the transport keeps account of what has arrived (a Link).
void Engine::push_bulk(Peer& peer, P2pRequest& send) {
    Bulk bulk;
    bulk.place = send.remote_token;
    bulk.ticket = send.token;
    bulk.length = send.accepted;
    if (is_plain(send)) {
        bulk.data = byte_at(send, 0);
    } else {
        bulk.context = &send;
        bulk.gather = [](void* context, size_t offset, Bytes target) {
            auto* request = static_cast<P2pRequest*>(context);
            request->type->pack(request->buffer, request->count, offset, target);
        };
    }
    if (peer.endpoint->push_bulk(bulk) == Push::gone) peer.refuses = true;
}

void Engine::released(int rank, uint64_t ticket) {
    P2pRequest* send = operations_.find(ticket);
    if (!send || !send->is_send || send->peer != peers_[rank].get()) return;
    took_whole_ = true;
    send->offset = send->accepted;
    count(counters_.bytes_sent, send->accepted);
    sent(*send);
}

// The receiver has read all it wants.
void Engine::arrive_pulled(Peer& peer, const Header& header) {
    P2pRequest* send = operations_.find(header.token);
    if (!send && was_withdrawn(peer, header.token)) return;
    if (!send || !send->is_send || send->peer != &peer || header.length > send->bytes)
        return protocol_error(peer, "A message that was read names no send");
    send->offset = send->accepted = header.length;
    count(counters_.bytes_sent, header.length);
    sent(*send);
}

// Pushes the next piece of a stream, or more of the one under way; `taken`: its bytes that left.
Push Engine::push_piece(Peer& peer, P2pRequest& send, size_t& taken) {
    Endpoint& endpoint = *peer.endpoint;
    Piece& piece = peer.piece;
    if (piece.send) {
        Push push = endpoint.push_rest({byte_at(send, piece.offset), piece.rest}, taken);
        if (push != Push::sent) return push;
        piece.offset += taken;
        piece.rest -= taken;
        send.rest -= taken;
        if (piece.rest == 0) piece.send = nullptr;
        return push;
    }
    size_t length = std::min(endpoint.caps().fragment_max, send.accepted - send.offset);
    Header header{send.remote_token, 0, 0, length, FrameKind::data, 0, send.offset};
    Push push;
    if (is_plain(send)) {
        push = endpoint.push_part(header.pack(), {byte_at(send, send.offset), length}, taken);
    } else {
        taken = length;
        push = endpoint.push_fill(
            header.pack(), length,
            [](void* context, Bytes target) {
                auto* request = static_cast<P2pRequest*>(context);
                request->type->pack(request->buffer, request->count, request->offset, target);
            },
            &send);
    }
    if (push != Push::sent) return push;
    if (taken < length) {
        piece = {&send, send.offset + taken, length - taken};
        send.rest += piece.rest;
    }
    send.offset += length;
    return push;
}

// Pushes streams until the endpoint takes no more or has taken enough for now.
bool Engine::drain_streams(Peer& peer) {
    Endpoint& endpoint = *peer.endpoint;
    Piece& piece = peer.piece;
    bool moved = false;
    for (size_t pushed = 0; pushed < kStreamMost;) {
        P2pRequest* send = piece.send;
        if (!send) send = peer.streams.front();
        if (!send) return moved;
        size_t taken = 0;
        bool measured = send->accepted >= CopyChoice::kMeasuredMin && endpoint.pulls();
        Nanoseconds begin = measured ? clock_.now() : 0;
        Push push = push_piece(peer, *send, taken);
        if (measured && push == Push::sent) send->work += clock_.now() - begin;
        if (push != Push::sent) return stop_draining(peer, push, moved);
        moved = true;
        pushed += taken;
        count(counters_.bytes_sent, taken);
        if (piece.send) return moved;  // nothing else can be pushed here now
        // One large message after the other.
        if (send->offset == send->accepted && send->rest == 0) {
            if (measured) peer.copy_choice.pushed(send->accepted, send->work);
            List<P2pRequest>::remove(send);
            sent(*send);
        }
        // Small ones and answers pass between fragments: drain() pushes them, and comes back.
        if (!peer.control.empty() || !peer.backlog.empty()) return moved;
    }
    return moved;
}

// ---- the receiver's side

// Answers the question of a message whose receive is there.
void Engine::answer(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes where) {
    recv.remote_token = header.token;
    recv.measured = false;
    uint64_t address = 0;
    if (where.size() >= kPlaceBytes) std::memcpy(&address, where.data(), sizeof address);
    if (address != 0 && recv.accepted != 0 && is_plain(recv) && (peer.endpoint || connect(peer)) &&
        peer.endpoint->pulls()) {
        recv.remote_address = address;
        recv.reading = false;
        peer.readable.push_back(&recv);
        if (peer.readable.front() == &recv) drain_readable(peer);
        if (!peer.readable.empty()) queue(peer);
        return;
    }
    accept(recv, peer);
}

// Chooses how the next messages that could be read come, each when its turn is: so what the choice
// learns from one decides for the next, also where a program has sent many at once, and each way is
// measured by itself. Asks for those that are to be sent; true when one was chosen.
bool Engine::choose_ways(Peer& peer) {
    bool chosen = false;
    while (P2pRequest* recv = peer.readable.front()) {
        bool enough = peer.asked_for >= 2 && peer.asked_for_bytes >= kAskedAhead;
        if (recv->reading || enough) break;
        chosen = true;
        bool both_ways = peer.large_outgoing > 0;
        recv->measured = recv->accepted >= CopyChoice::kMeasuredMin && !both_ways;
        if (recv->measured) recv->answered = clock_.now();
        recv->reading = peer.copy_choice.pull(recv->accepted, both_ways);
        if (recv->reading) break;
        List<P2pRequest>::remove(recv);
        recv->asked_for = true;
        ++peer.asked_for;
        peer.asked_for_bytes += recv->accepted;
        accept(*recv, peer);
    }
    return chosen;
}

// Asks for the bytes.
void Engine::accept(P2pRequest& recv, Peer& peer) {
    recv.token = operations_.add(&recv);
    push_control(peer, {recv.token, 0, 0, recv.accepted, FrameKind::cts, 0, recv.remote_token});
}

// What came with its question waits for the word that it was not cancelled: of a receive that is
// cancelled in its place no part of the buffer may change (MPI 5.0, 3.8.4).
void Engine::hold_whole(P2pRequest& recv, Peer& peer, const Header& header, ConstBytes payload) {
    recv.remote_token = header.token;
    recv.accepted = 0;
    recv.measured = false;
    recv.token = operations_.add(&recv);
    uint8_t flags = recv.of_mprobe ? kFlagWord : 0;
    push_control(peer, {recv.token, 0, 0, 0, FrameKind::cts, flags, header.token});
    whole_.insert_or_assign(recv.token, std::vector<std::byte>(payload.begin(), payload.end()));
}

// Nothing is found where the receive has ended, or will ask for the word (kFlagWord).
void Engine::arrive_settled(Peer& peer, const Header& header) {
    auto context = matchers_.find(header.context);
    Message* kept =
        context == matchers_.end() ? nullptr : context->second->find_kept([&](const Message& each) {
            return each.peer == &peer && each.header.token == header.token &&
                   each.header.flags & kFlagWhole;
        });
    if (kept) {
        kept->header.kind = FrameKind::eager;
        kept->header.flags = kFlagSync;
        return;
    }
    for (auto& [token, payload] : whole_) {
        P2pRequest* recv = operations_.find(token);
        if (recv->peer != &peer || recv->remote_token != header.token || recv->of_mprobe) continue;
        unpack(*recv, 0, payload);
        return finish_p2p(*recv);
    }
}

// Reads a piece of the first message that can be read, after those that were asked for; true when
// something moved.
bool Engine::drain_readable(Peer& peer) {
    bool chosen = choose_ways(peer);
    P2pRequest* recv = peer.readable.front();
    if (!recv || !recv->reading || peer.asked_for > 0) return chosen;
    size_t length = std::min(kPullPiece, recv->accepted - recv->offset);
    if (recv->offered && !take_offer(peer, recv->remote_token)) {
        List<P2pRequest>::remove(recv);
        recv->offset = 0;
        pass_over(*recv, peer, recv->remote_token);
        return true;
    }
    bool timed = recv->accepted >= CopyChoice::kMeasuredMin;
    Nanoseconds begin = timed ? clock_.now() : 0;
    if (!peer.endpoint->pull(recv->remote_address + recv->offset,
                             {byte_at(*recv, recv->offset), length})) {
        if (recv->offered) leave_offer(peer, recv->remote_token, SendOffer::State::open);
        // The system forbids it, or the peer is gone, which will be told otherwise.
        while ((recv = peer.readable.pop_front())) {
            recv->offset = 0;
            accept(*recv, peer);
        }
        return true;
    }
    if (timed) recv->work += clock_.now() - begin;
    recv->offset += length;
    count(counters_.bytes_received, length);
    bool over = recv->offset == recv->accepted;
    if (recv->offered)
        leave_offer(peer, recv->remote_token,
                    over ? SendOffer::State::received : SendOffer::State::open);
    if (!over) return true;
    count(counters_.messages_pulled);
    if (timed) peer.copy_choice.read(recv->accepted, recv->work);
    if (recv->measured) measure(peer, *recv, true);
    List<P2pRequest>::remove(recv);
    push_control(peer, {0, 0, 0, recv->accepted, FrameKind::pulled, 0, recv->remote_token});
    finish_p2p(*recv);
    return true;
}

// What the message took by itself: since it was answered, or the one before it was over.
void Engine::measure(Peer& peer, const P2pRequest& recv, bool pulled) {
    Nanoseconds now = clock_.now();
    Nanoseconds begin = std::max(recv.answered, peer.large_finished);
    peer.copy_choice.took(pulled, recv.accepted, now - begin);
    peer.large_finished = now;
}

std::byte* Engine::place(int rank, const FrameHeader& frame, size_t length) {
    auto header = parse(frame, length);
    if (!header || header->kind != FrameKind::data || peers_[rank]->gone) return nullptr;
    P2pRequest* recv = operations_.find(header->context);
    if (!recv || recv->is_send || recv->peer != peers_[rank].get() ||
        header->token > recv->accepted || length > recv->accepted - header->token ||
        !is_plain(*recv))
        return nullptr;
    recv->rest += length;
    return byte_at(*recv, header->token);
}

void Engine::displaced(int rank, const FrameHeader& frame, size_t length) {
    P2pRequest* recv = operations_.find(unpack(frame).context);
    if (!recv || recv->is_send || recv->peer != peers_[rank].get()) return;
    recv->rest -= std::min(recv->rest, length);
}

void Engine::arrive_data(Peer& peer, const Header& header, ConstBytes payload) {
    P2pRequest* recv = operations_.find(header.context);
    if (!recv || recv->is_send || recv->peer != &peer || header.token > recv->accepted ||
        payload.size() > recv->accepted - header.token || (payload.empty() && recv->accepted != 0))
        return protocol_error(peer, "A fragment names no receive");
    count(counters_.bytes_received, payload.size());
    bool placed = is_plain(*recv) && payload.data() == byte_at(*recv, header.token);
    bool timed = recv->accepted >= CopyChoice::kMeasuredMin && is_plain(*recv) && peer.endpoint &&
                 peer.endpoint->pulls();
    Nanoseconds begin = timed ? clock_.now() : 0;
    if (placed) recv->rest -= std::min(recv->rest, payload.size());
    else unpack(*recv, header.token, payload);
    if (timed) recv->work += clock_.now() - begin;
    recv->offset += payload.size();
    if (recv->offset < recv->accepted) return;
    // Fragments that overlap: some of them are still being read to where nothing must be written
    // then.
    if (recv->rest != 0) return protocol_error(peer, "Fragments overlap");
    if (!whole_.empty())
        if (auto whole = whole_.find(header.context); whole != whole_.end())
            unpack(*recv, 0, whole->second);
    if (timed) peer.copy_choice.drained(recv->accepted, recv->work);
    if (recv->measured) measure(peer, *recv, false);
    finish_p2p(*recv);
}

}  // namespace pomona
