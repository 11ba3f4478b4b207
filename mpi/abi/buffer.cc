// mpi/abi/buffer.cc: buffers for buffered sends (MPI 5.0, section 3.6): those of the process, of
// communicators and of sessions. Which of them a send takes: mpi/abi/bsend.cc.
// Idea: an owner is a place for a buffer and a way to fail; the twelve functions differ by that.
#include "mpi/abi/buffer.h"

#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/session.h"

#include <cstring>
#include <mutex>

using namespace pomona;

namespace pomona {

// The buffer is taken out of its place first: nobody may send from it any more, and the mutex is
// free.
std::unique_ptr<BsendBuffer> detach_buffer(std::unique_ptr<BsendBuffer>& place) {
    std::unique_ptr<BsendBuffer> taken;
    {
        std::lock_guard guard(process().bsend_mutex);
        taken = std::move(place);
    }
    if (taken) taken->wait_until_empty(*process().self());
    return taken;
}

}  // namespace pomona

namespace {

struct Owner {
    std::unique_ptr<BsendBuffer>& place;
    Communicator* comm = nullptr;
    Session* session = nullptr;

    int fail(const char* function, int code, const std::string& sentence) const {
        if (session) return session_fail(function, session, code, sentence);
        return pomona::fail(function, comm, code, sentence);
    }
};

int attach(const char* function, Owner owner, void* buffer, MPI_Count size) {
    bool taken = false;
    {
        std::lock_guard guard(process().bsend_mutex);
        taken = owner.place != nullptr;
        if (!taken && size >= 0 && (buffer || size == 0)) {
            owner.place = std::make_unique<BsendBuffer>(process().engine, buffer, size);
            return MPI_SUCCESS;
        }
    }
    if (taken) return owner.fail(function, MPI_ERR_BUFFER, "a buffer is attached already");
    if (size < 0) return owner.fail(function, MPI_ERR_ARG, format("size is {}", size));
    return owner.fail(function, MPI_ERR_BUFFER, "buffer is a null pointer");
}

int detach(const char* function, Owner owner, void* buffer_address, MPI_Count* size) {
    if (!buffer_address || !size)
        return owner.fail(function, MPI_ERR_ARG, "buffer_addr or size is a null pointer");
    std::unique_ptr<BsendBuffer> taken = detach_buffer(owner.place);
    void* base = taken ? taken->base : nullptr;
    *size = taken && !taken->automatic ? taken->size : 0;
    std::memcpy(buffer_address, &base, sizeof base);
    return MPI_SUCCESS;
}

// A request for what has been sent so far.
Request* start_flush(const Owner& owner) {
    Communicator& self = *process().self();
    std::lock_guard guard(process().bsend_mutex);
    return owner.place ? owner.place->flush(self) : make_null_request(self);
}

int flush_buffer(const Owner& owner) {
    Request* all = start_flush(owner);
    process().engine.wait(*all);
    all->release();
    return MPI_SUCCESS;
}

int iflush_buffer(const char* function, const Owner& owner, MPI_Request* request) {
    if (!request) return owner.fail(function, MPI_ERR_ARG, "request is a null pointer");
    *request = handle_of<MPI_Request>(start_flush(owner));
    return MPI_SUCCESS;
}

}  // namespace

#define PROCESS_OWNER()                                                                            \
    REQUIRE_RUNNING();                                                                             \
    Owner owner { process().bsend }
#define COMM_OWNER()                                                                               \
    REQUIRE_RUNNING();                                                                             \
    Communicator* found = resolve(comm);                                                           \
    REQUIRE(found, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");                     \
    Owner owner { found->bsend, found }
#define SESSION_OWNER()                                                                            \
    REQUIRE_RUNNING();                                                                             \
    Session* found = resolve(session);                                                             \
    REQUIRE(found, nullptr, MPI_ERR_SESSION, "session is not a valid session");                    \
    Owner owner { found->bsend, nullptr, found }

POMONA_MPI(int, Buffer_attach_c, (void* buffer, MPI_Count size)) {
    PROCESS_OWNER();
    return attach(__func__, owner, buffer, size);
}
POMONA_MPI(int, Buffer_detach_c, (void* buffer_addr, MPI_Count* size)) {
    PROCESS_OWNER();
    return detach(__func__, owner, buffer_addr, size);
}
POMONA_MPI(int, Buffer_flush, (void)) {
    PROCESS_OWNER();
    return flush_buffer(owner);
}
POMONA_MPI(int, Buffer_iflush, (MPI_Request* request)) {
    PROCESS_OWNER();
    return iflush_buffer(__func__, owner, request);
}

POMONA_MPI(int, Comm_attach_buffer_c, (MPI_Comm comm, void* buffer, MPI_Count size)) {
    COMM_OWNER();
    return attach(__func__, owner, buffer, size);
}
POMONA_MPI(int, Comm_detach_buffer_c, (MPI_Comm comm, void* buffer_addr, MPI_Count* size)) {
    COMM_OWNER();
    return detach(__func__, owner, buffer_addr, size);
}
POMONA_MPI(int, Comm_flush_buffer, (MPI_Comm comm)) {
    COMM_OWNER();
    return flush_buffer(owner);
}
POMONA_MPI(int, Comm_iflush_buffer, (MPI_Comm comm, MPI_Request* request)) {
    COMM_OWNER();
    return iflush_buffer(__func__, owner, request);
}

POMONA_MPI(int, Session_attach_buffer_c, (MPI_Session session, void* buffer, MPI_Count size)) {
    SESSION_OWNER();
    return attach(__func__, owner, buffer, size);
}
POMONA_MPI(int, Session_detach_buffer_c, (MPI_Session session, void* buffer_addr, MPI_Count* size)) {
    SESSION_OWNER();
    return detach(__func__, owner, buffer_addr, size);
}
POMONA_MPI(int, Session_flush_buffer, (MPI_Session session)) {
    SESSION_OWNER();
    return flush_buffer(owner);
}
POMONA_MPI(int, Session_iflush_buffer, (MPI_Session session, MPI_Request* request)) {
    SESSION_OWNER();
    return iflush_buffer(__func__, owner, request);
}
