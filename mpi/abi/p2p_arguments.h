// mpi/abi/p2p_arguments.h: checking and decoding of the arguments that all point-to-point calls
// have.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/p2p/engine.h"

#include <functional>
#include <vector>

namespace pomona {

inline constexpr int kTagMax = 0x7fffffff;  // MPI_TAG_UB

// What check() gives where all is right and the program is checked: the call goes by p2p_checked.h.
inline constexpr int kChecked = -1;

struct MessageArguments {
    Communicator* comm = nullptr;
    Data data;

    Engine& engine() const { return comm->process.engine; }

protected:
    // Are these what right calls have? The sentences for wrong ones, and the rare right ones
    // (MPI_BOTTOM, long types and counts, types that systems have unlike), are in
    // check_data_closely().
    bool decode(const void* buffer, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm_handle) {
        comm = resolve(comm_handle);
        data = {const_cast<void*>(buffer), count, resolve(datatype)};
        bool right = process().open_to_all.load(std::memory_order_relaxed) && comm && data.type &&
                     data.type->plain && buffer && buffer != MPI_IN_PLACE &&
                     static_cast<uint64_t>(count) <= Datatype::kCountPlain;
        return __builtin_expect(right, 1);
    }
    // With this peer one may speak: in a communicator that is not revoked, by a tag.
    bool names(int peer, int tag) const {
        return __builtin_expect(static_cast<unsigned>(peer) < comm->ranks_open && tag >= 0, 1);
    }
    // 0, or the code that the MPI function returns.
    int check_data_closely(const char* function, const void* buffer, MPI_Count count,
                           MPI_Datatype datatype, MPI_Comm comm_handle);
    // Of a type that is not plain: does the peer have it alike?
    int check_format(const char* function, int peer);
};

// check(): 0, or the code that the MPI function returns. What right calls need is inline and has
// one way through, so that nothing is kept or asked twice.
struct SendArguments : MessageArguments {
    int check(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int dest, int tag, MPI_Comm comm_handle) {
        if (!decode(buffer, count, datatype, comm_handle))
            return check_closely(function, buffer, count, datatype, dest, tag, comm_handle);
        return names(dest, tag) ? MPI_SUCCESS : refuse(function, "dest", dest, tag);
    }
    int check_closely(const char* function, const void* buffer, MPI_Count count,
                      MPI_Datatype datatype, int dest, int tag, MPI_Comm comm_handle);
    int refuse(const char* function, const char* argument, int rank, int tag);
};

struct RecvArguments : MessageArguments {
    int check(const char* function, const void* buffer, MPI_Count count, MPI_Datatype datatype,
              int source, int tag, MPI_Comm comm_handle) {
        if (!decode(buffer, count, datatype, comm_handle))
            return check_closely(function, buffer, count, datatype, source, tag, comm_handle);
        return names(source, tag) ? MPI_SUCCESS : check_source(function, comm, source, tag);
    }
    int check_closely(const char* function, const void* buffer, MPI_Count count,
                      MPI_Datatype datatype, int source, int tag, MPI_Comm comm_handle);
    int check_wild(const char* function, int source, int tag);
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

// An operation's failure, through the error handler; names the peer and the tag: the outcome's or,
// where it has none, those that were asked for.
int fail_peer(const char* function, Communicator* comm, const Outcome& outcome, Envelope asked);

using PartMaker = std::function<P2pRequest*(Communicator& comm, const Data& data, Envelope envelope,
                                            bool is_send)>;
// A complete request with MPI_PROC_NULL; the persistent form may be started any number of times.
Request* make_null_request(Communicator& comm);
Request* make_null_persistent(Communicator& comm);
// A message's packed copy, for the _replace forms.
std::vector<std::byte> packed(const Data& data);
// The parts of such a request: made, and not started.
P2pRequest* make_part(Communicator& comm, const Data& data, Envelope envelope, bool is_send);
// One request for a send and a receive; `kept` lives until both are complete.
Request* start_exchange(Data send, Envelope to, Data recv, Envelope from, Communicator& comm,
                        std::vector<std::byte> kept, PartMaker make = make_part);

}  // namespace pomona
