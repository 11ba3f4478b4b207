// mpi/abi/p2p.cc: MPI_Send, MPI_Recv and their kin (MPI 5.0, chapter 3): arguments to engine calls.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/p2p_checked.h"
#include "mpi/p2p/status.h"

using namespace pomona;

namespace {

int blocking_send(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
                  int dest, int tag, MPI_Comm comm, SendMode mode) {
    SendArguments a;
    if (int error = a.check(function, buffer, count, datatype, dest, tag, comm))
        return error != kChecked ? error : checked_send(function, a, {dest, tag}, mode);
    if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
    Outcome outcome = a.engine().send(*a.comm, a.data, {dest, tag}, mode);
    if (__builtin_expect(outcome.error == MPI_SUCCESS, 1)) return MPI_SUCCESS;
    return fail_peer(function, a.comm, outcome, {dest, tag});
}

int start_send(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
               int dest, int tag, MPI_Comm comm, SendMode mode, MPI_Request* request) {
    SendArguments a;
    if (int error = a.check(function, buffer, count, datatype, dest, tag, comm))
        return error != kChecked
                   ? error
                   : checked_start_send(function, a, {dest, tag}, mode, false, request);
    if (!request) return fail(function, a.comm, MPI_ERR_ARG, "request is null");
    Request* made =
        dest == MPI_PROC_NULL
            ? make_null_request(*a.comm)
            : static_cast<Request*>(a.engine().isend(*a.comm, a.data, {dest, tag}, mode));
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

int init_send(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int dest, int tag, MPI_Comm comm, SendMode mode, MPI_Request* request) {
    SendArguments a;
    if (int error = a.check(function, buffer, count, datatype, dest, tag, comm))
        return error != kChecked
                   ? error
                   : checked_start_send(function, a, {dest, tag}, mode, true, request);
    if (!request) return fail(function, a.comm, MPI_ERR_ARG, "request is null");
    Request* made =
        dest == MPI_PROC_NULL
            ? make_null_persistent(*a.comm)
            : static_cast<Request*>(a.engine().send_init(*a.comm, a.data, {dest, tag}, mode));
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

}  // namespace

// ---- sends; a ready send is a standard one that the user promises more about

POMONA_MPI(int, Send_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                         MPI_Comm comm)) {
    return blocking_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard);
}
POMONA_MPI(int, Rsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm)) {
    return blocking_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard);
}
POMONA_MPI(int, Ssend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm)) {
    return blocking_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::synchronous);
}
POMONA_MPI(int, Isend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm, MPI_Request* request)) {
    return start_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
POMONA_MPI(int, Irsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                           MPI_Comm comm, MPI_Request* request)) {
    return start_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
POMONA_MPI(int, Issend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                           MPI_Comm comm, MPI_Request* request)) {
    return start_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::synchronous,
                      request);
}
POMONA_MPI(int, Send_init_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                              int tag, MPI_Comm comm, MPI_Request* request)) {
    return init_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
POMONA_MPI(int, Rsend_init_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                               int tag, MPI_Comm comm, MPI_Request* request)) {
    return init_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::standard, request);
}
POMONA_MPI(int, Ssend_init_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                               int tag, MPI_Comm comm, MPI_Request* request)) {
    return init_send(__func__, buf, count, datatype, dest, tag, comm, SendMode::synchronous,
                     request);
}

// ---- receives

