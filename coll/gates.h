// coll/gates.h: gates that other threads open: a schedule's steps wait for data that a GPU makes.
// Idea: a device's completed handler runs on a thread of its own and may neither block nor enter the
// engine. It opens a gate (one atomic store) and wakes the engine; the engine's turn polls, and
// completes the steps that wait, on its own thread. A gate may open before a step waits for it.
#pragma once

#include "btl/base/check.h"
#include "coll/run.h"

#include <atomic>
#include <memory>
#include <utility>

namespace pomona::coll {

class Gates final : public Gate {
public:
    using Wake = void (*)(void* context);

    // `wake` is called after a gate has opened, on the opener's thread; may be null.
    Gates(int count, Wake wake, void* context)
        : count_(count), entries_(new Entry[static_cast<size_t>(count)]), wake_(wake),
          context_(context) {
        wait = [](Gate* self, int number, Completion& done) {
            static_cast<Gates*>(self)->wait_for(number, done);
        };
    }

    // From any thread, once: what the gate stands for is done (`ok`) or has failed.
    void open(int number, bool ok) {
        Entry& entry = at(number);
        // Release: publishes the device's data; pairs with acquire in outcome_of().
        State before =
            entry.state.exchange(ok ? State::open : State::failed, std::memory_order_acq_rel);
        check(before == State::closed, number);
        // Release, after the state: whoever sees the number sees the state.
        opened_.fetch_add(1, std::memory_order_release);
        if (wake_) wake_(context_);
    }

    // A device's completed handler as C function pointers are: open one gate of one list.
    struct Opener {
        Gates* gates;
        int number;
        static void done(void* self, bool ok) {
            auto* opener = static_cast<Opener*>(self);
            opener->gates->open(opener->number, ok);
        }
    };

    // In the engine's turn: completes the steps whose gates have opened. Returns how many.
    int poll() {
        uint32_t opened = opened_.load(std::memory_order_acquire);
        if (opened == seen_) return 0;
        seen_ = opened;
        int completed = 0;
        for (int number = 0; number < count_; ++number) {
            Entry& entry = at(number);
            if (!entry.waiting || entry.state.load(std::memory_order_acquire) == State::closed)
                continue;
            Completion* done = std::exchange(entry.waiting, nullptr);
            finish(number, *done);
            ++completed;
        }
        return completed;
    }

private:
    enum class State : int { closed, open, failed };
    struct Entry {
        std::atomic<State> state{State::closed};
        Completion* waiting = nullptr;  // the engine's alone
    };

    Entry& at(int number) {
        check(number >= 0 && number < count_, number, count_);
        return entries_[static_cast<size_t>(number)];
    }

    void wait_for(int number, Completion& done) {
        Entry& entry = at(number);
        check(!entry.waiting, number);
        // Acquire: pairs with open(); the step reads the device's data.
        if (entry.state.load(std::memory_order_acquire) != State::closed) finish(number, done);
        else entry.waiting = &done;
    }

    void finish(int number, Completion& done) {
        if (at(number).state.load(std::memory_order_acquire) == State::open) {
            done.function(&done, nullptr);
            return;
        }
        Error error{Code::io, "A device failed to make its part of a collective's data"};
        done.function(&done, &error);
    }

    int count_;
    std::unique_ptr<Entry[]> entries_;
    std::atomic<uint32_t> opened_{0};
    uint32_t seen_ = 0;  // the engine's alone
    Wake wake_;
    void* context_;
};

}  // namespace pomona::coll
