// mpi/abi/p2p_arguments.h: checking and decoding of the arguments that all point-to-point calls have.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/p2p/engine.h"

#include <vector>

namespace pomona {

inline constexpr int kTagMax = 0x7fffffff;  // MPI_TAG_UB

struct MessageArguments {
    Communicator* comm = nullptr;
    Data data;

    Engine& engine() const { return comm->process.engine; }

protected:
    // 0, or the code that the MPI function returns. Here what right calls need; the sentences for
    // wrong ones, and the rare right ones (MPI_BOTTOM), are in check_closely().
    int check_data(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
                   MPI_Comm comm_handle) {
        comm = resolve(comm_handle);
        data = {const_cast<void*>(buffer), count, resolve(datatype)};
        bool right = process().state.load(std::memory_order_relaxed) == Process::State::running &&
                     comm && data.type && data.type->plain && count >= 0 && buffer &&
                     buffer != MPI_IN_PLACE;
        if (__builtin_expect(right, 1)) return MPI_SUCCESS;
        closely_ = true;
        return check_closely(function, buffer, count, datatype, comm_handle);
    }
    // Of a type that is not plain: does the peer have it alike?
    int check_format(const char* function, int peer) {
        return closely_ ? check_format_closely(function, peer) : MPI_SUCCESS;
    }
    int check_closely(const char* function, const void* buffer, MPI_Count count,
                      MPI_Datatype datatype, MPI_Comm comm_handle);
    int check_format_closely(const char* function, int peer);

private:
    bool closely_ = false;
};

struct SendArguments : MessageArguments {
    int check(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int dest, int tag, MPI_Comm comm_handle) {
        if (int error = check_data(function, buffer, count, datatype, comm_handle)) return error;
        if (__builtin_expect(static_cast<unsigned>(dest) < comm->ranks_open && tag >= 0, 1))
            return check_format(function, dest);
        return refuse(function, "dest", dest, tag);
    }
    int refuse(const char* function, const char* argument, int rank, int tag);
};

struct RecvArguments : MessageArguments {
    int check(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int source, int tag, MPI_Comm comm_handle) {
        if (int error = check_data(function, buffer, count, datatype, comm_handle)) return error;
        if (__builtin_expect(static_cast<unsigned>(source) < comm->ranks_open && tag >= 0, 1))
            return check_format(function, source);
        return check_source(function, comm, source, tag);
    }
    static int check_source(const char* function, Communicator* comm, int source, int tag);
};

// The outcome of a receive from MPI_PROC_NULL.
inline Outcome proc_null_outcome() {
    Outcome outcome;
    outcome.source = MPI_PROC_NULL;
    return outcome;
}

// The failure of an operation on a communicator that has been revoked, through the error handler.
int fail_revoked(const char* function, Communicator* comm);

// An operation's failure, through the error handler; names the peer.
int fail_peer(const char* function, Communicator* comm, const Outcome& outcome, int rank);

// A complete request with MPI_PROC_NULL; the persistent form may be started any number of times.
Request* make_null_request(Communicator& comm);
Request* make_null_persistent(Communicator& comm);
// One request for a send and a receive; `kept` lives until both are complete.
Request* start_exchange(Data send, Envelope to, Data recv, Envelope from, Communicator& comm,
                        std::vector<std::byte> kept);

}  // namespace pomona
