// mpi/runtime/repeated_call.cc: finding, keeping and running prepared calls.
#include "mpi/runtime/repeated_call.h"

#include "mpi/check/checker.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona {

std::vector<std::byte> CallLists::copy() const {
    std::vector<std::byte> copied;
    for (auto list : all()) copied.insert(copied.end(), list.begin(), list.end());
    return copied;
}

bool CallLists::equal(const std::vector<std::byte>& copied) const {
    const std::byte* at = copied.data();
    for (auto list : all()) {
        if (std::memcmp(at, list.data(), list.size()) != 0) return false;
        at += list.size();
    }
    return true;
}

// FNV-1a, by words. Source: Fowler, Noll, Vo.
uint64_t CallLists::hash() const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (auto list : all()) {
        for (size_t at = 0; at + 8 <= list.size(); at += 8) {
            uint64_t word;
            std::memcpy(&word, list.data() + at, 8);
            hash = (hash ^ word) * 0x100000001b3u;
        }
    }
    return hash;
}

static bool worth_keeping(const CollectivePlan& plan, const CallKey& key) {
    auto predefined = [](auto handle) {
        return reinterpret_cast<uintptr_t>(handle) < kBuiltinHandles;
    };
    if (plan.comm->is_inter() || plan.own_schedule || plan.raw) return false;
    if (plan.input_staging || plan.result_staging) return false;
    if (!predefined(key.send_type) || !predefined(key.recv_type) || !predefined(key.op))
        return false;
    // A block each, or blocks of their own; barriers have none.
    size_t bytes = plan.shape.irregular
                       ? std::max({plan.shape.bytes(), total_bytes(plan.input_blocks),
                                   total_bytes(plan.result_blocks)})
                       : plan.shape.bytes() * static_cast<size_t>(plan.comm->size());
    return bytes <= kRepeatedBytes &&
           (bytes > 0 || plan.shape.collective == coll::Collective::barrier);
}

void CollectiveRequest::prepare_repeated(CollectivePlan&& plan) {
    plan_ = std::move(plan);
    comm_ = plan_.comm;
    if (plan_.operation) set_operation();
    CollectiveState& state = collective_state(*comm_);
    choose(state.has_boards, state.board.get());
    if (!schedule_->uses_board()) runner_.order_messages();
    function = ended;
}

[[gnu::always_inline]] inline bool CollectiveRequest::begin_repeated(const void* input,
                                                                     void* result) {
    number_ = comm_->sequence++;
    carrier_.number(number_);
    coll::Binding binding;
    binding.input = input;
    binding.result = result;
    binding.reducer = plan_.operation ? &reducer_ : nullptr;
    binding.stream = streams_;
    coll::Ahead ahead;
    if (__builtin_expect(carrier_.may_run_ahead(), 1)) {
        ahead.steps = runner_.run_ahead(carrier_, binding);
        if (ahead.steps == schedule_->steps().size()) return carrier_.over(), true;
    } else if (carrier_.may_run_messages_ahead()) {
        ahead.ordered = run_messages_ahead(binding);
        if (ahead.ordered == schedule_->steps().size()) return carrier_.messages_over(), true;
    }
    start_repeated(binding, ahead);
    return false;
}

// Apart from begin_repeated(), so that this is short where a board ends the call at once.
coll::StepId CollectiveRequest::run_messages_ahead(const coll::Binding& binding) {
    coll::StepId ordered = runner_.run_messages_ahead(carrier_, binding);
    comm()->process.engine.leave_turns();
    return ordered;
}

void CollectiveRequest::start_repeated(const coll::Binding& binding, coll::Ahead ahead) {
    done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
    outcome_.error = MPI_SUCCESS;
    outcome_.reason = nullptr;
    comm_->collective->under_way.push_back(this);
    carrier_.begin(runner_);
    runner_.start(carrier_, binding, *this, ahead);
    // A member has failed while this one looked for messages, so it was told of no collective.
    if (__builtin_expect(comm_->ends_collectives() && !done(), 0)) fail(why_ended(*comm_));
}

