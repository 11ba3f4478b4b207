// callbacks.h: threads on which Python's callbacks of Futures run.
// Idea: a callback may wait for whatever it likes, so it must not run on a thread that others wait
// for: MPI's completer, the mover, the watchdog, or a thread of the program that waits for another
// operation. Who completes an operation leaves its Future to a queue, and goes on. One queue's
// callbacks run one after the other; a queue has a thread only while there is something in it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>

namespace pomona::glue {

class GlueWork;

class CallbackQueue {
public:
    using WorkPointer = c10::intrusive_ptr<GlueWork>;

    // Does `action` of the work, after what has been given before.
    using Action = void (GlueWork::*)();
    void add(WorkPointer work, Action action);

private:
    friend class CallbackThreads;
    struct Job {
        WorkPointer work;
        Action action;
    };
    struct Jobs {
        std::mutex mutex;
        std::deque<Job> waiting;
        bool running = false;  // a thread has them, or is about to
    };
    // The thread may drop the group, and the queue with it.
    const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
};

// Of one group. Callbacks of different queues do not wait for each other.
class GroupCallbacks {
public:
    CallbackQueue ordered;   // collectives' Futures, by FutureOrder
    CallbackQueue messages;  // of point to point
    CallbackQueue early;     // Futures that only C++ has, which do not wait for their turn
    // Futures of what callbacks have started, which may wait for these: one queue for each depth.
    CallbackQueue& nested(size_t depth);

    std::atomic<int> running{0};  // works that are in one of the queues, or run

private:
    std::mutex mutex_;
    std::deque<CallbackQueue> nested_;  // under mutex_; those in it stay where they are
};

// Until no callback waits or runs in this process, or `limit`.
void wait_for_callbacks(std::chrono::steady_clock::time_point limit);
// Is this one of the queues' threads?
bool on_callback_thread();

}  // namespace pomona::glue
