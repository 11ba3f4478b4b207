// mpi/abi/collective_end.cc: what happens to a collective call once it is decoded: run, started, or kept to
// be started. And when a communicator's board is made.
#include "mpi/abi/collective_plan.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/inter_schedule.h"

#include <utility>

namespace pomona {

using coll::Collective;

static void complete_plan(CollectivePlan& plan) {
    if (plan.comm->is_inter() && plan.shape.collective != Collective::neighbor)
        build_inter_schedule(plan);
}

// The board is made in the first operation that all members call alike and that none ends before all have
// come: a root's bcast must not begin to wait.
static bool makes_board(const CollectivePlan& plan) {
    if (plan.comm->is_inter() || plan.shape.irregular) return false;
    switch (plan.shape.collective) {
    case Collective::allreduce:
    case Collective::allgather:
    case Collective::reduce_scatter:
    case Collective::alltoall: return plan.shape.bytes() != 0;
    case Collective::barrier: return true;
    default: return false;
    }
}

static void make_board(const CollectivePlan& plan) {
    if (!makes_board(plan)) return;
    Engine::Hold hold(plan.comm->process.engine);
    collective_state(*plan.comm).make_board(plan.shape);
}

// Until all members know whether there is one; of use to what is kept for calls to come. Returns the error
// if that could not be found out.
static Outcome await_board(const CollectivePlan& plan) {
    make_board(plan);
    CollectiveState& state = collective_state(*plan.comm);
    if (!state.making) return {};
    state.making_failed = {};
    plan.comm->process.engine.wait_until(
        Described{[&] { return state.making == nullptr; },
                  [&](Waiting& out) { state.describe_making(out); }});
    return state.making_failed;
}

// Errors of steps know the other rank by its number in the job.
static int fail_member(const char* f, Communicator* comm, const Outcome& failed) {
    std::string sentence = failed.reason ? failed.reason : "The operation failed";
    if (failed.source >= 0)
        sentence +=
            format(" (rank {}, the member is rank {} of the job)", comm->rank(), failed.source);
    return fail(f, comm, failed.error, sentence);
}

int finish_blocking(const char* f, CollectivePlan& plan) {
    complete_plan(plan);
    make_board(plan);
    Communicator* comm = plan.comm;
    Outcome failed;
    int error = run_collective(std::move(plan), failed);
    if (__builtin_expect(error == MPI_SUCCESS, 1)) return MPI_SUCCESS;
    return fail_member(f, comm, failed);
}

int BlockingCall::wait(RepeatedCall& call) {
    Outcome failed;
    int error = finish_call(call, failed);
    if (__builtin_expect(error == MPI_SUCCESS, 1)) return MPI_SUCCESS;
    return fail_member(f_, comm_, failed);
}

int BlockingCall::finish(CollectivePlan& plan) {
    const void* input = plan.input;
    void* result = plan.result;
    Outcome made = await_board(plan);
    if (__builtin_expect(made.error != MPI_SUCCESS, 0)) return fail_member(f_, comm_, made);
    RepeatedCall* call = keep_call(plan, key_);
    if (!call) return finish_blocking(f_, plan);
    return begin_call(*call, input, result) ? MPI_SUCCESS : wait(*call);
}

int finish_nonblocking(const char* f, CollectivePlan& plan, MPI_Request* request) {
    if (!request) return fail(f, plan.comm, MPI_ERR_ARG, "request is a null pointer");
    complete_plan(plan);
    make_board(plan);
    *request = handle_of<MPI_Request>(start_collective(std::move(plan), false));
    return MPI_SUCCESS;
}

int finish_persistent(const char* f, CollectivePlan& plan, MPI_Info info, MPI_Request* request) {
    if (!request) return fail(f, plan.comm, MPI_ERR_ARG, "request is a null pointer");
    if (!resolve(info) && info != MPI_INFO_NULL)
        return fail(f, plan.comm, MPI_ERR_INFO, "info is not a valid info object");
    complete_plan(plan);
    *request = handle_of<MPI_Request>(start_collective(std::move(plan), true));
    return MPI_SUCCESS;
}

}  // namespace pomona
