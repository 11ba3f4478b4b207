// mpi/runtime/collective_request.cc: staging, start and end of collective requests.
#include "mpi/runtime/collective_request.h"

#include "btl/base/check.h"
#include "btl/base/clock.h"
#include "btl/base/messages.h"
#include "btl/base/stream_copy.h"
#include "coll/cost.h"
#include "mpi/check/checker.h"
#include "mpi/object/contexts.h"
#include "mpi/object/lifetime.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/collectives.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace pomona {

// ---- reductions by Operation

void CollectiveLists::take(CollectiveLists&& other) noexcept {
    input_blocks = std::move(other.input_blocks), result_blocks = std::move(other.result_blocks);
    sources = std::move(other.sources), destinations = std::move(other.destinations);
    input_pieces = std::move(other.input_pieces), result_pieces = std::move(other.result_pieces);
}

void CollectiveRequest::take(CollectivePlan&& plan) {
    plan_ = std::move(plan);
    comm_ = plan_.comm;
    if (outlives(*comm_)) comm_->retain();
    for (const auto& piece : plan_.input_pieces) piece.type->retain();
    for (const auto& piece : plan_.result_pieces) piece.type->retain();
    if (plan_.type && outlives(*plan_.type)) plan_.type->retain();
    if (plan_.operation) {
        if (outlives(*plan_.operation)) plan_.operation->retain();
        set_operation();
    }
    input_staging_.resize(plan_.input_staging);
    result_staging_.resize(plan_.result_staging);
}

// Do the ranks of this machine copy more into their results than its caches hold? Only of those
// that do nothing else: measured, a bcast's receivers gain 1.8 times at 16 MiB, ranks that write
// chunks or add up at the same time nothing (docs/bench).
static bool fills_caches(const coll::Schedule& schedule, const coll::Shape& shape,
                         const Params& params) {
    if (!kStreamCopy || schedule.taken_bytes() < coll::kAskBytes) return false;
    size_t least = params.stream_min ? params.stream_min : third_level_cache();
    size_t ranks =
        shape.nodes.empty()
            ? static_cast<size_t>(shape.size)
            : static_cast<size_t>(std::count(shape.nodes.begin(), shape.nodes.end(),
                                             shape.nodes[static_cast<size_t>(shape.rank)]));
    return least && schedule.taken_bytes() >= least / ranks;
}

void CollectiveRequest::choose(bool has_boards, Board* board) {
    plan_.shape.board = has_boards;
    CollectiveState& state = collective_state(*comm_);
    const auto& chosen = plan_.own_schedule ? plan_.own_schedule : state.schedule(plan_.shape);
    if (schedule_ != chosen) {  // most requests are taken again for the shape of last time
        schedule_ = chosen;
        runner_.prepare(*schedule_);
        streams_ = fills_caches(*schedule_, plan_.shape, comm_->process.params);
        carrier_.label(*comm_, plan_.shape);
    }
    carrier_.attach(*comm_, board, *schedule_, context(), state.watched_beside(board, *schedule_),
                    plan_.shape);
}

// Half of the strips are left for communicators.
void CollectiveRequest::make_persistent() {
    persistent_ = inactive_ = true;
    starts_ = 0;
    started_early_ = false;
    if (!plan_.own_schedule && !plan_.shape.irregular)
        making_ = BoardMaking::prepare(*comm_, context(), *this, plan_.shape, kBoardStrips / 2);
    if (making_) making_->start();
    else choose(false, nullptr);
}

// Of its messages and its board: a persistent one has its own.
uint64_t CollectiveRequest::context() const {
    uint64_t of_all = comm_->collective_context();
    return persistent_ ? combine(of_all, number_) | 1 : of_all;
}

// Without one, where it could not be found out: then that is the error of what was started
// meanwhile.
void CollectiveRequest::board_made(bool agreed, std::unique_ptr<Board> made, const Error* error) {
    making_ = nullptr;
    own_board_ = std::move(made);
    choose(agreed, own_board_.get());
    if (!std::exchange(started_early_, false)) return;
    if (error) refuse(*error);
    else run();
}

void CollectiveRequest::leave_making() {
    if (BoardMaking* making = std::exchange(making_, nullptr)) making->forget_owner();
}

