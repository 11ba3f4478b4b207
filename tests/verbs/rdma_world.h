// tests/verbs/rdma_world.h: ranks in one process, each with a link over one TCP connection and the
// fake devices of its own "machine" (fake_world.h), for tests of paths by RDMA.
#pragma once

#include "btl/base/format.h"
#include "btl/link/link.h"
#include "btl/rdma/rdma.h"
#include "tests/unit/transport_world.h"
#include "tests/verbs/fake_world.h"

#include <gtest/gtest.h>

#include <unistd.h>

namespace pomona {

inline FakeWorld& fabric() {
    static FakeWorld made(
        "cable 0 rdma_en2 1 rdma_en2\n"
        "cable 0 rdma_en3 1 rdma_en3\n"
        "cable 0 rdma_en4 2 rdma_en2\n"
        "cable 1 rdma_en4 2 rdma_en3\n");
    return made;
}

// Passes all on to the transport below, and counts what arrives by it.
struct Counting final : Transport, Sink {
    explicit Counting(std::unique_ptr<Transport> made) : below(std::move(made)) {}
    const char* name() const override { return below->name(); }
    std::vector<std::byte> address() const override { return below->address(); }
    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        return below->connect(peer, address);
    }
    Endpoint* path(int peer) override { return below->path(peer); }
    PathDescription describe(int peer) override { return below->describe(peer); }
    int poll(Sink& sink, int most) override {
        if (unread) return 0;
        above = &sink;
        enough = false;
        int moved = below->poll(*this, most);
        return moved;
    }
    bool arm() override { return below->arm(); }
    void disarm() override { below->disarm(); }
    bool pending() const override { return below->pending(); }
    bool rides() const override { return below->rides(); }
    void speak_by(Speaker speaker) override { below->speak_by(std::move(speaker)); }
    void hear(int peer, ConstBytes words) override {
        if (hears) hears(words);
        below->hear(peer, words);
    }
    Nanoseconds sleep_max() override { return below->sleep_max(); }
    std::byte* place(int peer, const FrameHeader& header, size_t length) override {
        return place_ = above->place(peer, header, length);
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        ++frames;
        bytes += payload.size();
        placed += std::exchange(place_, nullptr) == payload.data() ? payload.size() : 0;
        above->arrive(peer, header, payload);
    }
    void displaced(int peer, const FrameHeader& header, size_t length) override {
        above->displaced(peer, header, length);
    }
    void gone(int peer, const Error& why) override {
        ++losses;
        up_now[peer] = false;
        above->gone(peer, why);
    }
    void up(int peer) override {
        ++ups;
        up_now[peer] = true;
        above->up(peer);
    }
    std::unique_ptr<Transport> below;
    Sink* above = nullptr;
    uint64_t frames = 0, bytes = 0, placed = 0;  // placed: of these, by the path itself
    int ups = 0, losses = 0;
    bool unread = false;                    // nobody looks at it
    std::function<void(ConstBytes)> hears;  // words that come
    std::byte* place_ = nullptr;
    std::map<int, bool> up_now;
};

