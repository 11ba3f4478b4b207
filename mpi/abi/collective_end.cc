// mpi/abi/collective_end.cc: what happens to a collective call once it is decoded: run, started, or
// kept to be started. And when a communicator's board is made.
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/comm_internal.h"
#include "mpi/check/checker.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/inter_schedule.h"

#include <utility>

namespace pomona {

using coll::Collective;

static void complete_plan(CollectivePlan& plan) {
    if (plan.comm->is_inter() && plan.shape.collective != Collective::neighbor)
        build_inter_schedule(plan);
}

// The board is made in the first operation that all members call alike and that none ends before
// all have come: a root's bcast must not begin to wait. But see make_board_when_long().
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

static void make_board(CollectivePlan& plan) {
    if (!makes_board(plan)) return;
    if (plan.check) return plan.makes_board = true, void();  // if the others call the same
    Engine::Hold hold(plan.comm->process.engine);
    collective_state(*plan.comm).make_board(plan.shape);
}

// A bcast or reduce that is so long that no rank leaves it before others have come, anyway.
constexpr size_t kLongRooted = 64 << 10;
constexpr int kRootedWithout = 2;

// On a communicator that knows nothing else, as a row of a matrix, long blocking ones make the
// board, after some that may have been all. False: there is one, or will be none.
static bool make_board_when_long(CollectivePlan& plan) {
    Collective collective = plan.shape.collective;
    bool rooted = collective == Collective::bcast || collective == Collective::reduce;
    if (!rooted || plan.comm->is_inter() || plan.shape.irregular) return false;
    CollectiveState& state = collective_state(*plan.comm);
    if (state.board_begun() || plan.shape.bytes() < kLongRooted) return false;
    if (state.count_rooted() > kRootedWithout) {
        Engine::Hold hold(plan.comm->process.engine);
        state.make_board(plan.shape);
    }
    return true;
}

// Errors of steps know the other rank by its number in the job.
static int fail_member(const char* f, Communicator* comm, const Outcome& failed) {
    std::string sentence = failed.reason ? failed.reason : "The operation failed";
    if (failed.source >= 0)
        sentence +=
            format(" (rank {}, the member is rank {} of the job)", comm->rank(), failed.source);
    return fail(f, comm, failed.error, sentence);
}

// Of a program that is checked: is the call's memory in use?
[[gnu::cold, gnu::noinline]] static int check_closely(const char* f, const CollectivePlan& plan) {
    std::string problem;
    {
        Engine::Hold hold(plan.comm->process.engine);
        problem = plan.comm->process.checker->in_use(*plan.check);
    }
    return problem.empty() ? MPI_SUCCESS : fail(f, plan.comm, MPI_ERR_BUFFER, problem);
}

static int check_memory(const char* f, const CollectivePlan& plan) {
    return __builtin_expect(!plan.check, 1) ? MPI_SUCCESS : check_closely(f, plan);
}

int finish_blocking(const char* f, CollectivePlan& plan) {
    if (int error = check_memory(f, plan)) return error;
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

int BlockingCall::finish(CollectivePlan& plan, const void* input, void* result) {
    if (plan.check) return finish_blocking(f_, plan);
    // All are counted, so none of these is kept.
    if (make_board_when_long(plan)) return finish_blocking(f_, plan);
    const void* bound_input = plan.input;
    void* bound_result = plan.result;
    const CallLists* lists = comm_ ? lists_ : nullptr;
    comm_ = plan.comm;
    make_board(plan);
    Outcome made = collective_state(*comm_).await_board();
    if (__builtin_expect(made.error != MPI_SUCCESS, 0)) return fail_member(f_, comm_, made);
    RepeatedCall* call = keep_call(plan, key_, lists, input, result);
    if (!call) return finish_blocking(f_, plan);
    return begin_call(*call, bound_input, bound_result) ? MPI_SUCCESS : wait(*call);
}

int finish_nonblocking(const char* f, CollectivePlan& plan, MPI_Request* request) {
    if (!request) return fail(f, plan.comm, MPI_ERR_ARG, "request is a null pointer");
    if (int error = check_memory(f, plan)) return error;
    complete_plan(plan);
    make_board(plan);
    *request = handle_of<MPI_Request>(start_collective(std::move(plan), false));
    return MPI_SUCCESS;
}

namespace {
struct Verdict final : CheckedOperation {
    explicit Verdict(Engine& engine) : engine(engine) {}
    void judged(const char* sentence) override { wrong = sentence, tell(); }
    void abandoned(const Error& why) override {
        failed = CollectiveRequest::outcome_of(why);
        tell();
    }
    // Another thread may be the one that polls.
    void tell() {
        known = true;
        engine.notify();
    }
    Engine& engine;
    bool known = false;
    const char* wrong = nullptr;
    Outcome failed;
};
}  // namespace

static int await_verdict(const char* f, Communicator& comm, CollectiveCall call) {
    if (!Checker::compares(comm)) return MPI_SUCCESS;
    Engine& engine = comm.process.engine;
    CollectiveChecks& checks = comm.process.checker->collectives;
    Verdict verdict(engine);
    {
        Engine::Hold hold(engine);
        collective_state(comm);  // is told when a member fails
        checks.begin(comm, std::move(call), verdict);
    }
    engine.wait_until(Described{[&] { return verdict.known; },
                                [&](Waiting& out) {
                                    checks.describe(comm, verdict, out);
                                    out.communicator = name_for_people(comm);
                                }});
    if (verdict.wrong) return fail(f, &comm, MPI_ERR_NOT_SAME, verdict.wrong);
    if (verdict.failed.error != MPI_SUCCESS) return fail_member(f, &comm, verdict.failed);
    return MPI_SUCCESS;
}

int check_same_call(const char* f, Communicator& comm) {
    return await_verdict(f, comm, CollectiveCall(mpi_name(f)));
}

int check_same_group(const char* f, Communicator& comm, const Group& group) {
    if (!Checker::compares(comm)) return MPI_SUCCESS;
    CollectiveCall call(mpi_name(f));
    call.give_group(group, *comm.group);
    return await_verdict(f, comm, std::move(call));
}

int finish_persistent(const char* f, CollectivePlan& plan, MPI_Info info, MPI_Request* request) {
    if (!request) return fail(f, plan.comm, MPI_ERR_ARG, "request is a null pointer");
    if (!resolve(info) && info != MPI_INFO_NULL)
        return fail(f, plan.comm, MPI_ERR_INFO, "info is not a valid info object");
    if (plan.check)
        if (int error = await_verdict(f, *plan.comm, *plan.check)) return error;
    complete_plan(plan);
    *request = handle_of<MPI_Request>(start_collective(std::move(plan), true));
    return MPI_SUCCESS;
}

}  // namespace pomona
