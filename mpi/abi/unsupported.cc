// mpi/abi/unsupported.cc: the answer of functions that Pomona does not have.
#include "mpi/abi/unsupported.h"

#include "mpi/abi/errhandler.h"
#include "mpi/abi/guard.h"
#include "mpi/abi/session.h"

namespace pomona {

static const char kSentence[] =
    "Pomona does not have this function yet; docs/functions.md lists those it has";

int unsupported(const char* function, MPI_Comm comm) {
    return fail(function, resolve(comm), MPI_ERR_UNSUPPORTED_OPERATION, kSentence);
}

int unsupported(const char* function, MPI_Session session) {
    Session* owner = resolve(session);
    if (!owner) return unsupported(function, MPI_COMM_NULL);
    return fail_with(function, owner->errhandler.get(), &session, MPI_ERR_UNSUPPORTED_OPERATION,
                     kSentence);
}

// The handler of MPI_FILE_NULL answers, by default MPI_ERRORS_RETURN.
int unsupported(const char* function, MPI_File) {
    MPI_File none = MPI_FILE_NULL;
    return fail_with(function, file_errhandler().get(), &none, MPI_ERR_UNSUPPORTED_OPERATION,
                     kSentence);
}

int unsupported(const char* function, MPI_Win) { return unsupported(function, MPI_COMM_NULL); }

}  // namespace pomona