struct Ranks {
    // All ranks of a job, or one of them; with so many paths by RDMA between two; by another clock,
    // if any.
    explicit Ranks(int size, int only = -1, size_t cables = 1, Clock* by = nullptr,
                   Params given = {})
        : cables(cables), clock(by ? *by : real), params(std::move(given)) {
        if (only < 0) fabric().calm();
        held = fabric().held_by(getpid());
        too_early = fabric().too_early();
        char pattern[] = "/tmp/pomona-rdma-XXXXXX";
        directory = mkdtemp(pattern);
        ranks = std::vector<Rank>(static_cast<size_t>(size));  // they stay where they are
        for (int rank = 0; rank < size; ++rank)
            if (only < 0 || rank == only) make(rank, size);
    }
    ~Ranks() {
        for (auto& each : ranks) each.transport.reset();
        // All is given back, and in the right order.
        EXPECT_EQ(fabric().held_by(getpid()), held);
        EXPECT_EQ(fabric().too_early(), too_early);
        std::filesystem::remove_all(directory);
    }
    void make(int rank, int size) {
        Rank& own = ranks[static_cast<size_t>(rank)];
        own.sleeper = std::move(Sleeper::make(doorbell_path(directory, rank)).value());
        own.params = params;
        for (int n = 2; n < 5; ++n)
            own.params.rdma_devices += format("{}{}.rdma_en{}", n == 2 ? "" : ",", rank, n);
        auto shared = tcp::Shared::open(own.params, true);
        ASSERT_TRUE(shared.ok()) << shared.error().text();
        TcpOptions tcp{tcp_identity(rank, size), true, own.sleeper.get()};
        tcp.makes_paths = true;
        tcp.shared = *shared;
        auto made = make_tcp_transport(own.params, counters, std::move(tcp));
        ASSERT_TRUE(made.ok()) << made.error().text();
        std::string why;
        auto rdma = make_rdma_transports(own.params, counters, {rank, &clock}, why);
        ASSERT_GE(rdma.size(), cables) << why;
        rdma.resize(cables);
        std::vector<std::unique_ptr<Transport>> paths;
        auto add = [&](std::unique_ptr<Transport> each) {
            paths.push_back(std::make_unique<Counting>(std::move(each)));
            return static_cast<Counting*>(paths.back().get());
        };
        own.tcp = add(std::move(*made));
        for (auto& each : rdma) own.by_cable.push_back(add(std::move(each)));
        own.rdma = own.by_cable[0];
        LinkOptions link;
        link.rank = rank;
        link.clock = &clock;
        size_t longest = std::max(params.tcp_fragment, params.tcp_eager_max);
        link.caps = {0, params.tcp_eager_max, longest};
        own.transport =
            make_link_transport(own.params, counters, std::move(link), std::move(paths));
        own.address = own.transport->address();
    }
    Endpoint& endpoint(int from, int to) {
        auto& own = *ranks[static_cast<size_t>(from)].transport;
        return **own.connect(to, ranks[static_cast<size_t>(to)].address);
    }
    void poll() {
        for (Rank& each : ranks)
            if (each.transport) each.transport->poll(*each.taker, 16);
    }
    // Until it holds; false: not within the time.
    template <class Condition> bool until(Condition condition, int seconds = 60) {
        Nanoseconds end = clock.now() + seconds * 1'000'000'000LL;
        while (!condition() && clock.now() < end) poll();
        return condition();
    }
    // By all paths that there are to be.
    bool joined(int a, int b) {
        auto up = [&](int from, int to) {
            auto& all = ranks[static_cast<size_t>(from)].by_cable;
            return std::all_of(all.begin(), all.end(),
                               [&](auto* each) { return each->up_now[to]; });
        };
        return up(a, b) && up(b, a);
    }
    // So many frames each way between 0 and 1, whatever happens by `each_turn`.
    void exchange(uint64_t frames, const std::function<void(uint64_t)>& each_turn = {}) {
        uint64_t goal[2] = {ranks[0].sink.arrived + frames, ranks[1].sink.arrived + frames};
        uint64_t begun[2] = {sent[0], sent[1]};
        Nanoseconds end = clock.now() + 60'000'000'000;
        for (uint64_t turn = 0; ranks[0].sink.arrived < goal[0] || ranks[1].sink.arrived < goal[1];
             ++turn) {
            ASSERT_LT(clock.now(), end) << ranks[0].sink.arrived << " " << ranks[1].sink.arrived;
            for (int from : {0, 1}) {
                Endpoint& to = endpoint(from, 1 - from);
                for (int burst = 0; burst < 4 && sent[from] < begun[from] + frames; ++burst) {
                    size_t length = random_length(random, to.caps());
                    if (!try_push(to, sent[from], length, random.chance(0.5))) break;
                    ++sent[from];
                }
            }
            poll();
            if (each_turn) each_turn(turn);
        }
    }
    // Messages are sent until some have gone by RDMA; false: none do.
    bool goes_by_rdma(int seconds = 60) {
        uint64_t before = by_rdma();
        auto goes = [&] {
            exchange(50);
            return by_rdma() > before + 100;
        };
        return until(goes, seconds);
    }
    uint64_t by_rdma() const { return ranks[0].rdma->frames + ranks[1].rdma->frames; }

    struct Rank {
        std::unique_ptr<Sleeper> sleeper;
        Params params;
        std::unique_ptr<Transport> transport;
        Counting* tcp = nullptr;
        Counting* rdma = nullptr;  // the first of
        std::vector<Counting*> by_cable;
        std::vector<std::byte> address;
        Checker sink;
        Sink* taker = &sink;  // what polling hands things to
    };
    const size_t cables;
    RealClock real;
    Clock& clock;
    const Params params;
    Counters counters;
    Random random{seed()};
    std::string directory;
    std::vector<Rank> ranks;
    uint64_t sent[2] = {0, 0};
    int held = 0;  // of devices by this process, and to be held at the end
    uint64_t too_early = 0;
};

struct Fabric final : testing::Environment {
    void SetUp() override { fabric(); }
};
inline const auto* const kFabric = testing::AddGlobalTestEnvironment(new Fabric);

}  // namespace pomona