// A user's function expects addresses as MPI has them: before the true lower bound.
void CollectiveRequest::OperationReducer::call(const void* left, void* inout, size_t count) const {
    auto shift = static_cast<ptrdiff_t>(type->true_lb());
    const auto* from = static_cast<const std::byte*>(left);
    auto* to = static_cast<std::byte*>(inout);
    if (packed) return call_unpacked(from, to, count);
    operation->reduce(from - shift, to - shift, static_cast<MPI_Count>(count), *type);
}

void CollectiveRequest::OperationReducer::call_unpacked(const std::byte* left, std::byte* inout,
                                                        size_t count) const {
    auto shift = static_cast<ptrdiff_t>(type->true_lb());
    auto size = static_cast<size_t>(type->size());
    auto reach = static_cast<size_t>(type->true_extent());
    std::vector<std::byte> one(reach), other(reach);
    std::byte *from = one.data() - shift, *to = other.data() - shift;
    for (size_t i = 0; i < count; ++i, left += size, inout += size) {
        type->unpack(from, 1, 0, {left, size});
        type->unpack(to, 1, 0, {inout, size});
        operation->reduce(from, to, 1, *type);
        type->pack(to, 1, 0, {inout, size});
    }
}

// Of long reductions the time is counted: two looks at the clock take less than a hundredth of it.
constexpr size_t kTimedBytes = 4096;

template <class Reduction>
void CollectiveRequest::OperationReducer::timed(size_t elements, Reduction&& reduction) const {
    if (__builtin_expect(elements * element_bytes < kTimedBytes, 1)) return reduction();
    const Nanoseconds start = RealClock().now();
    reduction();
    pomona::count(counters->reduce_ns, static_cast<uint64_t>(RealClock().now() - start));
}

void CollectiveRequest::OperationReducer::reduce_into(void* inout, const void* left,
                                                      size_t count) const {
    if (kernel) kernel->into(inout, left, count);
    else call(left, inout, count);
}

void CollectiveRequest::OperationReducer::reduce_to(void* out, const void* left, const void* right,
                                                    size_t count) const {
    if (kernel) return kernel->to(out, left, right, count);
    // A user's function only works in place, on its right operand.
    size_t bytes = count * static_cast<size_t>(packed ? type->size() : type->extent());
    if (out != left) {
        if (out != right) std::memcpy(out, right, bytes);
        call(left, out, count);
        return;
    }
    std::vector<std::byte> copy(bytes);
    std::memcpy(copy.data(), right, bytes);
    call(left, copy.data(), count);
    std::memcpy(out, copy.data(), bytes);
}

void CollectiveRequest::set_operation() {
    reducer_.operation = plan_.operation;
    reducer_.type = plan_.type;
    reducer_.packed = plan_.packed;
    reducer_.kernel = plan_.kernel;
    reducer_.element_bytes = static_cast<size_t>(plan_.type->size());
    reducer_.counters = &comm_->process.engine.counters();
    // All reductions of a short call are short: these need not ask.
    const coll::Shape& shape = plan_.shape;
    bool may_be_long =
        shape.irregular || shape.bytes() * static_cast<size_t>(shape.size) >= kTimedBytes;
    if (may_be_long) {
        reducer_.into = [](const coll::Reducer* self, void* inout, const void* left, size_t count) {
            auto& own = *static_cast<const OperationReducer*>(self);
            own.timed(count, [&] { own.reduce_into(inout, left, count); });
        };
        reducer_.to = [](const coll::Reducer* self, void* out, const void* left, const void* right,
                         size_t count) {
            auto& own = *static_cast<const OperationReducer*>(self);
            own.timed(count, [&] { own.reduce_to(out, left, right, count); });
        };
    } else {
        reducer_.into = [](const coll::Reducer* self, void* inout, const void* left, size_t count) {
            static_cast<const OperationReducer*>(self)->reduce_into(inout, left, count);
        };
        reducer_.to = [](const coll::Reducer* self, void* out, const void* left, const void* right,
                         size_t count) {
            static_cast<const OperationReducer*>(self)->reduce_to(out, left, right, count);
        };
    }
    reducer_.begin = nullptr;
    reducer_.any_run = reducer_.kernel && !reducer_.kernel->begin;
    if (reducer_.kernel && reducer_.kernel->begin) {
        reducer_.gates = &comm_->process.device_gates();
        reducer_.begin = begin_on_device;
    }
}

