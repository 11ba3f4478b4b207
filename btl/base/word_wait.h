// btl/base/word_wait.h: threads of one process wait for a word to change.
// Idea: the C++ library's atomic wait everywhere (on Linux a futex); macOS 14.4 and later have a call
// for it, found when the program runs. It refuses on some kernels, then the library's serves again.
// Source: Apple's os/os_sync_wait_on_address.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pomona {

class WordWait {
public:
    using WaitFunction = int (*)(void* address, uint64_t value, size_t size, uint32_t flags);
    using WakeFunction = int (*)(void* address, size_t size, uint32_t flags);
    // The system's calls, or null for what it does not have.
    WordWait(WaitFunction wait, WakeFunction wake)
        : wait_(wait && wake ? wait : nullptr), wake_(wait ? wake : nullptr) {}
    // What this system has.
    static WordWait& system();

    // Blocks while `word` holds `old`; may return early, so callers look again.
    void wait(std::atomic<uint32_t>& word, uint32_t old);
    // Wakes all who wait for `word`; it has been changed before.
    void wake_all(std::atomic<uint32_t>& word);
    bool refused() const { return refused_.load(std::memory_order_relaxed); }

private:
    WaitFunction wait_;
    WakeFunction wake_;
    std::atomic<bool> refused_{false};
};

}  // namespace pomona
