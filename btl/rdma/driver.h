// btl/rdma/driver.h: calls into a driver, which may never return, on a thread of their own.
// Idea: who calls waits for a time and no longer. Then the driver is given up: nothing more is
// asked of it in this process, and the thread is left where it is, also when the process ends. What
// it touches belongs to the call (Driver::run()) or, like what a device may write to, is not given
// back any more. Calls for messages do not go this way: they are many, and make no system call.
#pragma once

#include "btl/base/clock.h"

#include <atomic>
#include <functional>
#include <memory>

namespace pomona::rdma {

// How long is waited for a driver; longer than one that works needs. Tests have less patience.
inline Nanoseconds call_most = 5'000'000'000;
inline Nanoseconds open_most = 10'000'000'000;  // to open a device, for which nobody stands still

class Driver {
public:
    Driver();
    ~Driver();
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    // Calls it, by the name `what`, and waits. False: it has not returned, or one before has not;
    // it may still run, so what it refers to it has to own.
    bool run(const char* what, std::function<void()> call);
    // The same, where nobody stands still until it returns, but for so long at the most. False: it
    // was not begun, as one is being made.
    bool begin(const char* what, std::function<void()> call, Nanoseconds patience);
    // What was begun has not returned in call_most.
    bool is_overdue();
    // It is given up for good: the call that has not returned. Null: all have.
    const char* hangs_in() const { return hung_.load(std::memory_order_acquire); }

private:
    struct State;
    static void serve(State& state);
    bool start();
    uint64_t put(const char* what, std::function<void()> call);

    std::shared_ptr<State> state_;  // the thread's, too
    bool started_ = false;
    std::atomic<const char*> hung_{nullptr};
};

}  // namespace pomona::rdma
