// mpi/rma/shared_lock.cc: see shared_lock.h.
#include "mpi/rma/shared_lock.h"

#include "btl/base/clock.h"

#include <cerrno>
#include <csignal>
#include <sched.h>

namespace pomona {

void SharedLock::take(int32_t process) {
    for (int spins = 0;; ++spins) {
        int32_t found = 0;
        if (holder.compare_exchange_weak(found, process, std::memory_order_acquire)) return;
        if (spins < 1000) {
            cpu_pause();
            continue;
        }
        sched_yield();
        if (spins % 1000 != 0 || found == 0 || kill(found, 0) == 0 || errno != ESRCH) continue;
        if (holder.compare_exchange_strong(found, process, std::memory_order_acquire)) return;
    }
}
void SharedLock::give() { holder.store(0, std::memory_order_release); }

}  // namespace pomona
