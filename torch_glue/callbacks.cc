// callbacks.cc: see callbacks.h.
#include "torch_glue/callbacks.h"

#include <condition_variable>
#include <thread>
#include <utility>

#include "torch_glue/python_end.h"
#include "torch_glue/work.h"

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

std::atomic<int> queues_running{0};
thread_local bool runs_callbacks = false;

}  // namespace

// As many threads as there were queues at a time; they stay.
class CallbackThreads {
public:
    using Queue = std::shared_ptr<CallbackQueue::Jobs>;

    static CallbackThreads& instance() {
        static CallbackThreads* const threads = new CallbackThreads;  // outlives static destructors
        return *threads;
    }

    void give(Queue queue) {
        {
            std::lock_guard lock(mutex_);
            ready_.push_back(std::move(queue));
            if (ready_.size() > idle_) {
                ++idle_;  // until it has taken one
                std::thread([this] { run(); }).detach();
            }
        }
        wake_.notify_one();
    }

private:
    void run() {
        runs_callbacks = true;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return !ready_.empty(); });
            Queue queue = std::move(ready_.front());
            ready_.pop_front();
            --idle_;
            lock.unlock();
            empty(*queue);
            queue.reset();
            lock.lock();
            ++idle_;
        }
    }

    static void empty(CallbackQueue::Jobs& queue) {
        for (;;) {
            CallbackQueue::Job job;
            {
                std::lock_guard lock(queue.mutex);
                if (queue.waiting.empty()) {
                    queue.running = false;
                    queues_running.fetch_sub(1);
                    return;
                }
                job = std::move(queue.waiting.front());
                queue.waiting.pop_front();
            }
            const Releasing releasing;
            job.work->run_callbacks(job.action);
            GlueWork::let_go(std::move(job.work));
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Queue> ready_;  // each to be taken by one thread
    size_t idle_ = 0;          // threads that wait, or are about to
};

void CallbackQueue::add(WorkPointer work, Action action) {
    {
        std::lock_guard lock(jobs_->mutex);
        jobs_->waiting.push_back({std::move(work), action});
        if (jobs_->running) return;
        jobs_->running = true;
        queues_running.fetch_add(1);
    }
    CallbackThreads::instance().give(jobs_);
}

CallbackQueue& GroupCallbacks::nested(size_t depth) {
    std::lock_guard lock(mutex_);
    while (nested_.size() < depth) nested_.emplace_back();
    return nested_[depth - 1];
}

void wait_for_callbacks(std::chrono::steady_clock::time_point limit) {
    while (queues_running.load() > 0 && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(100us);
}

bool on_callback_thread() { return runs_callbacks; }

}  // namespace pomona::glue
