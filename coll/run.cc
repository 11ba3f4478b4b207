// coll/run.cc: the Runner's loop.
#include "coll/run.h"

#include "btl/base/stream_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::coll {

// A long copy is done in parts, as a long reduction is. 64 KiB take 1.8 us where a byte takes 0.027
// ns (a Xeon, by pomona tune).
static constexpr size_t kCopyPart = 64 << 10;

static size_t part_of(const Step& step) {
    return step.kind == StepKind::copy ? kCopyPart : kReducePart;
}

static constexpr uint32_t kOver = ~uint32_t{0};  // in place of open dependencies

void Runner::prepare(const Schedule& schedule, bool symbolic) {
    check(!running_);
    schedule_ = &schedule;
    size_t steps = schedule.steps().size();
    if (steps > steps_max_) {
        open_.reset(new uint32_t[steps]);
        ready_.reset(new StepId[steps]);
        states_.reset(new State[steps]);
        for (StepId id = 0; id < steps; ++id) {
            states_[id].function = on_completion;
            states_[id].runner = this;
            states_[id].step = id;
        }
        steps_max_ = steps;
    }
    if (!symbolic && schedule.scratch_bytes() > scratch_max_) {
        scratch_.reset(new std::byte[schedule.scratch_bytes() + 64]);
        scratch_max_ = schedule.scratch_bytes();
    }
    size_t reducing = symbolic ? 0 : schedule.reduced_receives().size();
    if (reducing > reducing_max_) {
        reducing_.reset(new ReducingReceive[reducing]);
        reducing_max_ = reducing;
    }
    if (scratch_) {
        auto start = (reinterpret_cast<uintptr_t>(scratch_.get()) + 63) & ~uintptr_t{63};
        bases_[static_cast<int>(Buffer::scratch)] = reinterpret_cast<std::byte*>(start);
    }
}

// All that can be done without another message comes before the next receive.
void Runner::order_messages() {
    auto steps = schedule_->steps();
    for (size_t id = 0; id < steps.size(); ++id) open_[id] = steps[id].dependencies;
    order_.clear();
    while (order_.size() < steps.size()) {
        size_t before = order_.size();
        StepId receive = kNoStep;
        for (StepId id = 0; id < steps.size(); ++id) {
            if (open_[id] != 0) continue;
            if (steps[id].kind != StepKind::recv) take_next(id);
            else if (receive == kNoStep) receive = id;
        }
        if (order_.size() == before) take_next(receive);
    }
}

void Runner::take_next(StepId id) {
    order_.push_back(id);
    open_[id] = kOver;
    for (StepId next : schedule_->successors(schedule_->steps()[id])) --open_[next];
}

void Runner::start(Carrier& carrier, const Binding& binding, Completion& done, Ahead ahead) {
    bind(carrier, binding);
    done_ = &done;
    models_time_ = carrier.models_time();
    auto steps = schedule_->steps();
    for (size_t id = 0; id < steps.size(); ++id) open_[id] = steps[id].dependencies;
    ready_head_ = ready_tail_ = ahead.steps + ahead.ordered;  // as if these had been ready
    if (ready_tail_ == 0) {
        for (StepId root : schedule_->roots()) ready_[ready_tail_++] = root;
    } else {
        auto over = [&](StepId at) { return ahead.ordered ? order_[at] : at; };
        for (StepId at = 0; at < ready_head_; ++at)
            for (StepId next : schedule_->successors(steps[over(at)])) --open_[next];
        for (StepId at = 0; at < ready_head_; ++at) open_[over(at)] = kOver;
        for (StepId id = 0; id < steps.size(); ++id)
            if (open_[id] == 0) ready_[ready_tail_++] = id;
    }
    failed_ = cancelled_ = spreading_ = off_board_ = false;
    running_ = true;
    drain();
}

void Runner::fail(const Error& error) {
    if (!running_ || cancelled_) return;
    if (!failed_) error_ = error;
    failed_ = true;
    spreading_ = false;
    if (!draining_) drain();
}

void Runner::fail_and_tell(const Error& error) {
    if (!running_ || cancelled_ || off_board_) return;
    if (!failed_) error_ = error;
    failed_ = spreading_ = true;
    leave_board();
    if (!draining_) drain();
}

// Nobody shows, sees or waits for room any more.
void Runner::leave_board() {
    off_board_ = true;
    bool outer = std::exchange(draining_, true);  // the completions do not end the execution
    auto steps = schedule_->steps();
    for (StepId id = 0; id < steps.size(); ++id)
        if (of_board(steps[id].kind) && states_[id].active) carrier_->cancel(states_[id]);
    draining_ = outer;
}

void Runner::on_completion(Completion* self, const Error* error) {
    auto* state = static_cast<State*>(self);
    state->runner->complete(state->step, error);
}

void Runner::complete(StepId id, const Error* error) {
    State& state = states_[id];
    check(state.active, id);
    if (__builtin_expect(state.left != 0, 0) && next_part(schedule_->steps()[id], state)) return;
    state.active = false;
    --active_;
    if (error) note(schedule_->steps()[id], *error);
    if (!failed_ || spreading_) release(schedule_->steps()[id]);
    if (!draining_) drain();
}

