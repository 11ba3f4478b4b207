// mpi/p2p/copy_choice.h: one copy or two for large messages between processes of one machine.
// Idea: reading the sender's memory saves a copy, but only the receiver's core works, page by page;
// through the ring both cores copy at once. Which is faster depends on the machine, on the length
// and on whether the data is still in the sender's cache, so it is measured in use: a receiver
// keeps the cost per byte of both ways by length, takes the cheaper one and now and then tries the
// other, less often where that was far behind. Where messages go both ways at once no core is free
// to help: there the work of both cores counts, reading once against writing into the ring and out
// of it. Its own writing stands for the sender's.
#pragma once

#include "btl/base/clock.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pomona {

class CopyChoice {
public:
    static constexpr size_t kMeasuredMin = 16 << 10;  // shorter ones are read without ado

    // Should the next message of so many bytes be read from the sender's memory? `both_ways`: while
    // a large message of ours goes to that process.
    bool pull(size_t bytes, bool both_ways) {
        if (bytes < kMeasuredMin) return true;
        Class& it = class_of(bytes);
        Turns& turns = both_ways ? it.both : it.one;
        uint32_t turn = turns.messages++;
        if (turn < 4) return turn < 2;  // the first of each way touches memory for the first time
        float once = (both_ways ? it.read : it.pulled).least();
        float twice = it.streamed.least();
        if (both_ways) {
            twice = 0;
            if (it.pushed.known() && it.drained.known())
                twice = it.pushed.least() + it.drained.least() +
                        kAnswerWork / static_cast<float>(bytes);
        }
        bool better = twice == 0 || once <= twice;
        bool compared = once != 0 && twice != 0;
        bool trial =
            tried(turn, compared ? ratio(once, twice) : 1) || turn - turns.changed < kTrial;
        float taken = better ? once : twice;
        if (!trial && turns.settled == 0) {
            turns.settled = taken;
        } else if (!trial && compared && turn - turns.changed >= kChangeRetry &&
                   ratio(taken, turns.settled) > kChange) {
            turns.changed = turn;
            trial = true;
        }
        if (trial) turns.settled = 0;
        return trial ? !better : better;
    }
    // One way: how long a message took. `bytes`: at least kMeasuredMin, here and below.
    void took(bool pulled, size_t bytes, Nanoseconds time) {
        Class& it = class_of(bytes);
        (pulled ? it.pulled : it.streamed).add(bytes, time);
    }
    // The work of reading a message from the sender's memory, of writing one into the ring, and of
    // taking one out of it.
    void read(size_t bytes, Nanoseconds work) { class_of(bytes).read.add(bytes, work); }
    void pushed(size_t bytes, Nanoseconds work) { class_of(bytes).pushed.add(bytes, work); }
    void drained(size_t bytes, Nanoseconds work) { class_of(bytes).drained.add(bytes, work); }

private:
    static constexpr uint32_t kTrial = 4, kRetry = 128, kFarRetry = 1024;
    static constexpr float kFar = 1.25F, kVeryFar = 2;
    // Where the cost of the way that is taken has changed so much, what is known of the other one
    // is out of date: it is tried at once, if no change was seen among so many messages before.
    static constexpr float kChange = 1.5F;
    static constexpr uint32_t kChangeRetry = 32;
    // Of both cores, for the answer and the headers that a message by the ring needs: four lines
    // from one core to the other, 250 ns each where those lie far apart.
    static constexpr float kAnswerWork = 1000;

    // Nanoseconds per byte of the last messages. The least of them counts: one that was interrupted
    // tells nothing, nor does one that touched memory for the first time or found it colder than it
    // would stay, as the first of a trial does.
    class Recent {
    public:
        void add(size_t bytes, Nanoseconds time) {
            if (time <= 0) return;
            costs_[next_++ % costs_.size()] = static_cast<float>(time) / static_cast<float>(bytes);
        }
        bool known() const { return next_ != 0; }
        float least() const {  // 0: nothing is known
            uint32_t count = std::min(next_, static_cast<uint32_t>(costs_.size()));
            return count ? *std::min_element(costs_.begin(), costs_.begin() + count) : 0;
        }

    private:
        std::array<float, kTrial> costs_{};
        uint32_t next_ = 0;
    };
    struct Turns {
        uint32_t messages = 0;
        uint32_t changed = 0;  // the message at which a change was seen
        float settled = 0;     // what the way that is taken cost after the last trial
    };
    struct Class {
        Turns one, both;
        Recent pulled, streamed, read, pushed, drained;
    };
    // Does this message go the way that seems worse, `apart` times as slow? Some in a row do: after
    // 8 messages and twice as many each time two, from 64 on kTrial, and kTrial of each kRetry;
    // where the ways are far apart after every second or third of these only, and kTrial of each
    // kFarRetry.
    static bool tried(uint32_t turn, float apart) {
        if (turn < 8) return false;
        auto doublings = static_cast<uint32_t>(std::bit_width(turn)) - 1;
        uint32_t every = apart > kVeryFar ? 3 : apart > kFar ? 2 : 1;
        if (doublings % every == 1 % every &&
            turn - std::bit_floor(turn) < (turn < 64 ? 2 : kTrial))
            return true;
        return turn >= kRetry && turn % (every > 1 ? kFarRetry : kRetry) < kTrial;
    }
    static float ratio(float a, float b) {
        return std::max(a, b) / std::max(std::min(a, b), 1e-6F);
    }
    // By powers of two from kMeasuredMin.
    Class& class_of(size_t bytes) {
        auto above = static_cast<size_t>(std::bit_width(bytes / kMeasuredMin)) - 1;
        return classes_[above < classes_.size() ? above : classes_.size() - 1];
    }
    std::array<Class, 11> classes_{};
};

}  // namespace pomona
