// future_order.cc: in which order a group's Futures complete and its collectives start. See work.h.
#include <algorithm>
#include <iterator>
#include <utility>

#include "torch_glue/work.h"

namespace pomona::glue {

void FutureOrder::add(c10::intrusive_ptr<GlueWork> work, bool by_python) {
    std::lock_guard lock(mutex_);
    if (work->future_claimed_.load()) return;
    work->python_future_ = work->python_future_ || by_python;
    if (std::find(waiting_.begin(), waiting_.end(), work) != waiting_.end()) return;
    auto place = waiting_.end();
    while (place != waiting_.begin() && (*std::prev(place))->sequence_ > work->sequence_) --place;
    waiting_.insert(place, std::move(work));
}

uint64_t FutureOrder::last_awaited() {
    std::lock_guard lock(mutex_);
    uint64_t last = running_;
    for (const auto& work : waiting_)
        if (work->python_future_) last = std::max(last, work->sequence_);
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
    return std::none_of(waiting_.begin(), waiting_.end(), [this](const auto& work) {
        return work->python_future_ && work->sequence_ <= held_.front().awaited;
    });
}

void FutureOrder::drain() {
    std::unique_lock lock(mutex_);
    if (draining_) return;  // whoever drains looks at the front again
    draining_ = true;
    for (;;) {
        c10::intrusive_ptr<GlueWork> work;
        const bool starts = held_may_start();
        if (starts) {
            work = std::move(held_.front().work);
            held_.pop_front();
        } else if (!waiting_.empty() && waiting_.front()->done_.load(std::memory_order_acquire)) {
            work = std::move(waiting_.front());
            waiting_.pop_front();
        } else {
            break;
        }
        running_ = starts || work->python_future_ ? work->sequence_ : 0;
        lock.unlock();
        if (starts) work->start_held();
        else work->mark_future();
        work.reset();
        lock.lock();
        running_ = 0;
    }
    draining_ = false;
}

}  // namespace pomona::glue
