// mpi/check/checked_request.cc: see checked_request.h.
#include "mpi/check/checked_request.h"

#include "btl/base/format.h"
#include "mpi/check/signature.h"
#include "mpi/runtime/process.h"

namespace pomona {

// The user's name of a function of the library: "MPI_Irecv" for "PMPI_Irecv_c".
static std::string name_of(std::string_view function) {
    if (function.starts_with("PMPI")) function.remove_prefix(1);
    if (function.ends_with("_c")) function.remove_suffix(2);
    return std::string(function);
}

CheckedRequest::CheckedRequest(Checker& checker, const Checker::Call& call)
    : P2pRequest(nullptr), checker_(checker), function_(name_of(call.function)) {
    checked = cancellable = true;
    plain_ = false;  // its end is told to finish()
    call.comm->process.engine.adopt(*this, *call.comm, call.data, call.envelope);
    is_send = call.kind == Checker::Kind::send;
    mode = call.mode;
    persistent_ = inactive_ = call.persistent;
    if (is_send) types = call.types ? *call.types : signature_of(*call.data.type, call.data.count);
    checker_.add_request(this);
}

CheckedRequest::~CheckedRequest() {
    end();
    checker_.remove_request(this);
}

Memory CheckedRequest::memory() const { return {buffer, count, type, !is_send}; }

std::string CheckedRequest::text() const {
    return format("{} ({})", function_, message_text({is_send ? "to" : "from", rank, tag, bytes}));
}

void CheckedRequest::begin() {
    end();
    use_ = checker_.add({text(), {}, false}, {memory()});
}

void CheckedRequest::end() {
    if (use_) checker_.release(use_);
    use_ = 0;
}

// Starts a persistent one.
int CheckedRequest::start() {
    checker_.problem = checker_.conflict_text(memory(), "the buffer", 0);
    if (!checker_.problem.empty()) return MPI_ERR_BUFFER;
    begin();
    return P2pRequest::start();
}

// The user learns that it is over: the buffer is its own again.
int CheckedRequest::finish(MPI_Status* status) {
    {
        Engine::Hold hold(*engine);
        end();
    }
    return Request::finish(status);
}

// MPI_Request_free: what it still uses, nobody can say.
void CheckedRequest::give_up() {
    {
        Engine::Hold hold(*engine);
        held_ = false;
        end();
    }
    release();
}

void CheckedRequest::recycle() {
    Engine::Hold hold(*engine);
    recycle_held();
}

void CheckedRequest::recycle_held() {
    Engine& of = *engine;
    of.let_go(*this);
    delete this;
}

void CheckedRequest::met(const Header& header, uint64_t theirs) {
    if (!theirs || outcome_.error != MPI_SUCCESS) return;
    auto mine = signature_of_prefix(*type, count, header.length);
    if (mine && signatures_match(*mine, theirs)) return;
    outcome_.error = MPI_ERR_TYPE;
    outcome_.reason = checker_.keep(format("Types do not match: the sender gave {}, {} takes {}",
                                           signature_text(theirs, header.length), function_,
                                           elements_text(*type, count)));
}

}  // namespace pomona
