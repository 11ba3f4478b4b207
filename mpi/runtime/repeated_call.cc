// mpi/runtime/repeated_call.cc: finding, keeping and running prepared calls.
#include "mpi/runtime/repeated_call.h"

#include "mpi/runtime/collective_state.h"

namespace pomona {

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

void CollectiveRequest::prepare_repeated(CollectivePlan&& plan) {
    plan_ = std::move(plan);
    comm_ = plan_.comm;
    if (plan_.operation) set_operation();
    CollectiveState& state = collective_state(*comm_);
    choose(state.has_boards, state.board.get());
    function = ended;
}

inline bool CollectiveRequest::begin_repeated(const void* input, void* result) {
    number_ = comm_->sequence++;
    carrier_.number(number_);
    coll::Binding binding;
    binding.input = input;
    binding.result = result;
    binding.reducer = plan_.operation ? &reducer_ : nullptr;
    binding.stream = streams_;
    coll::StepId from = 0;
    if (__builtin_expect(carrier_.may_run_ahead(), 1)) {
        from = runner_.run_ahead(carrier_, binding);
        if (from == schedule_->steps().size()) return carrier_.over(), true;
    }
    done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
    outcome_.error = MPI_SUCCESS;
    outcome_.reason = nullptr;
    comm_->collective->under_way.push_back(this);
    carrier_.begin(runner_);
    runner_.start(carrier_, binding, *this, from);
    return false;
}

RepeatedCall* keep_call(CollectivePlan& plan, const CallKey& key) {
    if (!worth_keeping(plan, key)) return nullptr;
    Engine::Hold hold(plan.comm->process.engine);
    if (plan.comm->ends_collectives()) return nullptr;
    RepeatedCall& call = collective_state(*plan.comm).repeated[key.slot()];
    if (call.running) return nullptr;
    call.key = key;
    call.request = std::make_unique<CollectiveRequest>();
    call.request->prepare_repeated(std::move(plan));
    call.running = true;
    return &call;
}

// Whoever only makes calls that are over at once polls nothing else; others may wait for its
// messages.
static constexpr uint32_t kTurnEvery = 64;

Repeated repeat_call(Communicator& comm, const CallKey& key, const void* input, void* result,
                     RepeatedCall*& call) {
    if (!comm.collective) return Repeated::unknown;
    Engine& engine = comm.process.engine;
    {
        Engine::Hold hold(engine);
        RepeatedCall& kept = comm.collective->repeated[key.slot()];
        if (!kept.request || kept.running || kept.key != key) return Repeated::unknown;
        if (!kept.request->begin_repeated(input, result)) {
            kept.running = true;
            call = &kept;
            return Repeated::under_way;
        }
        if (__builtin_expect(++kept.at_once % kTurnEvery != 0, 1)) return Repeated::over;
    }
    engine.test_turn();
    return Repeated::over;
}

bool begin_call(RepeatedCall& call, const void* input, void* result) {
    Engine::Hold hold(call.request->comm()->process.engine);
    call.running = !call.request->begin_repeated(input, result);
    return !call.running;
}

int finish_call(RepeatedCall& call, Outcome& failed) {
    CollectiveRequest& request = *call.request;
    Engine& engine = request.comm()->process.engine;
    engine.wait(request);
    int error = request.outcome().error;
    if (__builtin_expect(error != MPI_SUCCESS, 0)) failed = request.outcome();
    Engine::Hold hold(engine);
    call.running = false;
    return error;
}

}  // namespace pomona
