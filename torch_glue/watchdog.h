// watchdog.h: one thread that ends operations at their deadlines, and those whose ranks have left.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "torch_glue/work.h"

namespace pomona::glue {

// Fails armed works at their deadline. One thread, started with the first armed work; it sleeps
// until the earliest deadline it knows of.
class Watchdog {
public:
    static Watchdog& instance() {
        static Watchdog* const watchdog = new Watchdog;  // outlives static destructors
        return *watchdog;
    }

    // A work whose end has been claimed stays out: complete() has looked here already, or will not.
    void add(GlueWork* work) {
        std::lock_guard lock(mutex_);
        if (work->claimed_.load() || work->watched_) return;
        work->watch_next_ = first_;
        work->watch_previous_ = nullptr;
        if (first_) first_->watch_previous_ = work;
        first_ = work;
        work->watched_ = true;
        start_locked();
        if (work->deadline_ < wake_at_) wake_.notify_one();
    }

    void start() {
        std::lock_guard lock(mutex_);
        start_locked();
    }

    void remove(GlueWork* work) {
        std::lock_guard lock(mutex_);
        if (!work->watched_) return;
        work->watched_ = false;
        if (work->watch_previous_) work->watch_previous_->watch_next_ = work->watch_next_;
        else first_ = work->watch_next_;
        if (work->watch_next_) work->watch_next_->watch_previous_ = work->watch_previous_;
    }

    template <class Predicate>
    std::vector<c10::intrusive_ptr<GlueWork>> find(Predicate&& predicate) {
        std::lock_guard lock(mutex_);
        return find_locked(predicate);
    }

private:
    // A watched work is armed, so MPI's callback holds a reference: copying one is safe.
    template <class Predicate>
    std::vector<c10::intrusive_ptr<GlueWork>> find_locked(Predicate&& predicate) {
        std::vector<c10::intrusive_ptr<GlueWork>> found;
        for (GlueWork* work = first_; work; work = work->watch_next_) {
            if (predicate(*work)) found.push_back(c10::intrusive_ptr<GlueWork>::reclaim_copy(work));
        }
        return found;
    }

    void start_locked();

    void end_bereft(std::unique_lock<std::mutex>& lock);
    void record_timeouts(const std::vector<c10::intrusive_ptr<GlueWork>>& late);
    void run();

    std::mutex mutex_;
    std::condition_variable wake_;
    GlueWork* first_ = nullptr;
    Clock::time_point wake_at_ = Clock::time_point::max();
    Clock::time_point look_at_{};           // at ranks that have left
    Clock::time_point look_at_arrivals_{};  // at who asks when this one has come to a collective
    uint64_t recorded_ = 0;                 // the latest entry of the record that was written last
    bool running_ = false;
};

}  // namespace pomona::glue
