// mpi/rma/shared_lock.h: the lock for accumulations on one member's part of a shared window.
// Idea: a word in the window's segment that names its holder, so that those who wait long can find
// out that the holder has ended and go on; memory is then as the holder left it.
#pragma once

#include <atomic>
#include <cstdint>

namespace pomona {

struct alignas(128) SharedLock {
    // The process that holds it, or 0. Acquire on taking it, release on giving it back: publishes
    // the accumulations before.
    std::atomic<int32_t> holder{0};
    void take(int32_t process);  // from a holder that has ended, too
    void give();
};

}  // namespace pomona
