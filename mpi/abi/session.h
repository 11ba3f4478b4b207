// mpi/abi/session.h: an MPI session: an error handler, and one use of the library.
#pragma once

#include "mpi/object/errhandler.h"

namespace pomona {

class Session final : public Object {
public:
    Session() : Object(Kind::session) {}
    Ref<Errhandler> errhandler;
};

// Null when the handle is none.
Session* resolve(MPI_Session handle);

}  // namespace pomona
