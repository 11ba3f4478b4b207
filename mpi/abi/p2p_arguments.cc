// mpi/abi/p2p_arguments.cc: the sentences for wrong arguments, and small request classes.
#include "mpi/abi/p2p_arguments.h"

#include "mpi/abi/comm_internal.h"
#include "mpi/runtime/unlike.h"

namespace pomona {

int MessageArguments::check_data_closely(const char* function, const void* buffer, MPI_Count count,
                                         MPI_Datatype datatype, MPI_Comm comm_handle) {
    if (int error = enter(function)) return error;
    comm = resolve(comm_handle);
    if (__builtin_expect(!comm, 0))
        return fail(function, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
    data.type = resolve(datatype);
    if (__builtin_expect(!data.type, 0))
        return fail(function, comm, MPI_ERR_TYPE, "datatype is not a valid datatype");
    if (__builtin_expect(!data.type->committed, 0))
        return fail(function, comm, MPI_ERR_TYPE,
                    "datatype is not committed; call MPI_Type_commit");
    if (__builtin_expect(count < 0, 0))
        return fail(function, comm, MPI_ERR_COUNT,
                    format("count is {}; it must not be negative", count));
    if (__builtin_expect(count > data.type->count_most(), 0))
        return fail(function, comm, MPI_ERR_COUNT, too_many_text("count", count, *data.type));
    // MPI_BOTTOM is null: right for types with absolute addresses only.
    if (__builtin_expect(!buffer && count > 0 && data.type->size() > 0 && data.type->predefined(),
                         0))
        return fail(function, comm, MPI_ERR_BUFFER,
                    format("buf is a null pointer, with a count of {}", count));
    if (__builtin_expect(buffer == MPI_IN_PLACE && count > 0, 0))
        return fail(function, comm, MPI_ERR_BUFFER,
                    "buf is MPI_IN_PLACE, which only collectives take");
    data.buffer = const_cast<void*>(buffer);
    data.count = count;
    return MPI_SUCCESS;
}

// What an MPI_ANY_SOURCE receive may meet its sender refuses.
int MessageArguments::check_format(const char* function, int peer) {
    int right = comm->process.checker ? kChecked : MPI_SUCCESS;
    if (data.type->plain || data.count == 0) return right;
    std::string why = unlike_format(*comm, *data.type, peer);
    return why.empty() ? right : fail(function, comm, MPI_ERR_TYPE, why);
}

// Of any source, or with any tag; and wrong arguments.
int RecvArguments::check_wild(const char* function, int source, int tag) {
    int error = check_source(function, comm, source, tag);
    if (error != MPI_SUCCESS || source == MPI_PROC_NULL) return error;
    return comm->process.checker ? kChecked : MPI_SUCCESS;
}

int SendArguments::check_closely(const char* function, const void* buffer, MPI_Count count,
                                 MPI_Datatype datatype, int dest, int tag, MPI_Comm comm_handle) {
    if (int error = check_data_closely(function, buffer, count, datatype, comm_handle))
        return error;
    return names(dest, tag) ? check_format(function, dest) : refuse(function, "dest", dest, tag);
}

int RecvArguments::check_closely(const char* function, const void* buffer, MPI_Count count,
                                 MPI_Datatype datatype, int source, int tag, MPI_Comm comm_handle) {
    if (int error = check_data_closely(function, buffer, count, datatype, comm_handle))
        return error;
    return names(source, tag) ? check_format(function, source) : check_wild(function, source, tag);
}

// What is no plain right call: a revoked communicator, MPI_PROC_NULL, or wrong arguments.
int SendArguments::refuse(const char* function, const char* argument, int rank, int tag) {
    if (comm->revoked) return fail_revoked(function, comm);
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    if (rank < 0 || rank >= comm->remote_size())
        return fail(function, comm, MPI_ERR_RANK,
                    format("{} is {}; the communicator has ranks 0 to {}", argument, rank,
                           comm->remote_size() - 1));
    return fail(function, comm, MPI_ERR_TAG, format("tag is {}; it must be 0 to {}", tag, kTagMax));
}

int RecvArguments::check_source(const char* function, Communicator* comm, int source, int tag) {
    if (__builtin_expect(static_cast<unsigned>(source) < comm->ranks_open && tag >= 0, 1))
        return MPI_SUCCESS;
    if (comm->revoked) return fail_revoked(function, comm);
    if (source == MPI_PROC_NULL) return MPI_SUCCESS;
    if (source != MPI_ANY_SOURCE && (source < 0 || source >= comm->remote_size()))
        return fail(function, comm, MPI_ERR_RANK,
                    format("source is {}; the communicator has ranks 0 to {}", source,
                           comm->remote_size() - 1));
    if (tag < 0 && tag != MPI_ANY_TAG)
        return fail(function, comm, MPI_ERR_TAG,
                    format("tag is {}; it must be 0 to {} or MPI_ANY_TAG", tag, kTagMax));
    return MPI_SUCCESS;
}

int fail_revoked(const char* function, Communicator* comm) {
    return fail(function, comm, MPIX_ERR_REVOKED,
                format("The communicator{}{} has been revoked (rank {})",
                       comm->name.empty() ? "" : " ", comm->name, comm->rank()));
}

int fail_peer(const char* function, Communicator* comm, const Outcome& outcome, Envelope asked) {
    Outcome named = outcome;
    if (named.source < 0) named.source = asked.rank;
    if (named.tag < 0) named.tag = asked.tag;
    return fail(function, comm, outcome.error, end_text(*comm, named));
}

// ---- requests without messages

namespace {

class NullRequest final : public Request {
public:
    NullRequest(Communicator& comm, bool persistent, Outcome outcome = proc_null_outcome())
        : Request(&comm) {
        outcome_ = outcome;
        persistent_ = inactive_ = persistent;
        done_.store(1, std::memory_order_relaxed);  // nobody else has seen it yet
    }
    int start() override {
        inactive_ = false;
        return MPI_SUCCESS;
    }
};

// A send and a receive under one handle; complete when both are.
class ExchangeRequest final : public Request {
public:
    ExchangeRequest(Communicator& comm, std::vector<std::byte> kept)
        : Request(&comm), kept_(std::move(kept)) {}

    void part_done(Engine& engine, Request& part) override {
        const Outcome& ended = part.outcome();
        bool failed = outcome_.error != MPI_SUCCESS;
        int error = failed ? outcome_.error : ended.error;
        const char* reason = failed ? outcome_.reason : ended.reason;
        if (&part == receive) outcome_ = ended;
        outcome_.error = error;
        outcome_.reason = reason;
        if (--parts == 0) engine.complete(*this);
    }

    Request* receive = nullptr;
    int parts = 1;  // one more than the operations started, until all are

private:
    std::vector<std::byte> kept_;
};

}  // namespace

Request* make_null_request(Communicator& comm) { return new NullRequest(comm, false); }
Request* make_empty_request(Communicator& comm) { return new NullRequest(comm, false, Outcome{}); }
Request* make_null_persistent(Communicator& comm) { return new NullRequest(comm, true); }

std::vector<std::byte> packed(const Data& data) {
    std::vector<std::byte> copy(static_cast<size_t>(data.count * data.type->size()));
    if (!copy.empty()) data.type->pack(data.buffer, data.count, 0, copy);
    return copy;
}

P2pRequest* make_part(Communicator& comm, const Data& data, Envelope envelope, bool is_send) {
    P2pRequest* part = comm.process.engine.prepare(comm, data, envelope);
    part->is_send = is_send;
    return part;
}

Request* start_exchange(Data send, Envelope to, Data recv, Envelope from, Communicator& comm,
                        std::vector<std::byte> kept, PartMaker make) {
    Engine& engine = comm.process.engine;
    auto* whole = new ExchangeRequest(comm, std::move(kept));
    Engine::Hold hold(engine);
    engine.hold_for_engine(*whole);
    Request* parts[2] = {};
    if (from.rank != MPI_PROC_NULL) {
        P2pRequest* part = make(comm, recv, from, false);
        part->parent = whole;
        parts[0] = whole->receive = part;
    }
    if (to.rank != MPI_PROC_NULL) {
        P2pRequest* part = make(comm, send, to, true);
        part->parent = whole;
        parts[1] = part;
    }
    for (Request* part : parts) whole->parts += part != nullptr;
    for (Request* part : parts)
        if (part) engine.start_part(*static_cast<P2pRequest*>(part));
    NullRequest none(comm, false);
    if (!whole->receive) whole->receive = &none;  // the outcome of MPI_PROC_NULL
    whole->part_done(engine, none);
    return whole;
}

}  // namespace pomona
