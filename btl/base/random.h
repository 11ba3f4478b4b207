// btl/base/random.h: seeded, splittable pseudo-random numbers; the same on every machine.
// Source: SplitMix64, Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#pragma once

#include <cstdint>

namespace pomona {

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    // Uniform in [0, bound); bound > 0. The bias of the multiply-shift is below 2^-32 for small
    // bounds.
    uint64_t below(uint64_t bound) {
        return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
    }
    int between(int low, int high) { return low + static_cast<int>(below(high - low + 1)); }
    bool chance(double probability) { return unit() < probability; }
    double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    Random split() { return Random(next()); }

private:
    __extension__ typedef unsigned __int128 Wide;
    uint64_t state_;
};

}  // namespace pomona
