// work_flow.cc: operations whose tensors are a device's, and those that wait behind such. See
// work.h.
#include "torch_glue/work.h"

#include <exception>
#include <memory>
#include <utility>

#include "torch_glue/mover.h"
#include "torch_glue/python_end.h"

namespace pomona::glue {

Flow& GlueWork::flow(c10::Device where) {
    if (!flow_) {
        flow_ = std::make_unique<Flow>(where);
        for (Call& call : calls_) flow_->stage().calls.push_back(std::move(call));
        calls_.clear();
    }
    TORCH_CHECK_VALUE(flow_->where().type() == where.type(),
                      error_message("tensors of different devices in one operation"));
    return *flow_;
}

Lane& GlueWork::lane() { return c10d::isP2POp(opType_) ? group_->messages : group_->collectives; }

void GlueWork::enter_lane() {
    auto self = c10::intrusive_ptr<GlueWork>::reclaim_copy(this);
    queued_ = true;
    in_lane_ = flow_ != nullptr;
    if (!flow_) begin_waiting();  // the lane has a reference
    lane().enter(std::move(self));
    stopped();
}

void GlueWork::have_turn() {
    if (!flow_) {
        call_held();
        end_waiting();
        lane().leave();
        return;
    }
    bool leaves = false;
    {
        std::lock_guard lock(requests_mutex_);
        may_post_ = true;
        if (phase_.load() == Phase::Finished) leaves = std::exchange(in_lane_, false);
    }
    if (leaves) lane().leave();
    else Mover::wake();
}

// A work that has failed leaves its memory to MPI, which may still use it, for ever.
bool GlueWork::advance(bool* over, bool waited) {
    std::unique_lock lock(requests_mutex_, std::try_to_lock);
    if (!lock) return false;
    if (phase_.load() == Phase::Finished) {
        *over = true;
        return false;
    }
    bool moved = false, lost = claimed_.load();
    std::string failure;
    if (!lost) {
        int error = MPI_SUCCESS;
        try {
            moved = flow_->advance(group_->comm, may_post_, &error, waited);
        } catch (const std::exception& e) { failure = e.what(); }
        if (error != MPI_SUCCESS) failure = failure_text(error, flow_->mpi_text());
        lost = !failure.empty();
    }
    if (lost) c10::raw::intrusive_ptr::incref(this);
    const bool ends = lost || flow_->finished();
    const bool leaves = in_lane_ && (lost ? may_post_ : flow_->posted());
    if (leaves) in_lane_ = false;
    const bool was_armed = phase_.load() == Phase::Armed;
    if (ends) phase_.store(Phase::Finished);
    lock.unlock();
    if (leaves) lane().leave();
    if (!ends) return moved;
    if (opType_ == c10d::OpType::RECVANYSOURCE) source_.store(flow_->source());
    complete(failure);
    if (was_armed) end_waiting();
    *over = true;
    return true;
}

bool GlueWork::rest() {
    std::unique_lock lock(requests_mutex_, std::try_to_lock);
    if (!lock || phase_.load() == Phase::Finished) return true;
    flow_->rest(&Mover::wake);
    return flow_->waits_for_device();
}

void GlueWork::let_go(c10::intrusive_ptr<GlueWork> work) {
    Releasing releasing;
    if (!releasing.allowed()) work.release();
    work.reset();
}

}  // namespace pomona::glue
