// btl/base/word_wait.cc: the system's call or the C++ library's.
#include "btl/base/word_wait.h"

#include <cerrno>

#if defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace pomona {

WordWait& WordWait::system() {
#if defined(__APPLE__)
    // Looked up, since macOS 14.0 to 14.3 do not have them.
    static WordWait here(
        reinterpret_cast<WaitFunction>(dlsym(RTLD_DEFAULT, "os_sync_wait_on_address")),
        reinterpret_cast<WakeFunction>(dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all")));
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

}  // namespace pomona
