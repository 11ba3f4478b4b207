// mpi/rma/shared_lock.cc: see shared_lock.h.
#include "mpi/rma/shared_lock.h"

#include "btl/base/clock.h"

#include <cerrno>
#include <csignal>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

ProcessName ProcessName::own() {
    struct stat status;
    return {getpid(), stat("/proc/self/ns/pid", &status) == 0 ? uint64_t{status.st_ino} : 0};
}

bool has_ended(const ProcessName& process, Life life) {
    if (life != Life::unknown) return life == Life::dead;
    return process.pid_namespace == ProcessName::own().pid_namespace &&
           kill(static_cast<pid_t>(process.number), 0) != 0 && errno == ESRCH;
}

void SharedLock::take(int member, const std::function<bool(int member)>& ended) {
    const int32_t own = member + 1;
    for (int spins = 0;; ++spins) {
        int32_t found = 0;
        if (holder.compare_exchange_weak(found, own, std::memory_order_acquire)) return;
        if (spins < 1000) {
            cpu_pause();
            continue;
        }
        sched_yield();
        if (spins % 1000 != 0 || found == 0 || !ended(found - 1)) continue;
        if (holder.compare_exchange_strong(found, own, std::memory_order_acquire)) return;
    }
}
void SharedLock::give() { holder.store(0, std::memory_order_release); }

}  // namespace pomona
