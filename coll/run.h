// coll/run.h: executes a Schedule on a Carrier.
// Idea: counters of open dependencies, a queue of ready steps, and one completion per step. Nothing
// blocks and nothing is allocated once a Runner has run its schedule, so a persistent collective
// keeps its Runner. Completions may arrive at once, later or nested; the caller holds the engine.
// Failures are of two kinds. A broken connection ends the execution: what is under way is
// withdrawn. Lost data (a device failed in a reduction) does not: see spread() in run.cc.
#pragma once

#include "coll/carrier.h"
#include "coll/reducer.h"
#include "coll/reducing_receive.h"
#include "coll/schedule.h"

#include <memory>
#include <vector>

namespace pomona::coll {

// What gate steps wait for.
struct Gate {
    void (*wait)(Gate* self, int number, Completion& done) = nullptr;
};

// Addresses for one execution. For in-place shapes see Shape::in_place.
struct Binding {
    const void* input = nullptr;
    void* result = nullptr;
    const Reducer* reducer = nullptr;
    Gate* gate = nullptr;
    bool stream = false;    // copies into the result go past the caches, which would not hold it
    bool symbolic = false;  // simulation without data: addresses are never followed
};

// Steps that are over before an execution starts: the first by number, or the first in the order of
// messages (Runner::order_messages()).
struct Ahead {
    StepId steps = 0;
    StepId ordered = 0;
};

class Runner {
public:
    Runner() = default;
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    // Makes ready for `schedule`, which must outlive the executions. Allocates only when it is
    // larger than those before.
    // `symbolic`: no scratch memory, see Binding.
    void prepare(const Schedule& schedule, bool symbolic = false);
    // Starts; `done` is called once, with the first error if there was one, when no step is under
    // way any more. It may be called inside start(), and may start the Runner again or destroy it.
    // The steps of `ahead` are over already.
    void start(Carrier& carrier, const Binding& binding, Completion& done, Ahead ahead = {});
    // Does the steps one after the other, as far as each is over at once, or soon; returns the
    // first that is not, or their number. Nobody is told, so small collectives on a board, whose
    // members come together, take two thirds of the time. The carrier has, besides:
    //     bool post_now(ConstBytes data, size_t said);
    //     bool look_now(int peer, size_t offset, size_t said, Bytes target);
    // which are post() and look() where these are over at once; else false, and nothing has
    // happened.
    template <class ShortCarrier> StepId run_ahead(ShortCarrier& carrier, const Binding& binding);
    // The same of a schedule by messages, after order_messages(): each send goes as soon as it can,
    // since others wait for it. The carrier has
    //     bool send_now(int peer, int slot, ConstBytes data);
    //     bool recv_now(int peer, int slot, Bytes data);
    // which are send() and recv() likewise. Returns how many steps are over.
    void order_messages();
    template <class ShortCarrier>
    StepId run_messages_ahead(ShortCarrier& carrier, const Binding& binding);
    bool running() const { return running_; }
    const Schedule& schedule() const { return *schedule_; }  // prepared for
    Code failed_by() const { return failed_ ? error_.code : Code::ok; }
    // The steps under way, for reports.
    template <class Function> void each_active(Function function) const {
        if (!running_) return;
        auto steps = schedule_->steps();
        for (StepId id = 0; id < steps.size(); ++id)
            if (states_[id].active) function(steps[id]);
    }
    // Something of it has failed: it ends with an error.
    bool failed() const { return failed_; }
    // Ends the execution early with this error: starts no more steps and withdraws those under way.
    void fail(const Error& error);
    // The same where others have failed with whom this rank shares memory: it waits for nothing
    // there any more, and tells by its messages those that wait for them.
    void fail_and_tell(const Error& error);

private:
    struct State : Completion {
        Runner* runner = nullptr;
        StepId step = 0;
        bool active = false;
        size_t left = 0;                     // of a reduction or copy in parts, bytes to come
        ReducingReceive* receive = nullptr;  // which has done this reduction
    };

    static void on_completion(Completion* self, const Error* error);
    void complete(StepId step, const Error* error);
    void note(const Step& step, const Error& error);
    void release(const Step& step);
    void take_next(StepId id);
    void drain();
    void bind(Carrier& carrier, const Binding& binding);
    template <class ShortCarrier> bool look_soon(ShortCarrier& carrier, const Step& step);
    bool start_step(StepId id);  // true: over already
    bool hand_over(const Step& step, State& state);
    bool receive_reducing(StepId id);
    bool begin_parts(const Step& step, State& state);
    bool put_aside(const Step& step, State& state);
    bool next_part(const Step& step, State& state);
    void do_part(const Step& step, State& state);
    bool apart(const Step& step) const;
    void run_local(const Step& step);
    void spread();
    void leave_board();
    void cancel_all();
    std::byte* address(Buffer buffer, size_t offset) const {
        if (__builtin_expect(buffer == Buffer::chunks, 0))
            return carrier_->chunk(chunk_rank(offset), chunk_index(offset)) + within_chunk(offset);
        return bases_[static_cast<int>(buffer)] + offset;
    }