static ptrdiff_t shift(const void* buffer, const void* bound) {
    return buffer && bound
               ? static_cast<const std::byte*>(bound) - static_cast<const std::byte*>(buffer)
               : 0;
}

RepeatedCall* keep_call(CollectivePlan& plan, const CallKey& key, const CallLists* lists,
                        const void* input, void* result) {
    if (!worth_keeping(plan, key) || key.listed() != (lists != nullptr)) return nullptr;
    Engine::Hold hold(plan.comm->process.engine);
    if (plan.comm->ends_collectives()) return nullptr;
    RepeatedCall& call = collective_state(*plan.comm).repeated[key.slot()];
    if (call.running) return nullptr;
    if (lists) {
        uint64_t seen = lists->hash();
        if (std::exchange(call.seen, seen) != seen) return nullptr;
        call.lists = lists->copy();
        call.input_shift = shift(input, plan.input);
        call.result_shift = shift(result, plan.result);
    }
    call.key = key;
    call.request = std::make_unique<CollectiveRequest>();
    call.request->prepare_repeated(std::move(plan));
    call.running = true;
    return &call;
}

// Whoever only makes calls that are over at once polls nothing else; others may wait for its
// messages. So a call makes a turn where Engine::pass() would look at the clock.
//
// `adjust`: whether it is the call after all, and then where its blocks begin.
template <class Adjust> static inline Repeated repeat(Communicator& comm, const CallKey& key,
                                                      const void* input, void* result,
                                                      RepeatedCall*& call, Adjust adjust) {
    if (!comm.collective) return Repeated::unknown;
    Engine& engine = comm.process.engine;
    {
        Engine::Hold hold(engine);
        RepeatedCall& kept = comm.collective->repeated[key.slot()];
        if (!kept.request || kept.running || kept.key != key) return Repeated::unknown;
        if (!adjust(kept, input, result)) return Repeated::unknown;
        if (!kept.request->begin_repeated(input, result)) {
            kept.running = true;
            call = &kept;
            return Repeated::under_way;
        }
        if (__builtin_expect(!engine.look_is_due(), 1)) return Repeated::over;
        engine.look_at_passes();
    }
    engine.test_turn();
    return Repeated::over;
}

Repeated repeat_call(Communicator& comm, const CallKey& key, const void* input, void* result,
                     RepeatedCall*& call) {
    return repeat(comm, key, input, result, call,
                  [](const RepeatedCall&, const void*&, void*&) { return true; });
}

Repeated repeat_call(Communicator& comm, const CallKey& key, const CallLists& lists,
                     const void* input, void* result, RepeatedCall*& call) {
    return repeat(comm, key, input, result, call,
                  [&](const RepeatedCall& kept, const void*& first, void*& into) {
                      if (!lists.equal(kept.lists)) return false;
                      if (first) first = static_cast<const std::byte*>(first) + kept.input_shift;
                      if (into) into = static_cast<std::byte*>(into) + kept.result_shift;
                      return true;
                  });
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

int run_barrier_again(Communicator& comm) {
    const CallKey key;
    RepeatedCall* call = nullptr;
    const Repeated state = repeat_call(comm, key, nullptr, nullptr, call);
    if (__builtin_expect(state == Repeated::over, 1)) return MPI_SUCCESS;
    Outcome failed;
    if (state == Repeated::under_way) return finish_call(*call, failed);
    if (comm.process.checker) return run_barrier(comm);
    CollectivePlan plan = plan_barrier(comm);
    CollectiveState& own = collective_state(comm);
    {
        Engine::Hold hold(comm.process.engine);
        own.make_board(plan.shape, kBoardStrips / 2);
    }
    if (Outcome made = own.await_board(); made.error != MPI_SUCCESS) return made.error;
    call = keep_call(plan, key, nullptr, nullptr, nullptr);
    if (!call) return run_collective(std::move(plan), failed);
    return begin_call(*call, nullptr, nullptr) ? MPI_SUCCESS : finish_call(*call, failed);
}

}  // namespace pomona
