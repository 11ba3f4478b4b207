// btl/rdma/copiers.cc: see copiers.h.
#include "btl/rdma/copiers.h"

#include "btl/base/thread_role.h"
#include "btl/base/word_wait.h"
#include "btl/rdma/crc32c.h"

#include <algorithm>
#include <system_error>

#include <sched.h>

namespace pomona::rdma {

// A thread that has found nothing for so long sleeps; it reads the clock at each so many looks.
static constexpr Nanoseconds kLooksFor = 100'000;
static constexpr int kLooksPerClock = 64;
// Who waits for a part that another thread has begun gives its core away after so many looks.
static constexpr int kPatience = 20'000;

Copiers::~Copiers() {
    stop_.store(true, std::memory_order_seq_cst);
    wakes_.fetch_add(1, std::memory_order_seq_cst);
    WordWait::system().wake_all(wakes_);
    for (std::thread& each : threads_) each.join();
}

void Copiers::start() {
    started_ = true;
    try {
        while (threads_.size() < wanted_) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {}  // it goes with fewer
}

void Copiers::wake() {
    if (!started_) start();
    if (asleep_.load(std::memory_order_relaxed) == 0) return;
    wakes_.fetch_add(1, std::memory_order_seq_cst);
    WordWait::system().wake_all(wakes_);
}

// One that was interrupted for long must not decide for long.
void Copiers::Pace::took(Nanoseconds time, size_t bytes) {
    constexpr double kMost = 8, kWeight = 8;
    double cost = static_cast<double>(time) / static_cast<double>(bytes);
    each = each == 0 ? cost : each + (std::min(cost, kMost * each) - each) / kWeight;
}

// Does this payload go in parts? The first phase goes without threads, the second one with them.
bool Copiers::helps(Nanoseconds time, size_t length) {
    row_ = time - last_ < kRow ? row_ + length : length;
    last_ = time;
    if (row_ < kWakeFrom) return false;
    uint32_t phase = payloads_ / kPhase;
    if (phase < 2) return phase == 1;
    bool better = together_.each < alone_.each;
    return phase % kTrial == 0 ? !better : better;
}

uint32_t Copiers::sum(std::byte* to, ConstBytes bytes) {
    size_t parts = bytes.size() / kCrcPart;
    if (wanted_ == 0 || parts < 2 || parts > kPartsMost) return ~crc32c_state(~0u, bytes, to);
    Nanoseconds begin = clock_.now();
    bool together = helps(begin, bytes.size());
    if (together) wake();
    uint32_t sum = together ? sum_of_parts(to, bytes, parts) : ~crc32c_state(~0u, bytes, to);
    bool measured = row_ >= kWakeFrom && payloads_ % kPhase >= kWaking;
    if (measured) (together ? together_ : alone_).took(clock_.now() - begin, bytes.size());
    if (row_ >= kWakeFrom) ++payloads_;
    return sum;
}

uint32_t Copiers::sum_of_parts(std::byte* to, ConstBytes bytes, size_t parts) {
    // Who sees one of these sees, too, that the ticket is closed.
    uint64_t number = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    from_.store(bytes.data(), std::memory_order_release);
    to_.store(to, std::memory_order_release);
    first_.store(bytes.size() - (parts - 1) * kCrcPart, std::memory_order_release);
    parts_.store(static_cast<uint32_t>(parts), std::memory_order_release);
    over_.store(0, std::memory_order_relaxed);
    ticket_.store(number << 32, std::memory_order_release);
    uint32_t own = 0;
    while (take_part()) ++own;
    helped_ += parts - own;
    for (int looks = 0; over_.load(std::memory_order_acquire) != parts; ++looks) {
        if (looks < kPatience) cpu_pause();
        else sched_yield();
    }
    // Before anything of it changes.
    ticket_.store(number << 32 | kClosed, std::memory_order_relaxed);
    uint32_t state = sums_[0];
    for (size_t i = 1; i < parts; ++i) state = crc32c_joined(state, sums_[i]);
    return ~state;
}

// False: there is none that nobody has taken.
bool Copiers::take_part() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    for (;;) {
        auto part = static_cast<uint32_t>(ticket);
        if (part == kClosed || part >= parts_.load(std::memory_order_acquire)) return false;
        const std::byte* from = from_.load(std::memory_order_acquire);
        std::byte* to = to_.load(std::memory_order_acquire);
        size_t first = first_.load(std::memory_order_acquire);
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
            continue;
        size_t at = part == 0 ? 0 : first + (part - 1) * kCrcPart;
        size_t length = part == 0 ? first : kCrcPart;
        sums_[part] = crc32c_state(part == 0 ? ~0u : 0, {from + at, length}, to ? to + at : to);
        over_.fetch_add(1, std::memory_order_release);
        return true;
    }
}

void Copiers::run() {
    become_copier_thread();
    RealClock clock;
    Nanoseconds since = clock.now();
    for (int looks = 0; !stop_.load(std::memory_order_relaxed); ++looks) {
        if (take_part()) {
            looks = 0;
            since = 0;
            continue;
        }
        cpu_pause();
        if (looks % kLooksPerClock != 0) continue;
        Nanoseconds time = clock.now();
        if (since == 0) since = time;
        if (time - since < kLooksFor) continue;
        uint32_t seen = wakes_.load(std::memory_order_seq_cst);
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        if (!stop_.load(std::memory_order_seq_cst)) WordWait::system().wait(wakes_, seen);
        asleep_.fetch_sub(1, std::memory_order_relaxed);
        since = clock.now();
    }
}

}  // namespace pomona::rdma
