// mpi/abi/bsend.cc: buffered sends (MPI 5.0, section 3.6). Their buffers: mpi/abi/buffer.cc.
// A communicator's own buffer goes before that of its session, and that before the process's.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/session.h"

#include <mutex>

using namespace pomona;

namespace {

int run_bsend(const char* function, const SendArguments& a, int dest, int tag) {
    if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
    Process& here = a.comm->process;
    std::lock_guard guard(here.bsend_mutex);
    auto* session = static_cast<Session*>(a.comm->session.get());
    BsendBuffer* buffer = a.comm->bsend               ? a.comm->bsend.get()
                          : session && session->bsend ? session->bsend.get()
                                                      : here.bsend.get();
    if (!buffer)
        return fail(function, a.comm, MPI_ERR_BUFFER,
                    "no buffer is attached; call MPI_Buffer_attach first");
    Status sent = buffer->send(*a.comm, a.data, {dest, tag});
    if (sent.ok()) return MPI_SUCCESS;
    return fail(function, a.comm, MPI_ERR_BUFFER, sent.error().what);
}

class BsendRequest final : public Request {
public:
    BsendRequest(const SendArguments& arguments, int dest, int tag)
        : Request(arguments.comm), arguments_(arguments), dest_(dest), tag_(tag) {
        persistent_ = inactive_ = true;
        done_.store(1, std::memory_order_relaxed);  // nobody else has seen it yet
        comm_->retain();
        const_cast<Datatype*>(arguments_.data.type)->retain();
    }
    ~BsendRequest() override {
        const_cast<Datatype*>(arguments_.data.type)->release();
        comm_->release();
    }
    // Started without the engine: buffered_send takes it itself.
    bool calls_user() const override { return true; }
    int start() override {
        inactive_ = false;
        return run_bsend("PMPI_Start", arguments_, dest_, tag_);
    }

private:
    SendArguments arguments_;
    int dest_;
    int tag_;
};

}  // namespace

POMONA_MPI(int, Bsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm);
        error && error != kChecked)
        return error;
    return run_bsend(__func__, a, dest, tag);
}

POMONA_MPI(int, Ibsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                           MPI_Comm comm, MPI_Request* request)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm);
        error && error != kChecked)
        return error;
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is a null pointer");
    if (int error = run_bsend(__func__, a, dest, tag)) return error;
    *request = handle_of<MPI_Request>(make_null_request(*a.comm));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Bsend_init_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                               int tag, MPI_Comm comm, MPI_Request* request)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm);
        error && error != kChecked)
        return error;
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is a null pointer");
    *request = handle_of<MPI_Request>(new BsendRequest(a, dest, tag));
    return MPI_SUCCESS;
}
