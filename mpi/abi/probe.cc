// mpi/abi/probe.cc: MPI_Probe, MPI_Mprobe and receives of matched messages.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/p2p_checked.h"
#include "mpi/p2p/status.h"

using namespace pomona;

// Decodes and checks (source, tag, comm); returns from the MPI function when they are wrong.
#define PROBE_ARGUMENTS()                                                                          \
    REQUIRE_RUNNING();                                                                             \
    Communicator* owner = resolve(comm);                                                           \
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");                     \
    if (int error = RecvArguments::check_source(__func__, owner, source, tag)) return error;       \
    Engine& engine = owner->process.engine

POMONA_MPI(int, Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status)) {
    PROBE_ARGUMENTS();
    Outcome outcome = proc_null_outcome();
    if (source != MPI_PROC_NULL) engine.probe(*owner, {source, tag}, outcome);
    set_status(status, outcome);
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(__func__, owner, outcome, {source, tag});
}

POMONA_MPI(int, Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)) {
    PROBE_ARGUMENTS();
    REQUIRE(flag, owner, MPI_ERR_ARG, "flag is a null pointer");
    Outcome outcome = proc_null_outcome();
    *flag = source == MPI_PROC_NULL || engine.iprobe(*owner, {source, tag}, outcome);
    if (*flag) set_status(status, outcome);
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(__func__, owner, outcome, {source, tag});
}

POMONA_MPI(int, Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)) {
    PROBE_ARGUMENTS();
    REQUIRE(message, owner, MPI_ERR_ARG, "message is a null pointer");
    Outcome outcome = proc_null_outcome();
    *message = MPI_MESSAGE_NO_PROC;
    if (source != MPI_PROC_NULL) {
        Message* taken = engine.mprobe(*owner, {source, tag}, outcome);
        *message = taken ? handle_of<MPI_Message>(taken) : MPI_MESSAGE_NULL;
    }
    set_status(status, outcome);
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(__func__, owner, outcome, {source, tag});
}

POMONA_MPI(int, Improbe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                          MPI_Status* status)) {
    PROBE_ARGUMENTS();
    REQUIRE(flag && message, owner, MPI_ERR_ARG, "flag or message is a null pointer");
    Outcome outcome = proc_null_outcome();
    *flag = 1;
    *message = MPI_MESSAGE_NO_PROC;
    if (source != MPI_PROC_NULL) {
        Message* taken = engine.improbe(*owner, {source, tag}, outcome);
        *flag = taken != nullptr;
        *message = taken ? handle_of<MPI_Message>(taken) : MPI_MESSAGE_NULL;
    }
    if (*flag) set_status(status, outcome);
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(__func__, owner, outcome, {source, tag});
}

// Decodes the message and the data of a matched receive.
static int decode_matched(const char* function, MPI_Message* message, void* buf, MPI_Count count,
                          MPI_Datatype datatype, Message** matched, Data* data) {
    *matched = message ? resolve(*message) : nullptr;
    if (!*matched)
        return fail(function, nullptr, MPI_ERR_REQUEST, "message is not a matched message");
    Communicator* comm = (*matched)->comm;
    data->type = resolve(datatype);
    if (!data->type) return fail(function, comm, MPI_ERR_TYPE, "datatype is not a valid datatype");
    if (count < 0) return fail(function, comm, MPI_ERR_COUNT, format("count is {}", count));
    if (!buf && count > 0 && data->type->predefined() && *message != MPI_MESSAGE_NO_PROC)
        return fail(function, comm, MPI_ERR_BUFFER, "buf is a null pointer");
    data->buffer = buf;
    data->count = count;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Mrecv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
                          MPI_Status* status)) {
    REQUIRE_RUNNING();
    Message* matched;
    Data data;
    if (int error = decode_matched(__func__, message, buf, count, datatype, &matched, &data))
        return error;
    bool no_proc = *message == MPI_MESSAGE_NO_PROC;
    *message = MPI_MESSAGE_NULL;
    if (no_proc) return set_status(status, proc_null_outcome()), MPI_SUCCESS;
    Communicator* comm = matched->comm;
    Outcome outcome;
    if (comm->process.checker) {
        if (int error = checked_mrecv(__func__, matched, data, outcome)) return error;
    } else {
        outcome = comm->process.engine.mrecv(matched, data);
    }
    set_status(status, outcome);
    if (outcome.error == MPI_SUCCESS) return MPI_SUCCESS;
    return fail_peer(__func__, comm, outcome, {outcome.source, outcome.tag});
}

POMONA_MPI(int, Imrecv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
                           MPI_Request* request)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_ARG, "request is a null pointer");
    Message* matched;
    Data data;
    if (int error = decode_matched(__func__, message, buf, count, datatype, &matched, &data))
        return error;
    bool no_proc = *message == MPI_MESSAGE_NO_PROC;
    *message = MPI_MESSAGE_NULL;
    if (!no_proc && matched->comm->process.checker)
        return checked_start_mrecv(__func__, matched, data, request);
    Request* made = no_proc ? make_null_request(*process().self())
                            : static_cast<Request*>(process().engine.imrecv(matched, data));
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}
