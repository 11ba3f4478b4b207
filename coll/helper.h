// coll/helper.h: a thread that adds up parts of long reductions while another one moves messages.
// Idea: a rank that reads and writes its sockets at 10 Gb/s has hardly time left to add up what
// comes (docs/bench/hosts.json); its lines then stand still for as long as that takes. So a long
// reduction is offered to the helper in parts. Whoever waits for messages takes parts as well when
// nothing else is to be done, so that a helper which gets no core delays nobody.
// Cost: one wake of a sleeping thread for each reduction that is offered while none is under way.
#pragma once

#include "coll/reducer.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace pomona::coll {

class Helper {
public:
    // Null where no thread is to be had.
    static std::unique_ptr<Helper> start();
    ~Helper();
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;

    // All of these by one thread at a time (with the engine held).
    // False: as many are under way as there is room for. Else `done` is called in collect(), and
    // nobody touches the arrays until then.
    bool offer(const AsideReduction& reduction, Completion& done);
    bool busy() const { return first_ != next_.load(std::memory_order_relaxed); }
    // Does a part, if one is left that nobody has taken; returns its bytes.
    size_t take_part();
    // Calls the completions of those that are over, in the order in which they were offered.
    void collect();
    // Bytes of results that the thread itself has made.
    uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

private:
    // A slot is used again when its reduction is over. Who takes a part of it has read `left` after
    // the rest was written.
    struct Slot {
        AsideReduction reduction;
        Completion* done = nullptr;
        int parts = 0;
        std::atomic<int> left{0};  // parts that nobody has taken; below 0: asked for in vain
        std::atomic<int> over{0};  // parts
    };
    static constexpr uint32_t kSlots = 64;

    Helper() = default;
    void run();
    size_t take_part(Slot& slot);
    Slot& slot(uint32_t number) { return slots_[number % kSlots]; }

    std::array<Slot, kSlots> slots_;
    uint32_t first_ = 0;             // not collected yet
    std::atomic<uint32_t> next_{0};  // the number of the next one; the thread waits for it
    std::atomic<bool> stop_{false}, asleep_{false};
    std::atomic<uint64_t> bytes_{0};
    std::thread thread_;
};

}  // namespace pomona::coll
