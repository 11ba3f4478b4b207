// btl/base/counters.h: the counters of counters.def as one plain struct per process.
// Counters are written by whoever holds the engine and read by tools; a torn or stale read does no
// harm, hence relaxed atomics through count().
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace pomona {

struct Counters {
#define COUNTER(name, text) std::atomic<uint64_t> name{0};
#include "btl/base/counters.def"
#undef COUNTER
};

// Adds to a counter that only the holder of the engine writes: a load and a store, no locked
// instruction. Relaxed: statistics only, nothing is published by it.
inline void count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

struct CounterInfo {
    const char* name;
    const char* text;
    std::atomic<uint64_t> Counters::*field;
};
const std::vector<CounterInfo>& counter_table();

}  // namespace pomona