// A step has failed. A device's reduction is made up for here while both operands are whole. Data
// that is lost, here or at another rank, leaves the messages in order, as does a message of another
// length (a member that gave another count): see spread(). Chunks of a vector of another length do
// not all come, nor those of one that finds no memory: they are left. After any other error
// messages may never come either.
void Runner::note(const Step& step, const Error& error) {
    if (off_board_ && of_board(step.kind)) return;  // withdrawn
    bool leaves = of_chunks(step.kind) &&
                  (error.code == Code::truncated || error.code == Code::out_of_memory);
    bool lost = error.code == Code::data_lost || error.code == Code::truncated || leaves;
    if (lost && step.kind == StepKind::reduce && !failed_) {
        const std::byte* target = address(step.target, step.target_offset);
        if (target != address(step.source, step.source_offset) &&
            target != address(step.other, step.other_offset))
            return run_local(step);
    }
    if (!failed_) error_ = error;
    spreading_ = lost && (spreading_ || !failed_);
    failed_ = true;
    if (spreading_ && leaves) leave_board();
}

// Its successors have one dependency less.
inline void Runner::release(const Step& step) {
    for (StepId next : schedule_->successors(step))
        if (--open_[next] == 0) ready_[ready_tail_++] = next;
}

// Starts what is ready, until nothing is; ends the execution when nothing is under way either.
void Runner::drain() {
    draining_ = true;
    while (ready_head_ != ready_tail_ && !failed_) {
        StepId id = ready_[ready_head_++];
        if (start_step(id)) release(schedule_->steps()[id]);
    }
    if (failed_) {
        if (spreading_) spread();
        if (!spreading_ && !cancelled_) cancel_all();
    }
    draining_ = false;
    if (active_) return;
    running_ = false;
    if (failed_)
        for (const ReducedReceive& each : schedule_->reduced_receives())
            states_[each.reduce].receive = nullptr;
    check(failed_ || ready_tail_ == schedule_->steps().size(), ready_tail_);
    done_->function(done_, failed_ ? &error_ : nullptr);  // may destroy this Runner
}

bool Runner::start_step(StepId id) {
    const Step& step = schedule_->steps()[id];
    State& state = states_[id];
    switch (step.kind) {
    case StepKind::send:
        state.active = true, ++active_;
        carrier_->send(step.peer, step.slot, read_by(step), state);
        return false;
    case StepKind::recv:
        state.active = true, ++active_;
        if (step.length >= kReducingMin && receive_reducing(id)) return false;
        carrier_->recv(step.peer, step.slot, written_by(step), state);
        return false;
    case StepKind::gate:
        check(gate_ != nullptr);
        state.active = true, ++active_;
        gate_->wait(gate_, step.slot, state);
        return false;
    case StepKind::post:
        state.active = true, ++active_;
        carrier_->post(read_by(step), step.other_offset, state);
        return false;
    case StepKind::look:
        state.active = true, ++active_;
        carrier_->look(step.peer, step.source_offset, step.other_offset, written_by(step), state);
        return false;
    case StepKind::room:
        state.active = true, ++active_;
        carrier_->room(step.slot, step.length, state);
        return false;
    case StepKind::see:
        state.active = true, ++active_;
        carrier_->see(step.peer, step.slot, step.other_offset, state);
        return false;
    case StepKind::show: carrier_->show(step.slot, step.other_offset, failed_); return true;
    case StepKind::pass: carrier_->pass(step.slot, step.length); return true;
    case StepKind::join: return true;
    case StepKind::reduce:
        if (state.receive) return std::exchange(state.receive, nullptr)->finish(), true;
        if (!symbolic_ && reducer_->begin && hand_over(step, state)) return false;
        [[fallthrough]];
    default:
        if (step.length >= 2 * part_of(step) && begin_parts(step, state)) return false;
        if (!symbolic_) run_local(step);
        if (!models_time_) return true;
        state.active = true, ++active_;
        carrier_->compute(step, state);
        return false;
    }
}

// Others wait for the whole chunk, which is no longer than two parts.
static bool in_chunk(const Step& copy) {
    return copy.source == Buffer::chunks || copy.target == Buffer::chunks;
}

// Source and target do not overlap.
bool Runner::apart(const Step& step) const {
    const std::byte* source = address(step.source, step.source_offset);
    const std::byte* target = address(step.target, step.target_offset);
    return target + step.length <= source || source + step.length <= target;
}

void Runner::run_local(const Step& step) {
    std::byte* source = address(step.source, step.source_offset);
    std::byte* target = address(step.target, step.target_offset);
    if (step.kind == StepKind::copy) {
        if (stream_ && step.target == Buffer::result && apart(step))
            stream_copy(target, source, step.length);
        else std::memmove(target, source, step.length);
        return;
    }
    std::byte* other = address(step.other, step.other_offset);
    size_t count = step.length / schedule_->element();
    if (target == other) reducer_->into(reducer_, target, source, count);
    else reducer_->to(reducer_, target, source, other, count);
}