bool CollectiveRequest::begin_on_device(const coll::Reducer* self, void* out, const void* left,
                                        const void* right, size_t count, coll::Completion& done) {
    auto& own = *static_cast<const OperationReducer*>(self);
    int gate = own.gates->make();
    Status begun =
        own.kernel->begin(out, left, right, count, coll::Gates::opened, own.gates->opener(gate));
    if (begun) own.gates->wait_for(gate, done);
    else own.gates->drop(gate);
    return begun.ok();
}

void CollectiveRequest::drop_plan() {
    for (const auto& piece : plan_.input_pieces) piece.type->release();
    for (const auto& piece : plan_.result_pieces) piece.type->release();
    if (plan_.type && outlives(*plan_.type)) plan_.type->release();
    if (plan_.operation && outlives(*plan_.operation)) plan_.operation->release();
    plan_.input_pieces.clear();
    plan_.result_pieces.clear();
    plan_.operation = nullptr;
    plan_.type = nullptr;
}

CollectiveRequest::~CollectiveRequest() {
    leave_making();
    drop_plan();
}

// ---- staging

static std::byte* raw_base(std::vector<std::byte>& staging, const Datatype& type) {
    return staging.data() - type.true_lb();
}

// Copies elements between two buffers of the same layout, touching only the type's own bytes.
static void copy_elements(void* target, const void* source, MPI_Count count, const Datatype& type) {
    std::vector<std::byte> packed(static_cast<size_t>(count * type.size()));
    if (packed.empty()) return;
    type.pack(source, count, 0, packed);
    type.unpack(target, count, 0, packed);
}

void CollectiveRequest::stage_input() {
    bool into_result = plan_.one_buffer && plan_.result_staging;
    std::vector<std::byte>& staging = into_result ? result_staging_ : input_staging_;
    for (const StagedPiece& piece : plan_.input_pieces) {
        if (plan_.raw) {
            copy_elements(raw_base(staging, *piece.type), piece.buffer, piece.count, *piece.type);
            continue;
        }
        auto bytes = static_cast<size_t>(piece.count * piece.type->size());
        if (bytes)
            piece.type->pack(piece.buffer, piece.count, 0, {staging.data() + piece.offset, bytes});
    }
}

void CollectiveRequest::unstage_result() {
    for (const StagedPiece& piece : plan_.result_pieces) {
        if (plan_.raw) {
            copy_elements(piece.buffer, raw_base(result_staging_, *piece.type), piece.count,
                          *piece.type);
            continue;
        }
        auto bytes = static_cast<size_t>(piece.count * piece.type->size());
        if (bytes)
            piece.type->unpack(piece.buffer, piece.count, 0,
                               {result_staging_.data() + piece.offset, bytes});
    }
}

// ---- start and end

void CollectiveRequest::activate() {
    done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
    inactive_ = false;
    outcome_ = {};
    outcome_.source = MPI_ANY_SOURCE;
    comm_->process.engine.hold_for_engine(*this);
}

void CollectiveRequest::run() {
    if (__builtin_expect(comm_->ends_collectives(), 0)) {
        outcome_ = outcome_of(why_ended(*comm_));
        return comm_->process.engine.complete(*this);
    }
    stage_input();
    carrier_.number(persistent_ ? starts_++ : number_);
    carrier_.begin(runner_);
    coll::Binding binding;
    binding.input = plan_.input_staging ? input_staging_.data() : plan_.input;
    binding.result = plan_.result_staging ? result_staging_.data() : plan_.result;
    if (plan_.one_buffer && plan_.result_staging) binding.input = binding.result;
    if (plan_.one_buffer && plan_.input_staging) binding.result = input_staging_.data();
    binding.reducer = plan_.operation ? &reducer_ : nullptr;
    binding.stream = streams_;
    function = ended;
    comm_->collective->under_way.push_back(this);
    runner_.start(carrier_, binding, *this);
}

int CollectiveRequest::start() {
    activate();
    if (making_) started_early_ = true;
    else run();
    return MPI_SUCCESS;
}

