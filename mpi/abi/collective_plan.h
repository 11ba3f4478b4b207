// mpi/abi/collective_plan.h: from the arguments of a collective call to a CollectivePlan.
// Idea: one function a collective checks and decodes; its blocking, non-blocking and persistent
// forms share it. Each returns 0 or the code that the MPI function returns.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/runtime/collective_request.h"
#include "mpi/runtime/repeated_call.h"

namespace pomona {

using Counts_c = const MPI_Count*;
using Displs_c = const MPI_Aint*;

struct SendSide {
    const void* buffer;
    MPI_Count count;
    MPI_Datatype type;
};
struct RecvSide {
    void* buffer;
    MPI_Count count;
    MPI_Datatype type;
};
// v- and w-forms: per rank; `types` only in w-forms (then displacements are bytes).
struct SendBlocks {
    const void* buffer;
    Counts_c counts;
    Displs_c displs;
    MPI_Datatype type;
    const MPI_Datatype* types;
};
struct RecvBlocks {
    void* buffer;
    Counts_c counts;
    Displs_c displs;
    MPI_Datatype type;
    const MPI_Datatype* types;
};

int plan_barrier(const char* f, CollectivePlan& plan, MPI_Comm comm);
int plan_bcast(const char* f, CollectivePlan& plan, RecvSide data, int root, MPI_Comm comm);
// reduce (root >= 0 form), allreduce, scan, exscan: by `collective`.
int plan_reduction(const char* f, CollectivePlan& plan, coll::Collective collective,
                   const void* send, RecvSide data, MPI_Op op, int root, MPI_Comm comm);
// `counts` null: the block form, `data.count` elements for everybody.
int plan_reduce_scatter(const char* f, CollectivePlan& plan, const void* send, RecvSide data,
                        Counts_c counts, MPI_Op op, MPI_Comm comm);
int plan_gather(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, int root,
                MPI_Comm comm);
int plan_gatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv, int root,
                 MPI_Comm comm);
int plan_scatter(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, int root,
                 MPI_Comm comm);
int plan_scatterv(const char* f, CollectivePlan& plan, SendBlocks send, RecvSide recv, int root,
                  MPI_Comm comm);
int plan_allgather(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv,
                   MPI_Comm comm);
int plan_allgatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv,
                    MPI_Comm comm);
int plan_alltoall(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, MPI_Comm comm);
int plan_alltoallv(const char* f, CollectivePlan& plan, SendBlocks send, RecvBlocks recv,
                   MPI_Comm comm);
// Neighborhood forms; `gather`: the same data to every destination.
int plan_neighbor(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, bool gather,
                  MPI_Comm comm);
int plan_neighbor_gatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv,
                          MPI_Comm comm);
int plan_neighbor_alltoallv(const char* f, CollectivePlan& plan, SendBlocks send, RecvBlocks recv,
                            MPI_Comm comm);

// What plan_... refuses or treats apart; a known call then takes the long way.
inline bool usable(const void* buffer) { return buffer && buffer != MPI_IN_PLACE; }
inline bool usable(const void* send, const void* recv) {
    return usable(recv) && send && send != recv;
}

// A blocking call that may have been made before with the same key (mpi/runtime/repeated_call.h).
// Use: of a v-form, list() what is significant; when the buffers pass the checks that depend on
// addresses and it has been repeated(), return its error(); else plan, and finish().
class BlockingCall {
public:
    // `lists`: of a v-form, still empty.
    BlockingCall(const char* f, MPI_Comm comm, const CallKey& key, CallLists* lists = nullptr)
        : f_(f), key_(key), lists_(lists) {
        if (!process().open_to_all.load(std::memory_order_relaxed)) return;
        comm_ = resolve(comm);
    }
    BlockingCall(const BlockingCall&) = delete;
    BlockingCall& operator=(const BlockingCall&) = delete;

    bool at(int root) const { return comm_ && comm_->rank() == root; }
    // Counts or displacements of a v-form, one for each rank.
    template <class Value> void list(const Value* values) {
        if (!comm_) return;
        if (!values || comm_->is_inter()) return comm_ = nullptr, void();  // it takes the long way
        lists_->add(std::as_bytes(std::span(values, static_cast<size_t>(comm_->size()))));
    }
    // `input` and `result`: of a v-form the user's buffers, else as in CollectivePlan.
    bool repeated(const void* input, void* result) {
        if (!comm_) return false;
        RepeatedCall* call = nullptr;
        Repeated state = lists_ ? repeat_call(*comm_, key_, *lists_, input, result, call)
                                : repeat_call(*comm_, key_, input, result, call);
        if (__builtin_expect(state == Repeated::under_way, 0)) error_ = wait(*call);
        return state != Repeated::unknown;
    }
    int error() const { return error_; }  // what the MPI function returns
    const char* function() const { return f_; }
    // `input` and `result`: of a v-form, as for repeated().
    int finish(CollectivePlan& plan, const void* input = nullptr, void* result = nullptr);

private:
    int wait(RepeatedCall& call);

    const char* f_;
    const CallKey& key_;
    Communicator* comm_ = nullptr;
    CallLists* lists_;
    int error_ = MPI_SUCCESS;
};

// The three endings.
int finish_blocking(const char* f, CollectivePlan& plan);
int finish_nonblocking(const char* f, CollectivePlan& plan, MPI_Request* request);
int finish_persistent(const char* f, CollectivePlan& plan, MPI_Info info, MPI_Request* request);

}  // namespace pomona
