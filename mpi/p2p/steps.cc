// mpi/p2p/steps.cc: the sends and receives of collective schedules. No user holds them: their
// memory is plain bytes or a ReducingReceive, and a Completion is called when they are over.
#include "mpi/p2p/engine.h"
#include "mpi/p2p/user_buffer.h"

namespace pomona {

bool Engine::send_step_now(Peer& peer, uint64_t context, int source, int tag, ConstBytes data) {
    if (!peer.endpoint || data.size() >= peer.eager_limit || !peer.backlog.empty()) return false;
    Header header{context, source, tag, data.size(), FrameKind::eager, 0, 0};
    if (peer.endpoint->push(header.pack(), data) != Push::sent) return false;
    count(counters_.messages_sent);
    count(counters_.bytes_sent, data.size());
    return true;
}

bool Engine::recv_step_now(Peer& peer, uint64_t context, int source, int tag, Bytes data) {
    constexpr int turns_most = 64;  // members that came together are a line's way apart
    if (threaded_ || peer.gone) return false;
    Matcher& matching = matcher(context);
    if (Message* message = matching.find_message(source, tag)) {
        const Header& header = message->header;
        if (header.kind != FrameKind::eager || header.flags || message->length != data.size())
            return false;
        matching.take(*message);
        forget_kept(*message);
        copy_short(data.data(), {message->bytes, message->length});
        message->release();
        return true;
    }
    if (simulated_) return false;
    expecting_ = {context, source, tag, data.data(), data.size(), data.size(), false, false, {}};
    expected_ = &expecting_;
    for (int turns = crowded_ ? 1 : turns_most; turns > 0 && !expecting_.over; --turns) turn();
    if (!expecting_.over) leave_expected();
    return expecting_.met;
}

void Engine::send_step(Peer& peer, uint64_t context, int source, int tag, ConstBytes data,
                       coll::Completion& done) {
    if (send_step_now(peer, context, source, tag, data)) {
        done.function(&done, nullptr);
        return;
    }
    P2pRequest* request = take();
    request->engine = this;
    request->is_send = true;
    request->context = context;
    request->tag = tag;
    request->source = source;
    request->peer = &peer;
    request->buffer = const_cast<std::byte*>(data.data());
    request->bytes = data.size();
    request->completion = &done;
    begin_send(*request);
}

void Engine::recv_step(Peer& peer, uint64_t context, int source, int tag, Bytes data,
                       coll::Completion& done, bool exact) {
    P2pRequest* request = take();
    request->exact = exact;
    request->engine = this;
    request->context = context;
    request->peer = &peer;
    request->rank = source;
    request->tag = tag;
    request->buffer = data.data();
    request->bytes = data.size();
    request->completion = &done;
    begin_recv(*request);
}

void Engine::recv_reducing_step(Peer& peer, uint64_t context, int source, int tag, size_t length,
                                coll::ReducingReceive& receive, coll::Completion& done) {
    P2pRequest* request = take();
    request->exact = true;
    request->engine = this;
    request->context = context;
    request->peer = &peer;
    request->rank = source;
    request->tag = tag;
    request->buffer = receive.landing();
    request->bytes = length;
    request->completion = &done;
    request->reducing = &receive;
    begin_recv(*request);
}

}  // namespace pomona
