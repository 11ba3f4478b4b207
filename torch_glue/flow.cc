// flow.cc: see flow.h.
#include "torch_glue/flow.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "torch_glue/world.h"

namespace pomona::glue {

// Requests that MPI's thread ends; lives until the last of them is over.
struct Resting {
    std::atomic<int> left{0};
    std::atomic<int> error{MPI_SUCCESS}, source{-1};
    std::string text;  // of the error
    void (*notify)() = nullptr;
};

namespace {

struct Callback {
    std::shared_ptr<Resting> resting;
};

void over(void* context, int error, const MPI_Status* status) {
    const std::unique_ptr<Callback> callback(static_cast<Callback*>(context));
    int none = MPI_SUCCESS;
    if (error == MPI_SUCCESS) callback->resting->source.store(status->MPI_SOURCE);
    else if (callback->resting->error.compare_exchange_strong(none, error))
        callback->resting->text = error_text(error);
    // Publishes what MPI has written and the error; pairs with the load in Flow::test().
    if (callback->resting->left.fetch_sub(1, std::memory_order_acq_rel) == 1)
        callback->resting->notify();
}

c10::Device with_index(c10::Device where) {
    if (where.has_index()) return where;
    return c10::Device(where.type(), c10::impl::VirtualGuardImpl(where.type()).getDevice().index());
}

void run(const std::vector<Stage::Step>& steps) {
    for (const auto& step : steps) step();
}

}  // namespace

Flow::Flow(c10::Device where) : where_(with_index(where)), device_(Device::of(where.type())) {}

Flow::~Flow() { give_back(); }

Stage& Flow::stage() {
    if (stages_.empty()) new_stage();
    return stages_.back()->stage;
}

Stage& Flow::new_stage() {
    stages_.push_back(std::make_unique<Running>());
    return stages_.back()->stage;
}

at::Tensor Flow::room(int64_t bytes) {
    rooms_.push_back(StagingPool::of(device_).take(bytes));
    return rooms_.back().narrow(0, 0, bytes);
}

at::Tensor Flow::slot(int64_t bytes) {
    stages_.back()->used_slot = true;
    const size_t place = (stages_.size() - 1) % kDepth;
    if (slots_.size() <= place) slots_.resize(place + 1);
    at::Tensor& memory = slots_[place];
    if (!memory.defined() || memory.numel() < bytes) {
        if (memory.defined()) rooms_.push_back(std::move(memory));
        memory = StagingPool::of(device_).take(bytes);
    }
    return memory.narrow(0, 0, bytes);
}

void Flow::set_plan(std::function<void()> plan) {
    plan_ = std::move(plan);
    open_ = true;
}

bool Flow::may_load(const Running& each) const {
    return !each.stage.may_load || each.stage.may_load();
}

bool Flow::may_call(const Running& each) const {
    return (!each.loaded || each.loaded->reached()) &&
           (!each.stage.may_call || each.stage.may_call());
}

void Flow::begin() {
    // Short copies go on the streams of the callers, who start the operation and wait for it: these
    // keep their order by themselves, and events between streams take longer than the copies.
    if (short_load()) {
        load_here(*stages_.front());
        is_short_ = true;
        ++loading_;
        return;
    }
    start_ = device_.now(where_);
    // What MPI says with the first advance() must not come before the copies have been asked for.
    while (loading_ < std::min(stages_.size(), kDepth) && may_load(*stages_[loading_])) {
        load(*stages_[loading_], loading_);
        ++loading_;
    }
}

bool Flow::short_load() const {
    constexpr int64_t kShort = int64_t{256} << 10;
    int64_t bytes = 0;
    for (const at::Tensor& room : rooms_) bytes += room.numel();
    return has_streams() && stages_.size() == 1 && !plan_ && !stages_.front()->used_slot &&
           !stages_.front()->stage.loads.empty() && !stages_.front()->stage.direct &&
           bytes <= kShort && may_load(*stages_.front());
}

void Flow::load_here(Running& each) {
    const at::AutoDispatchBelowADInplaceOrView below;
    run(each.stage.loads);
    each.loaded = device_.end_of(c10::impl::VirtualGuardImpl(where_.type()).getStream(where_));
}

void Flow::load(Running& each, size_t number) {
    if (each.stage.loads.empty()) {
        if (each.stage.direct) each.loaded = start_;  // the device must be done with it
        return;
    }
    const c10::Stream down = device_.down(where_);
    const c10::StreamGuard current(down);
    if (start_) start_->delay(down);
    if (each.used_slot && number >= kDepth && stages_[number - kDepth]->stored)
        stages_[number - kDepth]->stored->delay(down);
    const at::AutoDispatchBelowADInplaceOrView below;
    run(each.stage.loads);
    each.loaded = device_.end_of(down);
}

bool Flow::advance(MPI_Comm comm, bool may_post, int* mpi_error, bool waited) {
    bool moved = false;
    if (plan_ && may_post) {
        std::exchange(plan_, nullptr)();
        moved = true;
    }
    for (; loading_ < stages_.size() && loading_ < finished_ + kDepth; ++loading_) {
        if (!may_load(*stages_[loading_])) break;
        load(*stages_[loading_], loading_);
        moved = true;
    }
    for (; may_post && posted_ < loading_; ++posted_) {
        Running& each = *stages_[posted_];
        if (!may_call(each)) break;
        each.stage.loads.clear();
        for (auto& call : each.stage.calls) {
            each.requests.push_back(MPI_REQUEST_NULL);
            const int error = call(comm, &each.requests.back());
            if (error == MPI_SUCCESS) continue;
            each.requests.pop_back();
            *mpi_error = error;
            mpi_text_ = error_text(error);
            return true;
        }
        moved = true;
    }
    for (; finished_ < posted_; ++finished_) {
        if (!test(*stages_[finished_], mpi_error)) break;
        if (*mpi_error != MPI_SUCCESS) return true;
        finish(*stages_[finished_], waited && is_short_);
        moved = true;
    }
    if (finished()) give_back();
    return moved;
}

bool Flow::test(Running& each, int* mpi_error) {
    if (each.resting) {
        if (each.resting->left.load(std::memory_order_acquire) > 0) return false;
        *mpi_error = each.resting->error.load();
        mpi_text_ = each.resting->text;
        source_ = each.resting->source.load();
        return true;
    }
    for (MPI_Request& request : each.requests) {
        if (request == MPI_REQUEST_NULL) continue;
        int done = 0;
        MPI_Status status;
        const int error = mpi().Test(&request, &done, &status);
        if (error != MPI_SUCCESS) {
            request = MPI_REQUEST_NULL;
            *mpi_error = error;
            mpi_text_ = error_text(error);
        } else if (!done) {
            return false;
        } else {
            source_ = status.MPI_SOURCE;
        }
    }
    return true;
}

void Flow::finish(Running& each, bool here) {
    const at::AutoDispatchBelowADInplaceOrView below;
    run(each.stage.unpacks);
    if (!each.stage.stores.empty()) {
        const c10::Stream up = here ? c10::impl::VirtualGuardImpl(where_.type()).getStream(where_)
                                    : device_.up(where_);
        const c10::StreamGuard current(up);
        // What the caller's stream does with the tensors was asked for before this operation.
        if (start_) start_->delay(up);
        run(each.stage.stores);
        each.stored = device_.end_of(up);
    }
    if (each.stage.stored) each.stage.stored(each.stored);
    each.stage = Stage();  // drops the tensors
}

bool Flow::waits_for_device() const {
    return (loading_ < stages_.size() && loading_ < finished_ + kDepth) ||
           (posted_ < loading_ && !may_call(*stages_[posted_]));
}

void Flow::rest(void (*notify)()) {
    for (size_t i = finished_; i < posted_; ++i) {
        Running& each = *stages_[i];
        const auto active = std::count_if(each.requests.begin(), each.requests.end(),
                                          [](MPI_Request r) { return r != MPI_REQUEST_NULL; });
        if (each.resting || active == 0) continue;
        each.resting = std::make_shared<Resting>();
        each.resting->left.store(static_cast<int>(active));
        each.resting->notify = notify;
        for (MPI_Request& request : each.requests) {
            if (request != MPI_REQUEST_NULL)
                on_completion(&request, over, new Callback{each.resting});
        }
    }
}

void Flow::join() const {
    if (!device_.has_streams()) return;
    const c10::Stream stream = c10::impl::VirtualGuardImpl(where_.type()).getStream(where_);
    for (auto each = stages_.rbegin(); each != stages_.rend(); ++each) {
        if (!(*each)->stored) continue;
        (*each)->stored->delay(stream);  // the last one: the stream of copies up keeps their order
        return;
    }
}

void Flow::give_back() {
    MomentPointer last;
    for (const auto& each : stages_) {
        if (each->stored) last = each->stored;
    }
    for (auto* memories : {&rooms_, &slots_}) {
        for (at::Tensor& memory : *memories) {
            if (memory.defined()) StagingPool::of(device_).give(std::move(memory), last);
        }
        memories->clear();
    }
}

}  // namespace pomona::glue
