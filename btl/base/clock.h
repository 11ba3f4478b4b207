// btl/base/clock.h: time as an argument. Real code gets RealClock, the simulator a virtual one.
#pragma once

#include <chrono>
#include <cstdint>

namespace pomona {

using Nanoseconds = int64_t;

class Clock {
public:
    virtual ~Clock() = default;
    virtual Nanoseconds now() = 0;  // monotonic
};

class RealClock final : public Clock {
public:
    Nanoseconds now() override {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }
};

// What a spinning thread does between looks: tells the core, so that its sibling and the memory
// system get on with it (x86 pause, Arm yield).
inline void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

}  // namespace pomona
