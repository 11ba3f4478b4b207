// btl/sim/world.cc: the event heap.
#include "btl/sim/world.h"

#include "btl/base/check.h"

#include <algorithm>
#include <cstring>

namespace pomona::sim {

namespace {
bool later(const Event& x, const Event& y) {
    return x.time != y.time ? x.time > y.time : x.order > y.order;
}
}  // namespace

void World::at(Time time, void (*function)(void*, uint64_t), void* context, uint64_t argument) {
    check(time >= now_, time, now_);
    heap_.push_back({time, order_++, function, context, argument});
    std::push_heap(heap_.begin(), heap_.end(), later);
}

bool World::step() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = heap_.back();
    heap_.pop_back();
    now_ = event.time;
    ++events_;
    uint64_t bits;
    std::memcpy(&bits, &event.time, sizeof bits);
    for (uint64_t value : {bits, event.argument}) {
        hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15u;
        hash_ ^= hash_ >> 31;
    }
    event.function(event.context, event.argument);
    return true;
}

Time World::run() {
    while (step()) {}
    return now_;
}

}  // namespace pomona::sim
