// tests/sim/link_pair.h: two ranks with a link over simulated lines, of which rank 0 sends and rank
// 1 receives, for tests of how much and how soon. Lines and buffers behave as a system's sockets
// do.
#pragma once

#include "btl/link/link.h"
#include "btl/sim/paths.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace pomona {

inline constexpr size_t kFragment = 512 << 10;  // tcp_fragment
inline constexpr double kMegabit = 125e-6;      // bytes a nanosecond
inline constexpr size_t kPayload = 4 << 20;     // at most, of all on their way

struct Receiver final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t) override {
        return data.data() + header.word[3];
    }
    void arrive(int, const FrameHeader&, ConstBytes payload) override {
        arrived += payload.size();
        ++frames;
    }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    std::vector<std::byte> data = std::vector<std::byte>(kPayload);
    size_t arrived = 0, frames = 0;
};

struct Sender final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int, const FrameHeader&, ConstBytes) override { ++frames; }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    void released(int, uint64_t ticket) override { EXPECT_TRUE(back.insert(ticket).second); }
    std::set<uint64_t> back;  // tickets
    size_t frames = 0;
};

struct LinkPair {
    LinkPair(const std::vector<double>& megabits, size_t buffer, double latency_ns = 100'000)
        : fabric(7, 2, ways(megabits, buffer, latency_ns)) {
        for (int rank = 0; rank < 2; ++rank) {
            std::vector<std::unique_ptr<Transport>> paths;
            for (size_t way = 0; way < megabits.size(); ++way)
                paths.push_back(fabric.make_transport(rank, static_cast<int>(way)));
            LinkOptions link;
            link.rank = rank;
            link.clock = &fabric.clock();
            link.caps = {64, 65536, kFragment};
            transports.push_back(
                make_link_transport(params, counters, std::move(link), std::move(paths)));
        }
        endpoint = *transports[0]->connect(1, transports[1]->address());
        run_while([&] { return fabric.clock().now() < 20'000'000; });
    }
    static std::vector<sim::WayOptions> ways(const std::vector<double>& megabits, size_t buffer,
                                             double latency_ns) {
        std::vector<sim::WayOptions> out;
        for (double each : megabits) {
            sim::WayOptions way;
            way.latency_ns = latency_ns;
            way.byte_ns = 1 / (each * kMegabit);
            way.buffer = buffer;
            way.fills = true;
            way.fragment_max = kFragment + kLinkRoom;
            out.push_back(way);
        }
        return out;
    }
    void poll() {
        transports[0]->poll(sender, 16);
        transports[1]->poll(receiver, 16);
    }
    void turn() {
        poll();
        fabric.run_until(fabric.world().now() + turn_ns);
    }
    template <class Condition> void run_while(Condition more) {
        while (more() && !testing::Test::HasFailure()) {
            turn();
            ASSERT_LT(fabric.world().now(), 20e9) << "it hangs";
        }
    }
    // A payload of this pair's data, whose ticket this returns.
    uint64_t push_long(size_t bytes) {
        Bulk bulk;
        bulk.ticket = ++ticket;
        bulk.length = bytes;
        bulk.data = data.data();
        EXPECT_EQ(endpoint->push_bulk(bulk), Push::sent);
        return ticket;
    }
    // A message that the caller can keep.
    void push_held(size_t bytes) {
        bool held = false;
        EXPECT_EQ(endpoint->push_held({}, {data.data(), bytes}, ++ticket, held), Push::sent);
        if (!held) sender.back.insert(ticket);
    }

    sim::Time turn_ns = 20'000;
    Params params;
    Counters counters;
    sim::PathFabric fabric;
    std::vector<std::unique_ptr<Transport>> transports;
    Endpoint* endpoint = nullptr;
    Sender sender;
    Receiver receiver;
    std::vector<std::byte> data = std::vector<std::byte>(kPayload);
    uint64_t ticket = 0;
};

}  // namespace pomona