void CollectiveRequest::ended(coll::Completion* self, const Error* error) {
    auto& request = *static_cast<CollectiveRequest*>(self);
    List<CollectiveRequest>::remove(&request);
    if (__builtin_expect(!error, 1)) {
        request.carrier_.end(nullptr);
        return request.conclude(nullptr);
    }
    Error why = *error;
    if (request.carrier_.end(&why)) request.conclude(&why);
}

void CollectiveRequest::conclude(const Error* error) {
    if (error) outcome_ = outcome_of(*error);
    else unstage_result();
    comm_->process.engine.complete(*this);
}

Outcome CollectiveRequest::outcome_of(const Error& error) {
    Outcome outcome;
    outcome.error = error.code == Code::truncated       ? MPI_ERR_TRUNCATE
                    : error.code == Code::data_lost     ? MPI_ERR_OTHER
                    : error.code == Code::out_of_memory ? MPI_ERR_NO_MEM
                    : error.code == Code::refused       ? MPIX_ERR_REVOKED
                                                        : MPIX_ERR_PROC_FAILED;
    outcome.reason = error.what[0] ? error.what : "A member of the communicator has ended";
    outcome.source = error.peer;
    return outcome;
}

void CollectiveRequest::recycle() {
    Engine::Hold hold(comm_->process.engine);
    recycle_held();
}

// Back to the communicator's idle ones, with its memory; the last user of a communicator goes too.
void CollectiveRequest::recycle_held() {
    Communicator* comm = comm_;
    leave_making();
    if (__builtin_expect(plan_.check != nullptr, 0)) leave_checks();
    own_board_ = nullptr;
    if (persistent_) comm->process.engine.drop_context(context());
    persistent_ = false;
    drop_plan();
    references_.store(1, std::memory_order_relaxed);  // nobody else refers to it
    callback_function = nullptr;
    auto& idle = collective_state(*comm).idle;
    if (idle.size() < 32) idle.push_back(this);
    else delete this;
    if (outlives(*comm)) comm->release();
}

// ---- of programs that are checked

void CollectiveRequest::launch_checked() {
    Checker& checker = *comm_->process.checker;
    CollectiveCall call(plan_.check ? *plan_.check : CollectiveCall(mpi_function_on_stack()));
    if (plan_.check) memory_use_ = checker.use(call.function, call.memory);
    if (Checker::compares(*comm_)) checker.collectives.begin(*comm_, std::move(call), *this);
    else judged(nullptr);
}

// In the same order at all members: boards and numbers are theirs together.
void CollectiveRequest::judged(const char* sentence) {
    if (sentence) {
        outcome_.error = MPI_ERR_NOT_SAME;
        outcome_.reason = sentence;
        return comm_->process.engine.complete(*this);
    }
    CollectiveState& state = collective_state(*comm_);
    if (plan_.makes_board) state.make_board(plan_.shape);
    take_number();
    if (state.making) state.postponed.push_back(this);
    else launch(state.has_boards, state.board.get());
}

void CollectiveRequest::leave_checks() {
    if (uint64_t use = std::exchange(memory_use_, 0)) comm_->process.checker->release(use);
    plan_.check = nullptr;
}

// ---- for the ABI and for the library itself

static CollectiveRequest* take_idle(Communicator& comm) {
    auto& idle = collective_state(comm).idle;
    if (idle.empty()) return new CollectiveRequest;
    CollectiveRequest* request = idle.back();
    idle.pop_back();
    return request;
}

CollectiveRequest* start_collective(CollectivePlan&& plan, bool persistent) {
    Communicator& comm = *plan.comm;
    Engine::Hold hold(comm.process.engine);
    CollectiveRequest* request = take_idle(comm);
    request->take(std::move(plan));
    if (__builtin_expect(comm.process.checker && !persistent, 0)) {
        request->activate();
        request->launch_checked();
        return request;
    }
    request->take_number();
    if (persistent) return request->make_persistent(), request;
    request->activate();
    CollectiveState& state = collective_state(comm);
    if (state.making) state.postponed.push_back(request);
    else request->launch(state.has_boards, state.board.get());
    comm.process.engine.leave_turns();
    return request;
}

