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
        uint32_t& messages = both_ways ? it.messages_both : it.messages;
        uint32_t turn = messages++;
        if (turn < 4) return turn < 2;  // the first of each way touches memory for the first time
        float once = both_ways ? it.read : it.pulled;
        bool known = both_ways ? it.pushed != 0 && it.drained != 0 : it.streamed != 0;
        float twice = both_ways ? it.pushed + it.drained + kAnswerWork / static_cast<float>(bytes)
                                : it.streamed;
        bool better = !known || once <= twice;
        bool far = known && once != 0 && std::max(once, twice) > kFar * std::min(once, twice);
        // Some in a row, since the first one's memory is colder than it would stay.
        bool retry = turn < kFirst ? turn >= 8 && std::has_single_bit(turn)
                                   : turn % (far ? kFarRetry : kRetry) < kTrial;
        return retry ? !better : better;
    }
    // One way: how long a message took. `bytes`: at least kMeasuredMin, here and below.
    void took(bool pulled, size_t bytes, Nanoseconds time) {
        Class& it = class_of(bytes);
        learn(pulled ? it.pulled : it.streamed, bytes, time);
    }
    // The work of reading a message from the sender's memory, of writing one into the ring, and of
    // taking one out of it.
    void read(size_t bytes, Nanoseconds work) { learn(class_of(bytes).read, bytes, work); }
    void pushed(size_t bytes, Nanoseconds work) { learn(class_of(bytes).pushed, bytes, work); }
    void drained(size_t bytes, Nanoseconds work) { learn(class_of(bytes).drained, bytes, work); }

private:
    // Of each kRetry messages the first kTrial go the other way; kFarRetry where that was far
    // behind. Of the first kFirst the 9th, 17th and 33rd do.
    static constexpr uint32_t kTrial = 4, kRetry = 128, kFarRetry = 1024, kFirst = 64;
    static constexpr float kFar = 1.25F;
    // Of both cores, for the answer and the headers that a message by the ring needs: four lines
    // from one core to the other, 250 ns each where those lie far apart.
    static constexpr float kAnswerWork = 1000;
    struct Class {
        uint32_t messages = 0, messages_both = 0;
        // Nanoseconds per byte, of about the last four; 0: not known.
        float pulled = 0, streamed = 0, read = 0, pushed = 0, drained = 0;
    };
    // One that was interrupted must not decide: it counts as twice what was known at most. What is
    // quicker counts for more, and leaves no more than twice itself, since the first messages of
    // either way touch memory for the first time, and those of a trial find it colder than it would
    // stay.
    static void learn(float& known, size_t bytes, Nanoseconds time) {
        if (time <= 0) return;
        float cost = static_cast<float>(time) / static_cast<float>(bytes);
        if (known == 0) known = cost;
        else if (cost < known) known = (std::min(known, 2 * cost) + cost) / 2;
        else known += (std::min(cost, 2 * known) - known) / 4;
    }
    // By powers of two from kMeasuredMin.
    Class& class_of(size_t bytes) {
        auto above = static_cast<size_t>(std::bit_width(bytes / kMeasuredMin)) - 1;
        return classes_[above < classes_.size() ? above : classes_.size() - 1];
    }
    std::array<Class, 11> classes_{};
};

}  // namespace pomona
