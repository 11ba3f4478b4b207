// btl/sim/wires.h: frames on their way through the simulated network.
// Idea: from one rank to another frames keep their order, whatever the network does to their
// times; who takes what has arrived is the caller's matter.
#pragma once

#include "btl/sim/network.h"
#include "btl/transport.h"

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace pomona::sim {

struct Frame {
    int from;
    FrameHeader header;
    std::vector<std::byte> payload;
    bool gone = false;  // not a frame: its sender died
};

class Wires {
public:
    using Arrive = std::function<void(int to, Frame frame)>;
    Wires(World& world, Network& network, Arrive arrive)
        : world_(world), network_(network), arrive_(std::move(arrive)) {}
    Wires(const Wires&) = delete;
    Wires& operator=(const Wires&) = delete;

    // When the sender's port is free again.
    Time send(int to, Frame frame);
    // The sender has died: said behind what it had sent, this much later.
    void send_gone(int from, int to, Time latency_ns);
    // Frames sent and not arrived.
    size_t under_way(int from, int to);
    bool empty() const { return all_under_way_ == 0; }

private:
    struct Way {  // from one rank to another, in order
        Wires* wires;
        int from, to;
        std::deque<Frame> flying, landing;
        Time last_head = 0;
    };

    Way& way(int from, int to);
    void fly(Way& way, Frame frame, Time head, uint64_t told);
    void head_reached(Way& way);
    void landed(Way& way);

    World& world_;
    Network& network_;
    Arrive arrive_;
    std::unordered_map<uint64_t, std::unique_ptr<Way>> ways_;  // made when first used
    size_t all_under_way_ = 0;
};

}  // namespace pomona::sim
