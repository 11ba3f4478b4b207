// coll/gates.h: gates that other threads open: steps of schedules wait for what a GPU makes.
// Idea: a device's completed handler runs on a thread of its own and may neither block nor enter
// the engine. It opens a gate: under a lock held for a few instructions, the gate goes to a list,
// and the engine is woken if it sleeps. The engine's turn polls, and completes the steps that wait,
// on its own thread. A gate may open before a step waits for it. Gates are used again.
#pragma once

#include "btl/base/check.h"
#include "coll/run.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace pomona::coll {

class Gates final : public Gate {
public:
    using Wake = void (*)(void* context);

    // `wake` is called on the opener's thread, once after each arm(); may be null.
    Gates(Wake wake, void* context) : wake_(wake), context_(context) {
        wait = [](Gate* self, int number, Completion& done) {
            static_cast<Gates*>(self)->wait_for(number, done);
        };
    }
    // Waits for the devices that still have a gate to open.
    ~Gates() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ == 0; });
    }

    // ---- with the engine held

    // A closed gate; it goes back when it is open and a step has waited for it.
    int make() {
        if (free_.empty()) {
            auto number = static_cast<int>(entries_.size());
            entries_.push_back({this, number});
            free_.push_back(number);
        }
        int number = free_.back();
        free_.pop_back();
        std::lock_guard lock(mutex_);
        ++closed_;
        return number;
    }
    // What the opener is given, for opened().
    void* opener(int number) { return &at(number); }
    // Nobody is going to open it.
    void drop(int number) {
        free_.push_back(number);
        std::lock_guard lock(mutex_);
        --closed_;
    }
    void wait_for(int number, Completion& done) {
        Entry& entry = at(number);
        check(!entry.waiting, number);
        entry.waiting = &done;
        if (entry.seen) finish(entry);
    }
    // In the engine's turn: completes the steps whose gates have opened. Returns how many.
    int poll() {
        // Acquire: pairs with opened(); the lock below would do, but not be as cheap.
        if (!any_.load(std::memory_order_acquire)) return 0;
        Entry* list;
        {
            std::lock_guard lock(mutex_);
            list = std::exchange(opened_, nullptr);
            any_.store(false, std::memory_order_relaxed);  // under the lock
        }
        int completed = 0;
        while (list) {
            Entry& entry = *std::exchange(list, list->next);
            entry.seen = true;
            if (!entry.waiting) continue;
            finish(entry);
            ++completed;
        }
        return completed;
    }
    // Prepares for sleep; false: a gate has opened already.
    bool arm() {
        std::lock_guard lock(mutex_);
        armed_ = opened_ == nullptr;
        return armed_;
    }
    void disarm() {
        std::lock_guard lock(mutex_);
        armed_ = false;
    }
    // Gates that are still to be opened, or to be polled.
    bool pending() const {
        std::lock_guard lock(mutex_);
        return closed_ > 0 || opened_;
    }

    // ---- from any thread

    // A device's completed handler, as C function pointers are: what the gate stands for is done
    // (`ok`) or has failed. Once for each make().
    static void opened(void* opener, bool ok) {
        Entry& entry = *static_cast<Entry*>(opener);
        entry.gates->open(entry, ok);
    }

private:
    struct Entry {
        Gates* gates;
        int number;
        Entry* next = nullptr;          // in the list of opened ones
        bool ok = false;                // written before the entry is in the list
        bool seen = false;              // by poll(); the engine's alone
        Completion* waiting = nullptr;  // likewise
    };

    Entry& at(int number) {
        check(number >= 0 && static_cast<size_t>(number) < entries_.size(), number);
        return entries_[static_cast<size_t>(number)];
    }

    void open(Entry& entry, bool ok) {
        // All of it under the lock: when the engine has the entry, this thread is done with us.
        std::lock_guard lock(mutex_);
        entry.ok = ok;
        entry.next = std::exchange(opened_, &entry);
        any_.store(true, std::memory_order_release);  // pairs with poll()
        --closed_;
        changed_.notify_all();
        if (std::exchange(armed_, false) && wake_) wake_(context_);
    }

    void finish(Entry& entry) {
        Completion* done = std::exchange(entry.waiting, nullptr);
        entry.seen = false;
        free_.push_back(entry.number);
        if (entry.ok) return done->function(done, nullptr);
        Error error{Code::data_lost, "A device failed in its part of a collective"};
        done->function(done, &error);
    }

    std::deque<Entry> entries_;  // do not move
    std::vector<int> free_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    Entry* opened_ = nullptr;  // newest first; this and the rest by mutex_
    int closed_ = 0;
    bool armed_ = false;
    std::atomic<bool> any_{false};
    Wake wake_;
    void* context_;
};

}  // namespace pomona::coll
