// mpi/runtime/repeated_call.cc: finding, keeping and running prepared calls.
#include "mpi/runtime/repeated_call.h"

#include "mpi/runtime/collective_state.h"

namespace pomona {

RepeatedCall* find_repeated(Communicator& comm, const CallKey& key) {
    if (!comm.collective) return nullptr;
    Engine::Hold hold(comm.process.engine);
    RepeatedCall& call = comm.collective->repeated[key.slot()];
    if (!call.request || call.running || call.key != key) return nullptr;
    call.running = true;
    return &call;
}

static bool worth_keeping(const CollectivePlan& plan, const CallKey& key) {
    auto predefined = [](auto handle) {
        return reinterpret_cast<uintptr_t>(handle) < kBuiltinHandles;
    };
    if (plan.comm->is_inter() || plan.own_schedule || plan.raw) return false;
    if (plan.input_staging || plan.result_staging) return false;
    if (!predefined(key.send_type) || !predefined(key.recv_type) || !predefined(key.op))
        return false;
    // A block each; barriers have none.
    size_t bytes = plan.shape.bytes() * static_cast<size_t>(plan.comm->size());
    return bytes <= kRepeatedBytes &&
           (bytes > 0 || plan.shape.collective == coll::Collective::barrier);
}

RepeatedCall* keep_repeated(CollectivePlan& plan, const CallKey& key) {
    if (!worth_keeping(plan, key)) return nullptr;
    Engine::Hold hold(plan.comm->process.engine);
    RepeatedCall& call = collective_state(*plan.comm).repeated[key.slot()];
    if (call.running) return nullptr;
    call.key = key;
    call.request = std::make_unique<CollectiveRequest>();
    call.request->prepare_repeated(std::move(plan));
    call.running = true;
    return &call;
}

// Whoever only makes calls that are over at once polls nothing else; others may wait for its messages.
static constexpr uint32_t kTurnEvery = 64;

int run_repeated(RepeatedCall& call, const void* input, void* result, Outcome& failed) {
    CollectiveRequest& request = *call.request;
    Engine& engine = request.comm()->process.engine;
    bool over = false, turn = false;
    {
        Engine::Hold hold(engine);
        over = request.begin_repeated(input, result);
        if (over) call.running = false, turn = ++call.at_once % kTurnEvery == 0;
    }
    if (__builtin_expect(over, 1)) {
        if (turn) engine.test_turn();
        return MPI_SUCCESS;
    }
    engine.wait(request);
    int error = request.outcome().error;
    if (__builtin_expect(error != MPI_SUCCESS, 0)) failed = request.outcome();
    Engine::Hold hold(engine);
    call.running = false;
    return error;
}

}  // namespace pomona