POMONA_MPI(int, Recv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, MPI_Status* status)) {
    RecvArguments a;
    if (int error = a.check(__func__, buf, count, datatype, source, tag, comm))
        return error != kChecked ? error : checked_recv(__func__, a, {source, tag}, status);
    if (source == MPI_PROC_NULL) return set_status(status, proc_null_outcome()), MPI_SUCCESS;
    Outcome outcome = a.engine().recv(*a.comm, a.data, {source, tag});
    set_status(status, outcome);
    if (__builtin_expect(outcome.error == MPI_SUCCESS, 1)) return MPI_SUCCESS;
    return fail_peer(__func__, a.comm, outcome, {source, tag});
}
POMONA_MPI(int, Irecv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                          MPI_Comm comm, MPI_Request* request)) {
    RecvArguments a;
    if (int error = a.check(__func__, buf, count, datatype, source, tag, comm))
        return error != kChecked ? error
                                 : checked_start_recv(__func__, a, {source, tag}, false, request);
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is null");
    Request* made = source == MPI_PROC_NULL
                        ? make_null_request(*a.comm)
                        : static_cast<Request*>(a.engine().irecv(*a.comm, a.data, {source, tag}));
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}
POMONA_MPI(int, Recv_init_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                              MPI_Comm comm, MPI_Request* request)) {
    RecvArguments a;
    if (int error = a.check(__func__, buf, count, datatype, source, tag, comm))
        return error != kChecked ? error
                                 : checked_start_recv(__func__, a, {source, tag}, true, request);
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is null");
    Request* made =
        source == MPI_PROC_NULL
            ? make_null_persistent(*a.comm)
            : static_cast<Request*>(a.engine().recv_init(*a.comm, a.data, {source, tag}));
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

// ---- send and receive at once

namespace {

// Sends and receives; both ends may be MPI_PROC_NULL. The receive's outcome goes to `status`.
int exchange(const char* function, const SendArguments& s, int dest, int sendtag,
             const RecvArguments& r, int source, int recvtag, MPI_Status* status) {
    Engine& engine = r.engine();
    P2pRequest* recv =
        source == MPI_PROC_NULL ? nullptr : engine.irecv(*r.comm, r.data, {source, recvtag});
    Outcome sent;
    if (dest != MPI_PROC_NULL)
        sent = engine.send(*s.comm, s.data, {dest, sendtag}, SendMode::standard);
    Outcome received = proc_null_outcome();
    if (recv) {
        engine.wait(*recv);
        if (recv->stalled()) engine.end_stalled(*recv);
        received = recv->outcome();
        recv->release();
    }
    set_status(status, received);
    if (sent.error != MPI_SUCCESS) return fail_peer(function, s.comm, sent, {dest, sendtag});
    if (received.error != MPI_SUCCESS)
        return fail_peer(function, r.comm, received, {source, recvtag});
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Sendrecv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                             int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                             int source, int recvtag, MPI_Comm comm, MPI_Status* status)) {
    SendArguments s;
    RecvArguments r;
    int sends = s.check(__func__, sendbuf, sendcount, sendtype, dest, sendtag, comm);
    if (sends && sends != kChecked) return sends;
    int receives = r.check(__func__, recvbuf, recvcount, recvtype, source, recvtag, comm);
    if (receives && receives != kChecked) return receives;
    if (__builtin_expect((sends | receives) != 0, 0))
        return checked_exchange(__func__, s, {dest, sendtag}, r, {source, recvtag}, false, status);
    return exchange(__func__, s, dest, sendtag, r, source, recvtag, status);
}

POMONA_MPI(int, Sendrecv_replace_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                     int sendtag, int source, int recvtag, MPI_Comm comm,
                                     MPI_Status* status)) {
    SendArguments s;
    RecvArguments r;
    int sends = s.check(__func__, buf, count, datatype, dest, sendtag, comm);
    if (sends && sends != kChecked) return sends;
    int receives = r.check(__func__, buf, count, datatype, source, recvtag, comm);
    if (receives && receives != kChecked) return receives;
    if (__builtin_expect((sends | receives) != 0, 0))
        return checked_exchange(__func__, s, {dest, sendtag}, r, {source, recvtag}, true, status);
    std::vector<std::byte> copy = packed(s.data);
    s.data = {copy.data(), static_cast<MPI_Count>(copy.size()), &Datatype::of(MPI_BYTE)};
    return exchange(__func__, s, dest, sendtag, r, source, recvtag, status);
}

POMONA_MPI(int, Isendrecv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              int dest, int sendtag, void* recvbuf, MPI_Count recvcount,
                              MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                              MPI_Request* request)) {
    SendArguments s;
    RecvArguments r;
    int sends = s.check(__func__, sendbuf, sendcount, sendtype, dest, sendtag, comm);
    if (sends && sends != kChecked) return sends;
    int receives = r.check(__func__, recvbuf, recvcount, recvtype, source, recvtag, comm);
    if (receives && receives != kChecked) return receives;
    REQUIRE(request, s.comm, MPI_ERR_ARG, "request is null");
    if ((sends | receives) != 0)
        return checked_start_exchange(__func__, s, {dest, sendtag}, r, {source, recvtag}, {},
                                      request);
    *request = handle_of<MPI_Request>(
        start_exchange(s.data, {dest, sendtag}, r.data, {source, recvtag}, *s.comm, {}));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Isendrecv_replace_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                                      int sendtag, int source, int recvtag, MPI_Comm comm,
                                      MPI_Request* request)) {
    SendArguments s;
    RecvArguments r;
    int sends = s.check(__func__, buf, count, datatype, dest, sendtag, comm);
    if (sends && sends != kChecked) return sends;
    int receives = r.check(__func__, buf, count, datatype, source, recvtag, comm);
    if (receives && receives != kChecked) return receives;
    REQUIRE(request, s.comm, MPI_ERR_ARG, "request is null");
    std::vector<std::byte> copy = packed(s.data);
    if ((sends | receives) != 0)
        return checked_start_exchange(__func__, s, {dest, sendtag}, r, {source, recvtag},
                                      std::move(copy), request);
    s.data = {copy.data(), static_cast<MPI_Count>(copy.size()), &Datatype::of(MPI_BYTE)};
    *request = handle_of<MPI_Request>(start_exchange(s.data, {dest, sendtag}, r.data,
                                                     {source, recvtag}, *s.comm, std::move(copy)));
    return MPI_SUCCESS;
}
