// mpi/p2p/turnstile.h: the engine's lock, with two entrances.
// Idea: `post` (has work to hand in) always gets in next; `poll` (merely waits for messages) enters
// only while nobody posts. A plain mutex lets a poller starve posters for milliseconds.
// Source: Amer et al., "MPI+Threads: runtime contention and remedies", PPoPP 2015, and
// "Locking aspects in multithreaded MPI implementations", ACM TOPC 2019 (doi 10.1145/3275443).
#pragma once

#include "btl/base/clock.h"

#include <atomic>
#include <thread>

namespace pomona {

class Turnstile {
public:
    void post() {
        if (enter()) return;
        posting_.fetch_add(1, std::memory_order_relaxed);  // announces; only delays pollers
        for (int spins = 0; !enter(); ++spins) {
            if (spins < 200) cpu_pause();
            else std::this_thread::yield();  // the holder may not be on a core
        }
        posting_.fetch_sub(1, std::memory_order_relaxed);
    }
    bool poll() { return posting_.load(std::memory_order_relaxed) == 0 && enter(); }
    // Release: what was done inside is seen by the next enter().
    void leave() { taken_.store(false, std::memory_order_release); }

private:
    bool enter() {
        return !taken_.load(std::memory_order_relaxed) &&
               !taken_.exchange(true, std::memory_order_acquire);
    }
    std::atomic<bool> taken_{false};
    std::atomic<int> posting_{0};
};

}  // namespace pomona
