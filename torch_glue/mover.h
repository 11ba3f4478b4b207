// mover.h: the thread that moves operations on device tensors on while nobody waits for them.
// Idea: a stage ends when an event of the device or a request of MPI does. While things move the
// thread looks at all of them again and again; after a while without it leaves the requests to
// MPI's own thread and sleeps. Callbacks of Futures run on other threads (callbacks.h).
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace pomona::glue {

class GlueWork;
using GlueWorkPointer = c10::intrusive_ptr<GlueWork>;

class Mover {
public:
    static Mover& instance();
    void add(GlueWorkPointer work);
    static void wake();  // a request that was left to MPI is over
    static bool is_this_thread();

private:
    void run();
    bool turn(std::vector<GlueWorkPointer>& works);
    void sleep(const std::vector<GlueWorkPointer>& works);

    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<GlueWorkPointer> arrivals_;
    bool running_ = false, woken_ = false;
};

// Which operation of a group may call MPI next: all ranks must call it in one order, and operations
// on device tensors wait for the device before. One lane for collectives, one for messages.
class Lane {
public:
    // The work waits here until those before it have called MPI; then GlueWork::have_turn().
    void enter(GlueWorkPointer work);
    void leave();  // by the front, when it has called MPI for the last time
    bool busy() const { return count_.load() > 0; }

private:
    void give_turns(std::unique_lock<std::mutex>& lock);
    std::mutex mutex_;
    struct Place {
        GlueWorkPointer work;
        bool had_turn = false;
    };
    std::deque<Place> places_;
    std::atomic<size_t> count_{0};
    bool giving_ = false;  // a thread gives turns
};

}  // namespace pomona::glue
