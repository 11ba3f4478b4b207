// btl/sim/world.h: virtual time: one heap of events, one seed.
// Idea: whatever happens is an event at a time; two at one time happen in the order they were
// made. So a run is a function of its seed, and its hash over all events tells whether two runs
// were one (FoundationDB calls the same an unseed).
#pragma once

#include "btl/base/random.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pomona::sim {

// Virtual nanoseconds; fractions matter to costs per byte.
using Time = double;

struct Event {
    Time time = 0;
    uint64_t order = 0;
    void (*function)(void* context, uint64_t argument) = nullptr;
    void* context = nullptr;
    uint64_t argument = 0;
};

class World {
public:
    explicit World(uint64_t seed) : random_(seed) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    Time now() const { return now_; }
    Random& random() { return random_; }
    // `function(context, argument)` at `time`, which is not in the past. `argument` goes into
    // the hash, so it should say what happens (and hold no addresses).
    void at(Time time, void (*function)(void*, uint64_t), void* context, uint64_t argument);
    // The next event; false when there is none.
    bool step();
    // Runs until nothing is left to happen; returns the time then.
    Time run();
    uint64_t events() const { return events_; }
    uint64_t hash() const { return hash_; }

private:
    Random random_;
    Time now_ = 0;
    uint64_t order_ = 0, events_ = 0, hash_ = 0;
    std::vector<Event> heap_;
};

}  // namespace pomona::sim
