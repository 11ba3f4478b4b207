// tests/sim/link_shares.cc: one long payload over unlike paths, in virtual time.
// Goal: paths of a link carry nearly the sum of their rates also where one payload alone is on its way,
// since what the slow one begins last ends with what the quick one does. Method: two reliable ways whose
// lines and buffers behave as a system's sockets do; payloads of 4 MiB one after the other, each when the
// one before was released; the time from the first push to the last byte, against the sum of the rates.
#include "btl/link/link.h"
#include "btl/sim/paths.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pomona {
namespace {

constexpr size_t kPayload = 4 << 20;
constexpr size_t kFragment = (512 << 10) - kLinkRoom;  // tcp_fragment
constexpr double kMegabit = 125e-6;                    // bytes a nanosecond

struct Receiver final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t) override {
        return data.data() + header.word[3];
    }
    void arrive(int, const FrameHeader&, ConstBytes payload) override { arrived += payload.size(); }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    std::vector<std::byte> data = std::vector<std::byte>(kPayload);
    size_t arrived = 0;
};

struct Sender final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int, const FrameHeader&, ConstBytes) override {}
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    void released(int, uint64_t ticket) override { last = ticket; }
    uint64_t last = 0;
};

struct Pair {
    Pair(std::vector<double> megabits, size_t buffer) : fabric(7, 2, ways(megabits, buffer)) {
        for (int rank = 0; rank < 2; ++rank) {
            std::vector<std::unique_ptr<Transport>> paths;
            for (size_t way = 0; way < megabits.size(); ++way)
                paths.push_back(fabric.make_transport(rank, static_cast<int>(way)));
            LinkOptions link;
            link.rank = rank;
            link.clock = &fabric.clock();
            link.caps = {64, 2048, kFragment};
            transports.push_back(
                make_link_transport(params, counters, std::move(link), std::move(paths)));
        }
        endpoint = *transports[0]->connect(1, transports[1]->address());
        run_while([&] { return fabric.clock().now() < 20'000'000; });
    }
    static std::vector<sim::WayOptions> ways(const std::vector<double>& megabits, size_t buffer) {
        std::vector<sim::WayOptions> out;
        for (double each : megabits) {
            sim::WayOptions way;
            way.latency_ns = 100'000;
            way.byte_ns = 1 / (each * kMegabit);
            way.buffer = buffer;
            way.fills = true;
            way.fragment_max = kFragment + kLinkRoom;
            out.push_back(way);
        }
        return out;
    }
    template <class Condition> void run_while(Condition more) {
        while (more() && !testing::Test::HasFailure()) {
            transports[0]->poll(sender, 16);
            transports[1]->poll(receiver, 16);
            fabric.run_until(fabric.world().now() + 20'000);
            ASSERT_LT(fabric.world().now(), 20e9) << "it hangs";
        }
    }
    // The part of the ways' sum that one payload reached.
    double send_one(double sum_of_rates) {
        Bulk bulk;
        bulk.ticket = ++ticket;
        bulk.length = data.size();
        bulk.data = data.data();
        receiver.arrived = 0;
        double begin = fabric.world().now();
        EXPECT_EQ(endpoint->push_bulk(bulk), Push::sent);
        run_while([&] { return receiver.arrived < kPayload; });
        double took = fabric.world().now() - begin;
        run_while([&] { return sender.last != ticket; });
        return static_cast<double>(kPayload) / took / sum_of_rates;
    }

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

// The least part of the sum, of payloads sent when the rates are known.
double least_part(const std::vector<double>& megabits, size_t buffer) {
    Pair pair(megabits, buffer);
    double sum = 0, least = 2;
    for (double each : megabits) sum += each * kMegabit;
    for (int number = 0; number < 12; ++number) {
        double part = pair.send_one(sum);
        if (number >= 2) least = std::min(least, part);
    }
    return least;
}

TEST(LinkShares, one_payload_reaches_the_sum_of_unlike_rates) {
    for (size_t buffer : {128 << 10, 384 << 10, 1 << 20})
        for (const auto& megabits : std::vector<std::vector<double>>{
                 {500, 500}, {500, 100}, {100, 500}, {500, 250}, {1000, 50}, {500, 100, 100}}) {
            std::string name = std::to_string(buffer >> 10) + " KiB:";
            for (double each : megabits) name += " " + std::to_string(static_cast<int>(each));
            double part = least_part(megabits, buffer);
            EXPECT_GE(part, 0.95) << name;
            EXPECT_LE(part, 1.0) << name;
        }
}

}  // namespace
}  // namespace pomona
