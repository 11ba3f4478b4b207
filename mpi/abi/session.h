// mpi/abi/session.h: an MPI session: an error handler, and one use of the library.
#pragma once

#include "mpi/object/errhandler.h"
#include "mpi/p2p/bsend.h"

#include <memory>
#include <string>

namespace pomona {

class Session final : public Object {
public:
    Session() : Object(Kind::session) {}
    Ref<Errhandler> errhandler;
    std::unique_ptr<BsendBuffer> bsend;  // guarded by Process::bsend_mutex
};

// So that mpirun can say what a process has left open that ends without MPI_Session_finalize.
void tell_of_sessions();
// Fails through the session's own error handler.
int session_fail(const char* function, Session* session, int code, const std::string& sentence);
// Null when the handle is none.
Session* resolve(MPI_Session handle);

}  // namespace pomona