// Between the parts of a long sum or copy messages pass. A thread that adds up 4 MiB at once is
// away for half a millisecond: the system has meanwhile sent what it had been given, and lines of
// 10 Gb/s stand still. A gather's root that first copies its own block at once lets the others
// wait, whose blocks it could have read. False: it is to be done at once.
bool Runner::begin_parts(const Step& step, State& state) {
    if (symbolic_ || models_time_) return false;
    bool fit = step.kind == StepKind::reduce ? reducer_->any_run
                                             : active_ > 0 && !in_chunk(step) && apart(step);
    if (fit && put_aside(step, state)) return true;
    if (!fit || !carrier_->later(state)) return false;
    state.active = true, ++active_;
    state.left = step.length;
    do_part(step, state);
    return true;
}

// Another thread does parts of it.
bool Runner::put_aside(const Step& step, State& state) {
    if (step.kind != StepKind::reduce || !reducer_->kernel) return false;
    AsideReduction all{reducer_->kernel,
                       address(step.target, step.target_offset),
                       address(step.source, step.source_offset),
                       address(step.other, step.other_offset),
                       step.length / schedule_->element(),
                       schedule_->element()};
    if (!carrier_->aside(all, state)) return false;
    state.active = true, ++active_;
    return true;
}

// False: there is none, or the execution has failed.
bool Runner::next_part(const Step& step, State& state) {
    if (failed_) state.left = 0;
    if (state.left == 0) return false;
    do_part(step, state);
    if (state.left == 0) return false;
    check(carrier_->later(state));
    return true;
}

void Runner::do_part(const Step& step, State& state) {
    Step part = step;
    size_t begin = step.length - state.left, length = part_of(step);
    part.source_offset += begin, part.other_offset += begin, part.target_offset += begin;
    part.length = state.left < 2 * length ? state.left : length;
    run_local(part);
    state.left -= part.length;
}

static const ReducedReceive* find_receive(const Schedule& schedule, StepId recv) {
    auto all = schedule.reduced_receives();
    auto less = [](const ReducedReceive& each, StepId id) { return each.recv < id; };
    auto at = std::lower_bound(all.begin(), all.end(), recv, less);
    return at != all.end() && at->recv == recv ? &*at : nullptr;
}

// The receive does the reduction that follows it, where that waits for nothing else; so its other
// operand and its target are what they will be. False: it receives.
bool Runner::receive_reducing(StepId id) {
    if (symbolic_ || models_time_ || !reducer_ || !reducer_->any_run || failed_) return false;
    const ReducedReceive* found = find_receive(*schedule_, id);
    if (!found || open_[found->reduce] != 1) return false;
    const Step &recv = schedule_->steps()[id], &reduce = schedule_->steps()[found->reduce];
    if (!carrier_->lends(recv.peer)) return false;
    ReducingReceive::Operands is;
    is.reducer = reducer_;
    is.element = schedule_->element();
    is.landing = address(recv.target, recv.target_offset);
    is.target = address(reduce.target, reduce.target_offset);
    is.arrives_left = reduce.source == recv.target && reduce.source_offset == recv.target_offset;
    is.other = is.arrives_left ? address(reduce.other, reduce.other_offset)
                               : address(reduce.source, reduce.source_offset);
    ReducingReceive& receive = reducing_[found - schedule_->reduced_receives().data()];
    receive.begin(is);
    states_[found->reduce].receive = &receive;
    carrier_->recv_reducing(recv.peer, recv.slot, recv.length, receive, states_[id]);
    return true;
}

// A reduction that completes later: the step is a gate that the device opens.
bool Runner::hand_over(const Step& step, State& state) {
    state.active = true, ++active_;
    if (reducer_->begin(reducer_, address(step.target, step.target_offset),
                        address(step.source, step.source_offset),
                        address(step.other, step.other_offset), step.length / schedule_->element(),
                        state))
        return true;
    state.active = false, --active_;
    return false;
}

// Goes through the rest of the schedule without its data: sends and posts are empty, by which the
// receiver knows, and chunks are shown as lost; receives take what peers send anyway; nothing is
// computed. So every rank that depends on the lost data gets an error, the others get their
// results, and nobody waits for ever.
void Runner::spread() {
    while (ready_head_ != ready_tail_ && spreading_) {
        StepId id = ready_[ready_head_++];
        const Step& step = schedule_->steps()[id];
        bool over = step.kind == StepKind::copy || step.kind == StepKind::reduce ||
                    (off_board_ && of_board(step.kind));
        if (!over && (step.kind == StepKind::send || step.kind == StepKind::post)) {
            State& state = states_[id];
            state.active = true, ++active_;
            if (step.kind == StepKind::send) carrier_->send(step.peer, step.slot, {}, state);
            else carrier_->post({}, 0, state);
        } else if (!over) {
            over = start_step(id);
        }
        if (over) release(step);
    }
}

void Runner::cancel_all() {
    cancelled_ = true;
    auto steps = schedule_->steps();
    for (StepId id = 0; id < steps.size(); ++id)
        if (states_[id].active) carrier_->cancel(states_[id]);
}

}  // namespace pomona::coll
