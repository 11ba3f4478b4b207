// btl/sim/wires.cc: see wires.h.
#include "btl/sim/wires.h"

#include <algorithm>

namespace pomona::sim {

Wires::Way& Wires::way(int from, int to) {
    auto& made = ways_[static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)];
    if (!made) {
        made = std::make_unique<Way>();
        made->wires = this, made->from = from, made->to = to;
    }
    return *made;
}

size_t Wires::under_way(int from, int to) {
    const Way& used = way(from, to);
    return used.flying.size() + used.landing.size();
}

Time Wires::send(int to, Frame frame) {
    auto from = static_cast<uint64_t>(frame.from);
    size_t length = frame.payload.size();
    Network::Departure departure = network_.depart(frame.from, to, length + sizeof(FrameHeader));
    uint64_t told = frame.header.word[0] ^ from << 40 ^ static_cast<uint64_t>(to) << 20 ^ length;
    fly(way(frame.from, to), std::move(frame), departure.head, told);
    return departure.sent;
}

void Wires::send_gone(int from, int to, Time latency_ns) {
    fly(way(from, to), {from, {}, {}, true}, world_.now() + latency_ns, 0xdead);
}

void Wires::fly(Way& way, Frame frame, Time head, uint64_t told) {
    way.last_head = std::max(way.last_head, head);
    way.flying.push_back(std::move(frame));
    ++all_under_way_;
    world_.at(
        way.last_head,
        [](void* context, uint64_t) {
            auto* way = static_cast<Way*>(context);
            way->wires->head_reached(*way);
        },
        &way, told);
}

void Wires::head_reached(Way& way) {
    size_t length = way.flying.front().payload.size() + sizeof(FrameHeader);
    way.landing.push_back(std::move(way.flying.front()));
    way.flying.pop_front();
    Time over = network_.arrive(way.from, way.to, length);
    world_.at(
        over,
        [](void* context, uint64_t) {
            auto* way = static_cast<Way*>(context);
            way->wires->landed(*way);
        },
        &way, length);
}

void Wires::landed(Way& way) {
    Frame frame = std::move(way.landing.front());
    way.landing.pop_front();
    --all_under_way_;
    arrive_(way.to, std::move(frame));
}

}  // namespace pomona::sim
