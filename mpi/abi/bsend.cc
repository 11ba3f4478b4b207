// mpi/abi/bsend.cc: buffered sends and the buffers attached for them (MPI 5.0, section 3.6).
// A communicator's own buffer (MPI 4.1) goes before the process's.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"

#include <mutex>

using namespace pomona;

namespace {

int run_bsend(const char* function, const SendArguments& a, int dest, int tag) {
    if (dest == MPI_PROC_NULL) return MPI_SUCCESS;
    Process& here = a.comm->process;
    std::lock_guard guard(here.bsend_mutex);
    BsendBuffer* buffer = a.comm->bsend ? a.comm->bsend.get() : here.bsend.get();
    if (!buffer)
        return fail(function, a.comm, MPI_ERR_BUFFER,
                    "no buffer is attached; call MPI_Buffer_attach first");
    Status sent = buffered_send(a.engine(), *buffer, *a.comm, a.data, {dest, tag});
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

int attach(const char* function, Communicator* comm, std::unique_ptr<BsendBuffer>& place,
           void* buffer, MPI_Count size) {
    std::lock_guard guard(process().bsend_mutex);
    if (place) return fail(function, comm, MPI_ERR_BUFFER, "a buffer is attached already");
    if (size < 0) return fail(function, comm, MPI_ERR_ARG, format("size is {}", size));
    if (!buffer && size > 0) return fail(function, comm, MPI_ERR_BUFFER, "buffer is a null pointer");
    place = std::make_unique<BsendBuffer>();
    place->automatic = buffer == MPI_BUFFER_AUTOMATIC;
    place->base = buffer;
    place->size = size;
    return MPI_SUCCESS;
}

int detach(const char* function, Communicator* comm, std::unique_ptr<BsendBuffer>& place,
           void* buffer_address, MPI_Count* size) {
    std::lock_guard guard(process().bsend_mutex);
    if (!buffer_address || !size)
        return fail(function, comm, MPI_ERR_ARG, "buffer_addr or size is a null pointer");
    void* base = nullptr;
    *size = 0;
    if (place) {
        flush(process().engine, *place);
        base = place->base;
        *size = place->automatic ? 0 : place->size;
        place.reset();
    }
    std::memcpy(buffer_address, &base, sizeof base);
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Bsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm)) return error;
    return run_bsend(__func__, a, dest, tag);
}

POMONA_MPI(int, Ibsend_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                           MPI_Comm comm, MPI_Request* request)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm)) return error;
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is a null pointer");
    if (int error = run_bsend(__func__, a, dest, tag)) return error;
    *request = handle_of<MPI_Request>(make_null_request(*a.comm));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Bsend_init_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
                               int tag, MPI_Comm comm, MPI_Request* request)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm)) return error;
    REQUIRE(request, a.comm, MPI_ERR_ARG, "request is a null pointer");
    *request = handle_of<MPI_Request>(new BsendRequest(a, dest, tag));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Buffer_attach_c, (void* buffer, MPI_Count size)) {
    REQUIRE_RUNNING();
    return attach(__func__, nullptr, process().bsend, buffer, size);
}
POMONA_MPI(int, Buffer_detach_c, (void* buffer_addr, MPI_Count* size)) {
    REQUIRE_RUNNING();
    return detach(__func__, nullptr, process().bsend, buffer_addr, size);
}
POMONA_MPI(int, Buffer_flush, (void)) {
    REQUIRE_RUNNING();
    std::lock_guard guard(process().bsend_mutex);
    if (process().bsend) flush(process().engine, *process().bsend);
    return MPI_SUCCESS;
}
// Complete at once: flushing waits only for this process's own sends to leave.
POMONA_MPI(int, Buffer_iflush, (MPI_Request* request)) {
    REQUIRE(request, nullptr, MPI_ERR_ARG, "request is a null pointer");
    if (int error = PMPI_Buffer_flush()) return error;
    *request = handle_of<MPI_Request>(make_null_request(*process().self()));
    return MPI_SUCCESS;
}

#define OWNER()                                  \
    REQUIRE_RUNNING();                           \
    Communicator* owner = resolve(comm);         \
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator")

POMONA_MPI(int, Comm_attach_buffer_c, (MPI_Comm comm, void* buffer, MPI_Count size)) {
    OWNER();
    return attach(__func__, owner, owner->bsend, buffer, size);
}
POMONA_MPI(int, Comm_detach_buffer_c, (MPI_Comm comm, void* buffer_addr, MPI_Count* size)) {
    OWNER();
    return detach(__func__, owner, owner->bsend, buffer_addr, size);
}
POMONA_MPI(int, Comm_flush_buffer, (MPI_Comm comm)) {
    OWNER();
    std::lock_guard guard(process().bsend_mutex);
    if (owner->bsend) flush(process().engine, *owner->bsend);
    return MPI_SUCCESS;
}
POMONA_MPI(int, Comm_iflush_buffer, (MPI_Comm comm, MPI_Request* request)) {
    OWNER();
    REQUIRE(request, owner, MPI_ERR_ARG, "request is a null pointer");
    if (int error = PMPI_Comm_flush_buffer(comm)) return error;
    *request = handle_of<MPI_Request>(make_null_request(*owner));
    return MPI_SUCCESS;
}
