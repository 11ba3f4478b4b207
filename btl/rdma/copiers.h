// btl/rdma/copiers.h: threads that copy parts of long payloads, and sum them up, with the one that
// moves messages.
// Idea: between machines that several cables join one thread's copies may be slower than the cables
// (docs/bench/rdma_mesh.json). A payload is cut in parts, which whoever is free takes, one after
// the other; checksums of parts are joined. They look for work for a while, and sleep when there is
// none; to wake one takes longer than a payload, so only many payloads in a row do. Where others
// use the cores, a thread that has begun a part may have to wait for one, and so does the payload:
// what payloads take with these threads and without is measured as they come, and the quicker way
// is taken.
// Cost: a part's bytes travel to another core's cache and back; each payload waits for the last
// part that a thread has begun.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/clock.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace pomona::rdma {

class Copiers {
public:
    // As many threads as are to be had, from the first long payload on.
    explicit Copiers(size_t threads) : wanted_(std::min(threads, kThreadsMost)) {}
    ~Copiers();
    Copiers(const Copiers&) = delete;
    Copiers& operator=(const Copiers&) = delete;

    // The checksum of `bytes` (CRC32C), which are copied to `to` as well unless that is null. By
    // one thread at a time.
    uint32_t sum(std::byte* to, ConstBytes bytes);
    // Parts that the threads have done.
    uint64_t helped() const { return helped_; }

private:
    static constexpr size_t kPartsMost = 1024;
    // Payloads in a row, each of which begins so soon after the last, of so many bytes wake them.
    static constexpr Nanoseconds kRow = 100'000;
    static constexpr size_t kWakeFrom = 256 << 10;

    static constexpr uint32_t kPhase = 32;  // payloads, all of them one way
    static constexpr uint32_t kWaking = 8;  // the first ones of a phase are not measured
    static constexpr uint32_t kTrial = 32;  // of so many phases one goes the slower way
    struct Pace {
        double each = 0;  // nanoseconds a byte, of the last ones; 0: not known
        void took(Nanoseconds time, size_t bytes);
    };

    void start();
    void wake();
    bool helps(Nanoseconds time, size_t length);
    uint32_t sum_of_parts(std::byte* to, ConstBytes bytes, size_t parts);
    bool take_part();
    void run();

    static constexpr size_t kThreadsMost = 3;
    const size_t wanted_;
    bool started_ = false;
    RealClock clock_;
    Nanoseconds last_ = 0;  // payload
    size_t row_ = 0;        // bytes
    uint32_t payloads_ = 0;
    Pace alone_, together_;
    uint64_t helped_ = 0;
    std::vector<std::thread> threads_;

    // The payload that is under way. Its number, and below it that of the next part, or kClosed
    // while what follows is written: who takes a part has seen what belongs to it.
    static constexpr uint32_t kClosed = UINT32_MAX;
    alignas(128) std::atomic<uint64_t> ticket_{kClosed};
    std::atomic<const std::byte*> from_{nullptr};
    std::atomic<std::byte*> to_{nullptr};
    std::atomic<size_t> first_{0};  // bytes of the first part; the others have kCrcPart
    std::atomic<uint32_t> parts_{0};
    alignas(128) std::atomic<uint32_t> over_{0};  // parts
    std::array<uint32_t, kPartsMost> sums_{};
    alignas(128) std::atomic<int> asleep_{0};
    std::atomic<uint32_t> wakes_{0};
    std::atomic<bool> stop_{false};
};

}  // namespace pomona::rdma