    ConstBytes read_by(const Step& step) const {
        if (!step.length) return {};
        return {address(step.source, step.source_offset), step.length};
    }
    Bytes written_by(const Step& step) const {
        if (!step.length) return {};
        return {address(step.target, step.target_offset), step.length};
    }

    const Schedule* schedule_ = nullptr;
    Carrier* carrier_ = nullptr;
    Completion* done_ = nullptr;
    const Reducer* reducer_ = nullptr;
    Gate* gate_ = nullptr;
    std::byte* bases_[kBuffers] = {};
    std::unique_ptr<uint32_t[]> open_;  // dependencies not yet over, by step
    std::unique_ptr<StepId[]> ready_;   // each step enters once
    std::vector<StepId> order_;         // of messages
    std::unique_ptr<State[]> states_;
    std::unique_ptr<std::byte[]> scratch_;
    std::unique_ptr<ReducingReceive[]> reducing_;  // by the schedule's reduced_receives()
    size_t steps_max_ = 0, scratch_max_ = 0, reducing_max_ = 0;
    uint32_t ready_head_ = 0, ready_tail_ = 0;
    uint32_t active_ = 0;
    bool running_ = false, draining_ = false, failed_ = false, cancelled_ = false;
    bool spreading_ = false;  // failed, and its messages go on to tell the others
    bool off_board_ = false;  // spreading, by messages alone
    bool models_time_ = false, symbolic_ = false, stream_ = false;
    Error error_;
};

inline void Runner::bind(Carrier& carrier, const Binding& binding) {
    check(schedule_ && !running_);
    carrier_ = &carrier;
    reducer_ = binding.reducer;
    gate_ = binding.gate;
    symbolic_ = binding.symbolic, stream_ = binding.stream;
    bases_[static_cast<int>(Buffer::input)] =
        static_cast<std::byte*>(const_cast<void*>(binding.input));
    bases_[static_cast<int>(Buffer::result)] = static_cast<std::byte*>(binding.result);
}

// A step depends only on steps before it, so their own order is one that serves.
template <class ShortCarrier>
StepId Runner::run_ahead(ShortCarrier& carrier, const Binding& binding) {
    bind(carrier, binding);
    auto steps = schedule_->steps();
    for (StepId id = 0; id < steps.size(); ++id) {
        const Step& step = steps[id];
        switch (step.kind) {
        case StepKind::post:
            if (!carrier.post_now(read_by(step), step.other_offset)) return id;
            break;
        case StepKind::look:
            if (!look_soon(carrier, step)) return id;
            break;
        case StepKind::reduce:
            if (reducer_->begin) return id;
            [[fallthrough]];
        case StepKind::copy: run_local(step); break;
        case StepKind::join: break;
        default: return id;
        }
    }
    return static_cast<StepId>(steps.size());
}

template <class ShortCarrier>
StepId Runner::run_messages_ahead(ShortCarrier& carrier, const Binding& binding) {
    bind(carrier, binding);
    auto steps = schedule_->steps();
    StepId over = 0;
    for (; over < order_.size(); ++over) {
        const Step& step = steps[order_[over]];
        switch (step.kind) {
        case StepKind::send:
            if (!carrier.send_now(step.peer, step.slot, read_by(step))) return over;
            break;
        case StepKind::recv:
            if (!carrier.recv_now(step.peer, step.slot, written_by(step))) return over;
            break;
        case StepKind::reduce:
            if (reducer_->begin) return over;
            [[fallthrough]];
        case StepKind::copy: run_local(step); break;
        case StepKind::join: break;
        default: return over;
        }
    }
    return over;
}

// Members that came together are a line's way apart.
template <class ShortCarrier>
inline bool Runner::look_soon(ShortCarrier& carrier, const Step& step) {
    constexpr int looks = 64;
    Bytes target = written_by(step);
    for (int i = 0; i < looks; ++i)
        if (carrier.look_now(step.peer, step.source_offset, step.other_offset, target)) return true;
    return false;
}

}  // namespace pomona::coll
