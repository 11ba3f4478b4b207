// btl/link/help_choice.h: do the standing paths of a link carry a part of what goes by paths that
// ride on them?
// Idea: a cable by RDMA and Ethernet together carry more than the cable, unless the processor that
// copies for TCP is missed elsewhere. Rates do not tell, so both ways are tried on long payloads as
// they come, by length; the quicker one is taken, and the other tried again now and then.
#pragma once

#include "btl/base/clock.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pomona::link {

class HelpChoice {
public:
    static constexpr size_t kLeast = 1 << 20;  // of shorter payloads the standing paths get nothing

    // Shall they help with so many bytes, and what comes while these are under way?
    bool help(size_t bytes) {
        if (bytes < kLeast) return false;
        Class& it = class_of(bytes);
        uint32_t turn = it.turns++;
        if (turn < 4) return turn >= 2;  // the first ones also find out how quick paths are
        bool better = it.helped < kWorth * it.alone;
        bool retry = turn < kRetry ? turn >= 8 && std::has_single_bit(turn) : turn % kRetry == 0;
        return retry ? !better : better;
    }
    // All of them have arrived after so long.
    void took(bool helped, size_t bytes, Nanoseconds time) {
        if (bytes < kLeast || time <= 0) return;
        Class& it = class_of(bytes);
        double& known = helped ? it.helped : it.alone;
        double cost = static_cast<double>(time) / static_cast<double>(bytes);
        // One that was interrupted must not decide for long: what is quicker counts at once.
        known = known == 0 || cost < known ? cost : known + (cost - known) / 8;
    }

private:
    static constexpr uint32_t kRetry = 64;
    static constexpr double kWorth = 0.97;  // of the time; for less nobody else's line is used
    struct Class {
        uint32_t turns = 0;
        double alone = 0, helped = 0;  // nanoseconds a byte; 0: not known
    };
    // By powers of two from kLeast.
    Class& class_of(size_t bytes) {
        auto above = static_cast<size_t>(std::bit_width(bytes / kLeast)) - 1;
        return classes_[above < classes_.size() ? above : classes_.size() - 1];
    }
    std::array<Class, 6> classes_{};
};

}  // namespace pomona::link
