// btl/base/word_wait.h: threads wait for a word to change, those of one process or, in memory that
// they share, of several.
// Idea: within a process the C++ library's atomic wait everywhere; macOS 14.4 and later have a call
// for it, found when the program runs. It refuses on some kernels, then the library's serves again.
// Between processes there is Linux's futex, and on macOS that call or nothing.
// Source: Apple's os/os_sync_wait_on_address.h; Linux, futex(2).
#pragma once

#include "btl/base/clock.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pomona {

class WordWait {
public:
    using WaitFunction = int (*)(void* address, uint64_t value, size_t size, uint32_t flags);
    using WakeFunction = int (*)(void* address, size_t size, uint32_t flags);
    using TimedFunction = int (*)(void* address, uint64_t value, size_t size, uint32_t flags,
                                  uint32_t clock, uint64_t timeout_ns);
    // The system's calls, or null for what it does not have.
    WordWait(WaitFunction wait, WakeFunction wake, TimedFunction timed = nullptr)
        : wait_(wait && wake ? wait : nullptr), wake_(wait ? wake : nullptr),
          timed_(wake_ ? timed : nullptr) {}
    // What this system has.
    static WordWait& system();

    // Blocks while `word` holds `old`; may return early, so callers look again.
    void wait(std::atomic<uint32_t>& word, uint32_t old);
    // Wakes all who wait for `word`; it has been changed before.
    void wake_all(std::atomic<uint32_t>& word);

    // Can processes wait for a word in memory that they share? May turn false, never true again.
    bool shares() const;
    // Blocks while `word` holds `old`, at most so long; may return early. At once where !shares().
    void wait_shared(std::atomic<uint32_t>& word, uint32_t old, Nanoseconds longest);
    void wake_shared(std::atomic<uint32_t>& word);
    bool refused() const { return refused_.load(std::memory_order_relaxed); }

private:
    WaitFunction wait_;
    WakeFunction wake_;
    TimedFunction timed_;
    std::atomic<bool> refused_{false};
};

}  // namespace pomona
