// btl/rdma/driver.cc: see driver.h.
#include "btl/rdma/driver.h"

#include "btl/base/thread_role.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace pomona::rdma {

struct Driver::State {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;        // that is to be made
    const char* what = "";             // it, or the one that is being made
    Nanoseconds begun = 0;             // that one
    uint64_t asked = 0, returned = 0;  // calls, ever
    bool ends = false;
};

Driver::Driver() : state_(std::make_shared<State>()) {}

// The thread is not waited for: it may not return, and has nothing of this object's.
Driver::~Driver() {
    std::lock_guard guard(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
}

void Driver::serve(State& state) {
    std::unique_lock lock(state.mutex);
    while (true) {
        state.changed.wait(lock, [&] { return state.call || state.ends; });
        if (!state.call) return;
        std::function<void()> call = std::exchange(state.call, nullptr);
        lock.unlock();
        call();
        call = nullptr;
        lock.lock();
        ++state.returned;
        state.changed.notify_all();
    }
}

// No signal's handler runs on it, where a program's, or termination.cc's, would stand still.
bool Driver::start() {
    if (started_) return true;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread([state = state_] {
            become_driver_thread();
            serve(*state);
        }).detach();
        started_ = true;
    } catch (const std::system_error&) {}
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started_;
}

// With the mutex held, and none under way.
uint64_t Driver::put(const char* what, std::function<void()> call) {
    state_->call = std::move(call);
    state_->what = what;
    state_->begun = RealClock().now();
    state_->changed.notify_all();
    return ++state_->asked;
}

static auto in(Nanoseconds time) {
    return std::chrono::steady_clock::now() + std::chrono::nanoseconds(time);
}

bool Driver::run(const char* what, std::function<void()> call) {
    if (hangs_in()) return false;
    State& state = *state_;
    std::unique_lock lock(state.mutex);
    if (!start()) return call(), true;
    auto end = in(call_most);
    // Another thread's is waited for: the one that gives all back comes while one is made.
    auto free = [&] { return state.returned == state.asked; };
    if (state.changed.wait_until(lock, end, free)) {
        uint64_t own = put(what, std::move(call));
        if (state.changed.wait_until(lock, end, [&] { return state.returned >= own; })) return true;
    }
    hung_.store(state.what, std::memory_order_release);
    return false;
}

bool Driver::begin(const char* what, std::function<void()> call, Nanoseconds patience) {
    State& state = *state_;
    std::unique_lock lock(state.mutex);
    if (hangs_in() || state.returned != state.asked) return false;
    if (!start()) return call(), true;
    uint64_t own = put(what, std::move(call));
    state.changed.wait_until(lock, in(patience), [&] { return state.returned >= own; });
    return true;
}

bool Driver::is_overdue() {
    std::lock_guard guard(state_->mutex);
    if (state_->returned != state_->asked && RealClock().now() - state_->begun > call_most)
        hung_.store(state_->what, std::memory_order_release);
    return hangs_in() != nullptr;
}

}  // namespace pomona::rdma
