// future_order.cc: in which order a group's Futures complete and its collectives start. See work.h.
#include <algorithm>
#include <iterator>
#include <utility>

#include "torch_glue/work.h"

namespace pomona::glue {
namespace {

thread_local FutureOrder* runs_callbacks_of = nullptr;

}  // namespace

void FutureOrder::add(c10::intrusive_ptr<GlueWork> work) {
    std::lock_guard lock(mutex_);
    if (work->future_claimed_.load()) return;
    if (std::find(waiting_.begin(), waiting_.end(), work) != waiting_.end()) return;
    auto place = waiting_.end();
    while (place != waiting_.begin() && (*std::prev(place))->sequence_ > work->sequence_) --place;
    waiting_.insert(place, std::move(work));
}

uint64_t FutureOrder::last_awaited() {
    std::lock_guard lock(mutex_);
    uint64_t last = running_;
    if (!waiting_.empty()) last = std::max(last, waiting_.back()->sequence_);
    if (!held_.empty()) last = std::max(last, held_.back().awaited);
    return last;
}

void FutureOrder::hold(c10::intrusive_ptr<GlueWork> work, uint64_t awaited) {
    {
        std::lock_guard lock(mutex_);
        held_.push_back({std::move(work), awaited});
    }
    drain();
}

bool FutureOrder::held_may_start() const {
    if (held_.empty()) return false;
    return waiting_.empty() || waiting_.front()->sequence_ > held_.front().awaited;
}

void FutureOrder::drain(const GlueWork* fresh) {
    std::unique_lock lock(mutex_);
    if (draining_) return;  // whoever drains looks at the front again
    draining_ = true;
    go_on(lock, fresh);
}

void FutureOrder::resume() {
    runs_callbacks_of = this;
    {
        std::unique_lock lock(mutex_);
        go_on(lock, nullptr);
    }
    runs_callbacks_of = nullptr;
}

void FutureOrder::go_on(std::unique_lock<std::mutex>& lock, const GlueWork* fresh) {
    for (;;) {
        c10::intrusive_ptr<GlueWork> work;
        const bool starts = held_may_start();
        if (starts) {
            work = std::move(held_.front().work);
            held_.pop_front();
        } else if (!waiting_.empty() && waiting_.front()->done_.load(std::memory_order_acquire)) {
            work = waiting_.front();
            if (runs_callbacks_of != this && work.get() != fresh) {
                lock.unlock();
                work->leave_to(work->group_->callbacks.ordered, &GlueWork::resume_order);
                GlueWork::let_go(std::move(work));
                return;
            }
            waiting_.pop_front();
        } else {
            break;
        }
        running_ = work->sequence_;
        lock.unlock();
        if (starts) work->start_held();
        else work->mark_future();
        GlueWork::let_go(std::move(work));
        lock.lock();
        running_ = 0;
    }
    draining_ = false;
}

// This thread drains: it is in mark_future(), and nobody else starts what is held.
void FutureOrder::start_for_callback(const GlueWork& awaited) {
    if (runs_callbacks_of != this) return;
    std::unique_lock lock(mutex_);
    while (!held_.empty() && held_.front().work->sequence_ <= awaited.sequence_) {
        auto work = std::move(held_.front().work);
        held_.pop_front();
        lock.unlock();
        work->start_held();
        GlueWork::let_go(std::move(work));
        lock.lock();
    }
}

bool FutureOrder::in_callback() { return runs_callbacks_of != nullptr; }

void FutureOrder::callback_waits(const std::vector<const c10::ivalue::Future*>& wanted) {
    FutureOrder* const order = runs_callbacks_of;
    if (order == nullptr) return;
    while (auto work = order->first_of(wanted)) order->complete_in_callback(std::move(work));
}

c10::intrusive_ptr<GlueWork> FutureOrder::first_of(
    const std::vector<const c10::ivalue::Future*>& wanted) {
    std::lock_guard lock(mutex_);
    for (const auto& work : waiting_) {
        const auto has = [&work](const c10::ivalue::Future* each) {
            return work->has_future(each);
        };
        if (std::any_of(wanted.begin(), wanted.end(), has)) return work;
    }
    return {};
}

// This thread drains, so nobody else completes what stands in the queue.
void FutureOrder::complete_in_callback(c10::intrusive_ptr<GlueWork> work) {
    work->await_end(kNoTimeout);
    uint64_t outer = 0;
    {
        std::lock_guard lock(mutex_);
        const auto place = std::find(waiting_.begin(), waiting_.end(), work);
        if (place != waiting_.end()) waiting_.erase(place);
        outer = std::exchange(running_, std::max(running_, work->sequence_));
    }
    work->mark_future();
    GlueWork::let_go(std::move(work));
    std::lock_guard lock(mutex_);
    running_ = outer;
}

}  // namespace pomona::glue
