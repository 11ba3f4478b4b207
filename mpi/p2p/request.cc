// mpi/p2p/request.cc: how an operation's end is told.
#include "mpi/p2p/request.h"

#include "btl/base/format.h"
#include "mpi/object/communicator.h"
#include "mpi/object/last_error.h"
#include "mpi/p2p/status.h"

namespace pomona {

std::string whom_text(const Outcome& outcome) {
    std::string text = outcome.source >= 0 ? format("peer {}", outcome.source) : "";
    if (outcome.tag < 0) return text;
    return format("{}, tag {}", text.empty() ? "any peer" : text, outcome.tag);
}

std::string end_text(const Communicator& comm, const Outcome& outcome) {
    std::string whom = whom_text(outcome);
    return format("{} (rank {}{}{})", outcome.reason ? outcome.reason : "The operation failed",
                  comm.rank(), whom.empty() ? "" : ", ", whom);
}

int Request::finish(MPI_Status* status) {
    set_status(status, outcome_);
    // A completion callback is only told the code.
    if (__builtin_expect(outcome_.error != MPI_SUCCESS, 0) && comm_)
        keep_sentence(outcome_.error, end_text(*comm_, outcome_));
    return outcome_.error;
}

}  // namespace pomona
