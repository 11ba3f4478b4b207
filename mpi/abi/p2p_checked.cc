// mpi/abi/p2p_checked.cc: see p2p_checked.h. Blocking calls too go by a request, which they wait
// for.
#include "mpi/abi/p2p_checked.h"

#include "mpi/p2p/status.h"
#include "mpi/check/checker.h"
#include "mpi/check/signature.h"

namespace pomona {

namespace {

using Call = Checker::Call;

Call send_call(const char* function, const SendArguments& a, Envelope to, SendMode mode) {
    return {function, a.comm, a.data, to, Checker::Kind::send, mode, false, {}};
}
Call recv_call(const char* function, const RecvArguments& a, Envelope from) {
    return {function, a.comm, a.data, from, Checker::Kind::receive, SendMode::standard, false, {}};
}

Checker& checker_of(const Call& call) { return *call.comm->process.checker; }

// MPI_SUCCESS, or what the function returns.
int check_buffer(const Call& call) {
    std::string problem = checker_of(call).in_use(call);
    if (problem.empty()) return MPI_SUCCESS;
    return fail(call.function, call.comm, MPI_ERR_BUFFER,
                format("{} (rank {}, peer {}, tag {})", problem, call.comm->rank(),
                       call.envelope.rank, call.envelope.tag));
}

Outcome end(const Call& call, P2pRequest* request) {
    Engine& engine = call.comm->process.engine;
    bool at_once = request->done();
    engine.wait(*request);
    if (request->stalled()) engine.end_stalled(*request);
    if (at_once) {  // as it does where nothing is checked
        Engine::Hold hold(engine);
        engine.pass();
    }
    Outcome outcome = request->outcome();
    request->release();
    return outcome;
}

int end_with(const Call& call, const Outcome& outcome) {
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(call.function, call.comm, outcome, call.envelope);
}

int begin(const Call& call, MPI_Request* request) {
    if (!request) return fail(call.function, call.comm, MPI_ERR_ARG, "request is null");
    // A persistent one uses its buffer from its start on.
    if (!call.persistent)
        if (int error = check_buffer(call)) return error;
    *request = handle_of<MPI_Request>(checker_of(call).start(call));
    return MPI_SUCCESS;
}

}  // namespace

int checked_send(const char* function, const SendArguments& a, Envelope to, SendMode mode) {
    Call call = send_call(function, a, to, mode);
    if (int error = check_buffer(call)) return error;
    return end_with(call, end(call, checker_of(call).start(call)));
}

int checked_start_send(const char* function, const SendArguments& a, Envelope to, SendMode mode,
                       bool persistent, MPI_Request* request) {
    Call call = send_call(function, a, to, mode);
    call.persistent = persistent;
    return begin(call, request);
}

int checked_recv(const char* function, const RecvArguments& a, Envelope from, MPI_Status* status) {
    Call call = recv_call(function, a, from);
    if (int error = check_buffer(call)) return error;
    Outcome outcome = end(call, checker_of(call).start(call));
    set_status(status, outcome);
    return end_with(call, outcome);
}

int checked_start_recv(const char* function, const RecvArguments& a, Envelope from, bool persistent,
                       MPI_Request* request) {
    Call call = recv_call(function, a, from);
    call.persistent = persistent;
    return begin(call, request);
}

// ---- send and receive at once

namespace {

// The buffers of both, each against what is under way, and against each other.
int check_buffers(const Call& send, bool sends, const Call& recv, bool receives, bool replace) {
    if (receives)
        if (int error = check_buffer(recv)) return error;
    if (!sends || replace) return MPI_SUCCESS;
    if (int error = check_buffer(send)) return error;
    if (!receives) return MPI_SUCCESS;
    BufferUses both;
    both.add({recv.data.buffer, recv.data.count, recv.data.type, true}, 1);
    if (!both.conflict({send.data.buffer, send.data.count, send.data.type, false}, 2))
        return MPI_SUCCESS;
    return fail(send.function, send.comm, MPI_ERR_BUFFER,
                format("sendbuf and recvbuf share memory; they must be apart (rank {})",
                       send.comm->rank()));
}

}  // namespace

int checked_exchange(const char* function, const SendArguments& s, Envelope to,
                     const RecvArguments& r, Envelope from, bool replace, MPI_Status* status) {
    bool sends = to.rank != MPI_PROC_NULL, receives = from.rank != MPI_PROC_NULL;
    Call send = send_call(function, s, to, SendMode::standard);
    Call recv = recv_call(function, r, from);
    if (int error = check_buffers(send, sends, recv, receives, replace)) return error;
    std::vector<std::byte> copy;
    if (replace && sends) {
        send.types = signature_of(*s.data.type, s.data.count);
        copy = packed(s.data);
        send.data = {copy.data(), static_cast<MPI_Count>(copy.size()), &Datatype::of(MPI_BYTE)};
    }
    P2pRequest* receiving = receives ? checker_of(recv).start(recv) : nullptr;
    Outcome sent;
    if (sends) sent = end(send, checker_of(send).start(send));
    Outcome received = receives ? end(recv, receiving) : proc_null_outcome();
    set_status(status, received);
    if (sent.error != MPI_SUCCESS) return end_with(send, sent);
    return end_with(recv, received);
}

int checked_start_exchange(const char* function, const SendArguments& s, Envelope to,
                           const RecvArguments& r, Envelope from, std::vector<std::byte> kept,
                           MPI_Request* request) {
    bool sends = to.rank != MPI_PROC_NULL, receives = from.rank != MPI_PROC_NULL;
    bool replace = !kept.empty();
    Call send = send_call(function, s, to, SendMode::standard);
    Call recv = recv_call(function, r, from);
    if (int error = check_buffers(send, sends, recv, receives, replace)) return error;
    if (sends) send.types = signature_of(*s.data.type, s.data.count);
    if (replace)
        send.data = {kept.data(), static_cast<MPI_Count>(kept.size()), &Datatype::of(MPI_BYTE)};
    auto make = [&](Communicator&, const Data&, Envelope, bool is_send) {
        return checker_of(send).prepare(is_send ? send : recv);
    };
    *request = handle_of<MPI_Request>(
        start_exchange(send.data, to, recv.data, from, *s.comm, std::move(kept), make));
    return MPI_SUCCESS;
}

// ---- matched receives

static Call matched_call(const char* function, const Message& message, const Data& data) {
    return {function,
            message.comm,
            data,
            {message.header.source, message.header.tag},
            Checker::Kind::receive,
            SendMode::standard,
            false,
            {}};
}

int checked_mrecv(const char* function, Message* message, const Data& data, Outcome& outcome) {
    Call call = matched_call(function, *message, data);
    if (int error = check_buffer(call)) return error;
    outcome = end(call, checker_of(call).start_matched(call, message));
    return MPI_SUCCESS;
}

int checked_start_mrecv(const char* function, Message* message, const Data& data,
                        MPI_Request* request) {
    Call call = matched_call(function, *message, data);
    if (int error = check_buffer(call)) return error;
    *request = handle_of<MPI_Request>(checker_of(call).start_matched(call, message));
    return MPI_SUCCESS;
}

}  // namespace pomona