int run_collective(CollectivePlan&& plan, Outcome& failed) {
    Engine& engine = plan.comm->process.engine;
    CollectiveRequest* request = start_collective(std::move(plan), false);
    engine.wait(*request);
    int error = request->outcome().error;
    if (error != MPI_SUCCESS) failed = request->outcome();
    request->release();
    return error;
}

static CollectivePlan plan_bytes(coll::Collective collective, Communicator& comm, size_t bytes,
                                 int root, const void* input, void* result) {
    CollectivePlan plan;
    plan.comm = &comm;
    plan.shape.collective = collective;
    plan.shape.rank = comm.rank();
    plan.shape.size = comm.size();
    plan.shape.root = root;
    plan.shape.count = bytes;
    plan.input = input;
    plan.result = result;
    return plan;
}
static int run_bytes(coll::Collective collective, Communicator& comm, size_t bytes, int root,
                     const void* input, void* result) {
    Outcome failed;
    return run_collective(plan_bytes(collective, comm, bytes, root, input, result), failed);
}

CollectivePlan plan_barrier(Communicator& comm) {
    return plan_bytes(coll::Collective::barrier, comm, 0, 0, nullptr, nullptr);
}
CollectiveRequest* start_barrier(Communicator& comm) {
    return start_collective(plan_barrier(comm), false);
}
int run_barrier(Communicator& comm) {
    Outcome failed;
    return run_collective(plan_barrier(comm), failed);
}
int run_bcast(Communicator& comm, void* data, size_t bytes, int root) {
    if (bytes == 0) return MPI_SUCCESS;
    return run_bytes(coll::Collective::bcast, comm, bytes, root, data, data);
}
int run_allgather(Communicator& comm, const void* mine, void* all, size_t bytes) {
    return run_bytes(coll::Collective::allgather, comm, bytes, 0, mine, all);
}
const char* why_unfinished(int error) {
    return error == MPI_ERR_NO_MEM     ? messages::shm_full
           : error == MPIX_ERR_REVOKED ? kRevokedText
                                       : "a member of the communicator has ended";
}

namespace {
struct StepWaiter : coll::Completion {
    explicit StepWaiter(Engine& engine) : engine(engine) {
        function = [](coll::Completion* self, const Error* error) {
            auto& own = *static_cast<StepWaiter*>(self);
            own.over = true;
            own.failed = error != nullptr;
            own.engine.notify();  // another thread may have been the one that polls
        };
    }
    Engine& engine;
    bool over = false;
    bool failed = false;
};
}  // namespace

// Beside the collectives' own messages: tags below zero, which those never have.
int exchange_leaders(Communicator& comm, int peer, int tag, const void* mine, size_t mine_bytes,
                     void* theirs, size_t theirs_bytes) {
    Engine& engine = comm.process.engine;
    StepWaiter received(engine), sent(engine);
    Peer& other = *comm.peers[peer];
    int mark = tag | INT_MIN;
    {
        Engine::Hold hold(engine);
        engine.recv_step(other, comm.collective_context(), peer, mark,
                         {static_cast<std::byte*>(theirs), theirs_bytes}, received);
        engine.send_step(other, comm.collective_context(), comm.rank(), mark,
                         {static_cast<const std::byte*>(mine), mine_bytes}, sent);
    }
    // Between the groups of an intercommunicator this is a part of its collectives: the other
    // leader may have left it because another member has failed.
    auto over = [&] { return received.over && sent.over; };
    auto left = [&] { return comm.is_inter() && comm.ends_collectives(); };
    auto tells = [&](Waiting& out) {
        out.communicator = name_for_people(comm);
        out.await(other.rank, received.over ? Need::receive : Need::message);
    };
    engine.wait_until(Described{[&] { return over() || left(); }, tells});
    if (!over()) {
        Engine::Hold hold(engine);
        constexpr uint8_t why = kFlagLost | kFlagFailure;
        if (!received.over) engine.cancel_step(comm.collective_context(), received, why);
        if (!sent.over) engine.cancel_step(comm.collective_context(), sent, why);
    }
    engine.wait_until(over);
    return received.failed || sent.failed ? MPIX_ERR_PROC_FAILED : MPI_SUCCESS;
}

}  // namespace pomona
