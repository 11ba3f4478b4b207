// mpi/p2p/parking.h: where threads of one rank wait while another of them polls.
// Idea: a count of events, which parked threads wait to see changed. A thread announces itself
// while it still holds the engine: whoever polls then and stops can't do so without waking it, even
// when it stops before the other has fallen asleep.
#pragma once

#include "btl/base/word_wait.h"

#include <atomic>
#include <cstdint>

namespace pomona {

class Parking {
public:
    // To be read before the condition that the thread waits for.
    uint32_t events() const { return events_.load(std::memory_order_acquire); }
    // With the engine held, before wait().
    void announce() { parked_.fetch_add(1, std::memory_order_seq_cst); }
    // With the engine left: returns once there was an event after those seen; may do so early.
    void wait(uint32_t seen) {
        WordWait::system().wait(events_, seen);
        parked_.fetch_sub(1, std::memory_order_relaxed);
    }
    // Something changed that others may wait for. Told with the engine held, or after it was left:
    // then either the other's look at the events sees this one, or this look the other.
    void notify() {
        events_.fetch_add(1, std::memory_order_seq_cst);
        if (parked_.load(std::memory_order_seq_cst) > 0) WordWait::system().wake_all(events_);
    }
    // The caller has stopped polling, which it did with the engine held: one of the others takes
    // over.
    void hand_over() {
        if (parked_.load(std::memory_order_acquire) > 0) notify();
    }

private:
    std::atomic<uint32_t> events_{0};
    std::atomic<int> parked_{0};
};

}  // namespace pomona
