// mpi/trace/objects.h: what the trace knows of communicators and of requests under way.
// Idea: a communicator gets a number on this rank and one that is the same on all its ranks, made
// of its members and of how many with these members came before it; all ranks make those in the
// same order. Ranks in communicators are told as ranks of MPI_COMM_WORLD.
#pragma once

#include "mpi/include/mpi.h"
#include "mpi/trace/recorder.h"

#include <vector>

namespace pomona::trace {

struct CommInfo {
    uint32_t number = 0;
    int size = 0, peers = 0;     // of the own group, of the group that is sent to
    std::vector<int32_t> world;  // of the group that is sent to: ranks of MPI_COMM_WORLD

    int32_t peer(int rank) const {
        return rank >= 0 && static_cast<size_t>(rank) < world.size()
                   ? world[static_cast<size_t>(rank)]
                   : kNobody;
    }
};

const CommInfo& comm_info(MPI_Comm comm);
void add_comm(MPI_Comm comm);
// It is not complete yet; its members are those of `like`.
void add_comm_like(MPI_Comm comm, MPI_Comm like);
void forget_comm(MPI_Comm comm);
void rename_comm(MPI_Comm comm, const char* name);

struct RequestInfo {
    Kind kind = Kind::call;  // send, receive, collective; call: anything else
    bool persistent = false, active = false;
    const CommInfo* comm = nullptr;
    int32_t peer = kNobody;
    int32_t tag = 0;
    uint64_t bytes = 0;
    int64_t order = 0;
};
void add_request(MPI_Request request, const RequestInfo& info);
// When a persistent one is started.
void start_request(MPI_Request request, Function function, int64_t now);
void forget_request(MPI_Request request);
// Of requests about to be waited for: copied, since completing one may free it. False: not known.
bool find_request(MPI_Request request, RequestInfo& out);
// It is complete: only persistent ones are kept.
void end_request(MPI_Request request, const RequestInfo& info);

// What MPI_Mprobe has taken out.
void add_message(MPI_Message message, const RequestInfo& info);
RequestInfo take_message(MPI_Message message);

// Windows: who their ranks are.
void add_window(MPI_Win window, MPI_Comm comm);
void forget_window(MPI_Win window);
void set_target(Record& record, MPI_Win window, int rank);

uint64_t bytes_of(MPI_Count count, MPI_Datatype type);
template <class Count> uint64_t bytes_of(const Count* counts, int length, MPI_Datatype type) {
    MPI_Count sum = 0;
    for (int i = 0; i < length; ++i) sum += counts[i];
    return bytes_of(sum, type);
}
template <class Count>
uint64_t bytes_of(const Count* counts, int length, const MPI_Datatype* types) {
    uint64_t sum = 0;
    for (int i = 0; i < length; ++i) sum += bytes_of(counts[i], types[i]);
    return sum;
}

// What a receive has got: into its record, or one of its own.
void set_received(Record& record, const CommInfo& comm, const MPI_Status& status);

}  // namespace pomona::trace
