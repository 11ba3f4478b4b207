// btl/base/word_wait.cc: the system's call or the C++ library's.
#include "btl/base/word_wait.h"

#include <cerrno>

#if defined(__APPLE__)
#include <dlfcn.h>
#elif defined(__linux__)
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pomona {

WordWait& WordWait::system() {
#if defined(__APPLE__)
    // Looked up, since macOS 14.0 to 14.3 do not have them.
    static WordWait here(
        reinterpret_cast<WaitFunction>(dlsym(RTLD_DEFAULT, "os_sync_wait_on_address")),
        reinterpret_cast<WakeFunction>(dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all")),
        reinterpret_cast<TimedFunction>(
            dlsym(RTLD_DEFAULT, "os_sync_wait_on_address_with_timeout")));
#else
    static WordWait here(nullptr, nullptr);
#endif
    return here;
}

void WordWait::wait(std::atomic<uint32_t>& word, uint32_t old) {
    if (wait_ && !refused()) {
        // Negative with EINTR, EFAULT (paged out) or ENOMEM: as good as an early return.
        if (wait_(&word, old, sizeof(word), 0) >= 0 || errno != EINVAL) return;
        refused_.store(true, std::memory_order_relaxed);
    }
    word.wait(old, std::memory_order_acquire);
}

void WordWait::wake_all(std::atomic<uint32_t>& word) {
    // Both, since some may wait one way and some the other; without waiters both return at once.
    if (wake_) wake_(&word, sizeof(word), 0);
    word.notify_all();
}

// ---- between processes

static constexpr uint32_t kShared = 1;              // OS_SYNC_WAIT_ON_ADDRESS_SHARED, and of wakes
static constexpr uint32_t kClockMachAbsolute = 32;  // OS_CLOCK_MACH_ABSOLUTE_TIME

bool WordWait::shares() const {
#if defined(__linux__)
    if (!wait_) return true;
#endif
    return timed_ && !refused();
}

void WordWait::wait_shared(std::atomic<uint32_t>& word, uint32_t old, Nanoseconds longest) {
    if (timed_) {
        if (refused()) return;
        auto nanoseconds = static_cast<uint64_t>(longest);
        if (timed_(&word, old, sizeof(word), kShared, kClockMachAbsolute, nanoseconds) < 0 &&
            errno == EINVAL)
            refused_.store(true, std::memory_order_relaxed);
        return;
    }
#if defined(__linux__)
    timespec time{static_cast<time_t>(longest / 1000000000),
                  static_cast<long>(longest % 1000000000)};
    syscall(SYS_futex, &word, FUTEX_WAIT, old, &time, nullptr, 0);
#endif
}

void WordWait::wake_shared(std::atomic<uint32_t>& word) {
    if (timed_) {
        wake_(&word, sizeof(word), kShared);
        return;
    }
#if defined(__linux__)
    syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
#endif
}

}  // namespace pomona
