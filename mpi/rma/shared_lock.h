// mpi/rma/shared_lock.h: the lock for accumulations on one member's part of a shared window.
// Idea: a word in the window's segment that names its holder, so that those who wait long can find
// out that the holder has ended and go on; memory is then as the holder left it. The holder is
// named by its place in the window and not by its process number, which members in other PID
// namespaces do not know.
#pragma once

#include "btl/shm/life_file.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace pomona {

// A process of this machine: its number, which names it to those of the same PID namespace alone.
struct ProcessName {
    int64_t number = 0;
    uint64_t pid_namespace = 0;  // 0: not known, or this system has none
    static ProcessName own();
};

// Whether a process is known to have ended: by its life file, and where that does not tell, by its
// number.
bool has_ended(const ProcessName& process, Life life);

struct alignas(128) SharedLock {
    // The member that holds it, plus one, or 0. Acquire on taking it, release on giving it back:
    // publishes the accumulations before.
    std::atomic<int32_t> holder{0};
    // From a holder that has ended, too: `ended` tells of a member whether it is known to have.
    void take(int member, const std::function<bool(int member)>& ended);
    bool take_at_once(int member) {
        int32_t free = 0;
        return holder.compare_exchange_strong(free, member + 1, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }
    void give();
};

}  // namespace pomona
