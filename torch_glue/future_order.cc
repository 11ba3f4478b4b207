// future_order.cc: in which order a group's Futures complete and its collectives start. See work.h.
#include <algorithm>
#include <iterator>
#include <utility>

#include "torch_glue/work.h"

namespace pomona::glue {

void FutureOrder::add(c10::intrusive_ptr<GlueWork> work) {
    std::lock_guard lock(mutex_);
    auto place = waiting_.end();
    while (place != waiting_.begin() && (*std::prev(place))->sequence_ > work->sequence_) --place;
    waiting_.insert(place, std::move(work));
}

uint64_t FutureOrder::last_awaited() {
    std::lock_guard lock(mutex_);
    uint64_t last = draining_;
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
    return !held_.empty() &&
           (waiting_.empty() || waiting_.front()->sequence_ > held_.front().awaited);
}

void FutureOrder::drain() {
    std::unique_lock lock(mutex_);
    if (draining_ != 0) return;  // whoever drains looks at the front again
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
        draining_ = work->sequence_;
        lock.unlock();
        if (starts) work->start_held();
        else work->mark_future();
        work.reset();
        lock.lock();
    }
    draining_ = 0;
}

}  // namespace pomona::glue
