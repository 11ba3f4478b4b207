// tests/verbs/share_bench.cc: verbs_share: what part of the processor's time by which the fake
// library moves long payloads remains of it when a link moves them over it.
// Idea: both ends are in one process and are polled in turns, so that nobody waits, and what else
// the machine does counts little. Both move as many bytes of as much memory: the library in
// messages of 64 KiB from and to their places, the link as a window of payloads. Of all rounds the
// quickest counts. A line: "share BYTES WINDOW LIBRARY LINK PART", GB for a second of one processor
// that does both ends' work. Then "short 8 LIBRARY LINK": its nanoseconds for a message of 8 bytes,
// sent and taken in, in turns.
// Usage: verbs_share [ROUNDS] [CRC]; CRC: as the parameter rdma_crc.
#include "tests/verbs/raw.h"
#include "tests/verbs/rdma_world.h"

#include <thread>

using namespace pomona;

namespace {

struct Places final : Sink {
    Places(size_t length, size_t window) : length(length), bytes(length * window) {}
    std::byte* place(int, const FrameHeader& header, size_t) override {
        return bytes.data() + header.word[0] * length + header.word[3];
    }
    void arrive(int, const FrameHeader& header, ConstBytes payload) override {
        std::byte* at = bytes.data() + header.word[0] * length + header.word[3];
        if (payload.data() != at) std::memcpy(at, payload.data(), payload.size());
        arrived += payload.size();
    }
    void released(int, uint64_t) override { ++released_; }
    void gone(int, const Error&) override { raw::stop("the other end is gone"); }
    const size_t length;
    std::vector<std::byte> bytes;
    size_t arrived = 0, released_ = 0;
};

// Nanoseconds of `turn`, which sends a message and takes it in: of many batches the quickest.
template <class Turn> double quickest(int rounds, Turn turn) {
    constexpr int kBatch = 200;
    double best = 1e9;
    for (int batch = 0; batch < 20 * rounds; ++batch) {
        double begin = raw::processor_now();
        for (int i = 0; i < kBatch; ++i) turn(i % 2);
        best = std::min(best, (raw::processor_now() - begin) / kBatch * 1e9);
    }
    return best;
}

struct Halves {
    Halves(size_t bytes, size_t used) {
        if (pipe(there) != 0 || pipe(back) != 0) raw::stop("there is no pipe");
        std::thread second([&] {
            other = std::make_unique<raw::Half>("1.rdma_en4", bytes, used, back[1], there[0]);
        });
        one = std::make_unique<raw::Half>("2.rdma_en3", bytes, used, there[1], back[0]);
        second.join();
    }
    ~Halves() {
        for (int each : {there[0], there[1], back[0], back[1]}) close(each);
    }
    int there[2], back[2];
    std::unique_ptr<raw::Half> one, other;
};

double short_by_library(int rounds) {
    Halves halves(8, 0);
    return quickest(rounds, [&](int from) {
        raw::Half &sender = from == 0 ? *halves.one : *halves.other,
                  &taker = from == 0 ? *halves.other : *halves.one;
        uint64_t goal = taker.arrived + 1;
        sender.send();
        while (taker.arrived < goal) taker.poll();
    });
}

double short_by_link(Ranks& world, int rounds) {
    struct Count final : Sink {
        std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
        void arrive(int, const FrameHeader&, ConstBytes) override { ++arrived; }
        void gone(int, const Error&) override { raw::stop("the other end is gone"); }
        uint64_t arrived = 0;
    } counts[2];
    Endpoint* to[2] = {&world.endpoint(0, 1), &world.endpoint(1, 0)};
    std::byte payload[8]{};
    return quickest(rounds, [&](int from) {
        Count& count = counts[1 - from];
        Transport& taker = *world.ranks[static_cast<size_t>(1 - from)].transport;
        uint64_t goal = count.arrived + 1;
        if (to[from]->push({}, payload) != Push::sent) raw::stop("a message is not taken");
        while (count.arrived < goal) taker.poll(count, 16);
    });
}

double by_library(size_t used, int rounds) {
    Halves halves(raw::kMessage, used);
    auto &one = halves.one, &other = halves.other;
    uint64_t messages = std::max<uint64_t>(used / raw::kMessage, 64);
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
        uint64_t goal = one->sent + messages, arrived = other->arrived + messages;
        double begin = raw::processor_now();
        while (one->sent < goal || other->arrived < arrived) {
            while (one->given < goal && one->given - one->sent < one->slots) one->send();
            one->poll();
            other->poll();
        }
        double took = raw::processor_now() - begin;
        best = std::max(best, static_cast<double>(messages * raw::kMessage) / took * 1e-9);
    }
    return best;
}

double by_link(Ranks& world, size_t length, size_t window, int rounds) {
    std::vector<std::byte> source(length * window, std::byte{1});
    Places target(length, window), sender(0, 0);
    world.ranks[0].taker = &sender;
    world.ranks[1].taker = &target;
    Endpoint& to = world.endpoint(0, 1);
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
        uint64_t by_tcp = world.ranks[1].tcp->bytes;
        target.arrived = sender.released_ = 0;
        double begin = raw::processor_now();
        for (size_t i = 0; i < window; ++i) {
            Bulk bulk;
            bulk.place = bulk.ticket = i;
            bulk.length = length;
            bulk.data = source.data() + i * length;
            if (to.push_bulk(bulk) != Push::sent) raw::stop("a payload is not taken");
        }
        while (target.arrived < source.size() || sender.released_ < window) world.poll();
        double took = raw::processor_now() - begin;
        // The link also tries what TCP can do beside.
        if (world.ranks[1].tcp->bytes - by_tcp > 4096) continue;
        best = std::max(best, static_cast<double>(source.size()) / took * 1e-9);
    }
    for (auto& each : world.ranks) each.taker = &each.sink;
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
    Params params;
    if (argc > 2) params.rdma_crc = argv[2];
    fabric().calm();
    fabric().say("hold * * on");
    struct {
        size_t length, window;
    } const kCases[] = {
        {64 << 10, 64}, {256 << 10, 64}, {1 << 20, 16}, {4 << 20, 4}, {16 << 20, 2}};
    for (const auto& each : kCases) {
        double library = 0, link = 0;
        for (int turn = 0; turn < 3; ++turn) {
            library = std::max(library, by_library(each.length * each.window, rounds));
            Ranks world(2, -1, 1, nullptr, params);
            fabric().say("hold * * on");
            world.exchange(50);
            if (!world.until([&] { return world.joined(0, 1); })) raw::stop("there is no path");
            link = std::max(link, by_link(world, each.length, each.window, rounds));
        }
        std::printf("share %zu %zu %.2f %.2f %.3f\n", each.length, each.window, library, link,
                    link / library);
        std::fflush(stdout);
    }
    double library = short_by_library(rounds), link = 0;
    Ranks world(2, -1, 1, nullptr, params);
    fabric().say("hold * * on");
    world.exchange(50);
    if (!world.until([&] { return world.joined(0, 1); })) raw::stop("there is no path");
    link = short_by_link(world, rounds);
    std::printf("short 8 %.0f %.0f\n", library, link);
    return 0;
}
