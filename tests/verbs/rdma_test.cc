// tests/verbs/rdma_test.cc: paths by RDMA, as a link uses them.
// Goal: two ranks agree on queue pairs or stay with TCP, never half; every fault moves what was under way
// to TCP and, when it is over, back; the limits of devices are kept. Method: ranks in one process, each
// with a link over one TCP connection and the fake devices of its own "machine"; numbered payloads of
// random lengths, which the sinks check.
#include "btl/base/format.h"
#include "btl/link/link.h"
#include "btl/rdma/crc32c.h"
#include "btl/rdma/rdma.h"
#include "btl/rdma/wire.h"
#include "tests/unit/transport_world.h"
#include "tests/verbs/fake_world.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

FakeWorld& fabric() {
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
    void hear(int peer, ConstBytes words) override { below->hear(peer, words); }
    Nanoseconds sleep_max() override { return below->sleep_max(); }
    std::byte* place(int peer, const FrameHeader& header, size_t length) override {
        return above->place(peer, header, length);
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        ++frames;
        above->arrive(peer, header, payload);
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
    uint64_t frames = 0;
    int ups = 0, losses = 0;
    std::map<int, bool> up_now;
};

struct Ranks {
    // All ranks of a job, or one of them.
    explicit Ranks(int size, int only = -1) {
        if (only < 0) fabric().calm();
        char pattern[] = "/tmp/pomona-rdma-XXXXXX";
        directory = mkdtemp(pattern);
        ranks.resize(static_cast<size_t>(size));
        for (int rank = 0; rank < size; ++rank)
            if (only < 0 || rank == only) make(rank, size);
    }
    ~Ranks() {
        for (auto& each : ranks) each.transport.reset();
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
        auto rdma = make_rdma_transport(own.params, counters, {rank, &clock}, why);
        ASSERT_NE(rdma, nullptr) << why;
        std::vector<std::unique_ptr<Transport>> paths;
        for (auto* each : {&*made, &rdma}) {
            auto counting = std::make_unique<Counting>(std::move(*each));
            (each == &rdma ? own.rdma : own.tcp) = counting.get();
            paths.push_back(std::move(counting));
        }
        LinkOptions link;
        link.rank = rank;
        link.clock = &clock;
        size_t longest = std::max(params.tcp_fragment, params.tcp_eager_max) - kLinkRoom;
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
            if (each.transport) each.transport->poll(each.sink, 16);
    }
    // Until it holds; false: not within the time.
    template <class Condition> bool until(Condition condition, int seconds = 20) {
        Nanoseconds end = clock.now() + seconds * 1'000'000'000LL;
        while (!condition() && clock.now() < end) poll();
        return condition();
    }
    bool joined(int a, int b) {
        return ranks[static_cast<size_t>(a)].rdma->up_now[b] &&
               ranks[static_cast<size_t>(b)].rdma->up_now[a];
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
    uint64_t by_rdma() const { return ranks[0].rdma->frames + ranks[1].rdma->frames; }

    struct Rank {
        std::unique_ptr<Sleeper> sleeper;
        Params params;
        std::unique_ptr<Transport> transport;
        Counting* tcp = nullptr;
        Counting* rdma = nullptr;
        std::vector<std::byte> address;
        Checker sink;
    };
    Params params;
    Counters counters;
    RealClock clock;
    Random random{seed()};
    std::string directory;
    std::vector<Rank> ranks;
    uint64_t sent[2] = {0, 0};
};

struct Fabric final : testing::Environment {
    void SetUp() override { fabric(); }
};
const auto* const kFabric = testing::AddGlobalTestEnvironment(new Fabric);

TEST(Rdma, checksums) {
    // RFC 3720, B.4: 32 bytes of zeros, and of ones.
    std::vector<std::byte> bytes(32);
    EXPECT_EQ(rdma::crc32c(bytes), 0x8a9136aau);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    EXPECT_EQ(rdma::crc32c(bytes), 0x62a8ab43u);
    Random random(seed());
    for (int i = 0; i < 300; ++i) {
        std::vector<std::byte> any(random.below(20000));
        for (auto& each : any) each = static_cast<std::byte>(random.next());
        EXPECT_EQ(rdma::crc32c(any), rdma::crc32c_plain(any)) << any.size() << " bytes";
    }
}

// Goal: words of any bytes parse or do not, and those of ours come back. Method: changed and cut ones.
TEST(Rdma, words_parse) {
    rdma::Words words{rdma::Word::accept, 7};
    words.end = {"rdma_en2", {1, 2, 3}, 5, 4, true, {{77, 1, 4096, 64}, {78, 2, 131072, 16}}};
    auto bytes = words.pack();
    auto back = rdma::parse_words(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->end.device, "rdma_en2");
    EXPECT_EQ(back->end.pairs[1].stride, 131072u);
    Random random(seed());
    for (size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_FALSE(rdma::parse_words(ConstBytes(bytes).first(cut)));
    for (int i = 0; i < 2000; ++i) {
        auto changed = bytes;
        changed[random.below(changed.size())] = static_cast<std::byte>(random.next());
        (void)rdma::parse_words(changed);
    }
}

TEST(Rdma, is_agreed_on_and_preferred) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    uint64_t before = world.by_rdma();
    auto by_tcp = [&] { return world.ranks[0].tcp->frames + world.ranks[1].tcp->frames; };
    uint64_t before_by_tcp = by_tcp();
    world.exchange(2000);
    // Where the machine is busy some may take the other way.
    EXPECT_GT(world.by_rdma() - before, 2 * (by_tcp() - before_by_tcp));
}

// Goal: each fault, in the middle of messages, costs none; and RDMA is used again when it is over.
class RdmaFaults : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(RdmaFaults, move_messages_to_TCP_and_back) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(2000, [&](uint64_t turn) {
        if (turn == 20) fabric().say(GetParam().first);
        if (turn == 100) fabric().say("drop * * 0");
    });
    world.exchange(300);
    fabric().say(GetParam().second);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    // A path that was silent is used when it has answered.
    uint64_t before = world.by_rdma();
    EXPECT_TRUE(world.until([&] {
        world.exchange(50);
        return world.by_rdma() > before + 100;
    }));
}
INSTANTIATE_TEST_SUITE_P(All, RdmaFaults,
                         testing::Values(std::pair{"pull 0 *", "plug 0 *"},
                                         std::pair{"port 1 * down", "port 1 * up"},
                                         std::pair{"lose 0 *", "find 0 *"},
                                         std::pair{"lose 1 *", "find 1 *"},
                                         std::pair{"stall * * on", "stall * * off"},
                                         std::pair{"stall 0 * on", "stall 0 * off"},
                                         std::pair{"drop * * 1000", "drop * * 0"},
                                         std::pair{"drop 1 * 1000", "drop 1 * 0"},
                                         std::pair{"corrupt * * 1000", "corrupt * * 0"},
                                         std::pair{"regions * * off", "regions * * on"},
                                         std::pair{"gids * * off", "gids * * on"}));

class RdmaLosses : public testing::TestWithParam<const char*> {};
TEST_P(RdmaLosses, are_repaired) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    fabric().say(GetParam());
    world.exchange(1500);
    fabric().calm();
    EXPECT_GT(world.by_rdma(), 500u);
}
INSTANTIATE_TEST_SUITE_P(All, RdmaLosses,
                         testing::Values("drop * * 50", "duplicate * * 50", "reorder * * 100",
                                         "corrupt * * 50", "hold * * on"));

// The other cable, when the first one's port is down.
TEST(Rdma, takes_another_cable) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    std::string first = world.ranks[0].rdma->describe(1).text;
    const char* name = first.find("rdma_en2") != std::string::npos ? "rdma_en2" : "rdma_en3";
    int ups = world.ranks[0].rdma->ups;
    fabric().say(std::string("pull 0 ") + name);
    ASSERT_TRUE(world.until([&] { return world.ranks[0].rdma->ups > ups && world.joined(0, 1); }));
    EXPECT_EQ(world.ranks[0].rdma->describe(1).text.find(name), std::string::npos);
    world.exchange(200);
}

TEST(Rdma, finds_the_longest_message_that_gets_through) {
    fabric().calm();
    Ranks world(2);
    fabric().say("message_most * * 16384");
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_NE(world.ranks[0].rdma->describe(1).text.find("messages of 16384"), std::string::npos);
    world.exchange(300);
    fabric().say("message_most * * 4096");
    fabric().say("pull * *");
    ASSERT_TRUE(world.until([&] { return !world.joined(0, 1); }));
    fabric().say("plug * *");
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_EQ(world.ranks[0].rdma->describe(1).text.find("messages of"), std::string::npos);
    world.exchange(300);
}

// Without an address, or a port, at first.
TEST(Rdma, comes_when_the_device_is_ready) {
    for (const char* fault : {"gids 1 * off", "port 0 * down", "regions 1 * off"}) {
        fabric().calm();
        fabric().say(fault);
        Ranks world(2);
        fabric().say(fault);
        world.exchange(200);
        EXPECT_TRUE(world.until([&] {
            return world.ranks[0].rdma->describe(1).text.find("rdma_en") != std::string::npos;
        })) << "the reason names the device";
        EXPECT_EQ(world.ranks[0].rdma->ups, 0);
        fabric().calm();
        EXPECT_TRUE(world.until([&] { return world.joined(0, 1); })) << fault;
        world.exchange(100);
    }
}

// Goal: while TCP's connection is made anew messages go by RDMA. Method: it is ended again and again.
TEST(Rdma, goes_on_while_TCP_breaks) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    int losses = world.ranks[0].rdma->losses;
    world.exchange(2000, [&](uint64_t turn) {
        if (turn % 100 != 50) return;
        if (Endpoint* path = world.ranks[0].tcp->path(1))
            path->abandon({Code::peer_gone, "It is ended by the test", 1});
    });
    EXPECT_GT(world.ranks[0].tcp->losses, 2);
    EXPECT_EQ(world.ranks[0].rdma->losses, losses);
}

// Goal: a process that is killed is gone, though RDMA says nothing. Method: a rank as a process.
TEST(Rdma, a_killed_process_is_gone) {
    int to_child[2], to_parent[2];
    ASSERT_EQ(pipe(to_child), 0);
    ASSERT_EQ(pipe(to_parent), 0);
    fabric().calm();
    auto tell = [](int end, const std::vector<std::byte>& address) {
        uint32_t length = static_cast<uint32_t>(address.size());
        (void)!write(end, &length, sizeof length);
        (void)!write(end, address.data(), length);
    };
    auto hear = [](int end) {
        uint32_t length = 0;
        (void)!read(end, &length, sizeof length);
        std::vector<std::byte> address(length);
        (void)!read(end, address.data(), length);
        return address;
    };
    pid_t child = fork();
    if (child == 0) {
        Ranks world(2, 1);
        tell(to_parent[1], world.ranks[1].address);
        world.ranks[0].address = hear(to_child[0]);
        for (uint64_t number = 0;; world.poll())
            if (number < 100 && try_push(world.endpoint(1, 0), number, 100, false)) ++number;
    }
    Ranks world(2, 0);
    tell(to_child[1], world.ranks[0].address);
    world.ranks[1].address = hear(to_parent[0]);
    auto& own = world.ranks[0];
    EXPECT_TRUE(world.until([&] { return own.rdma->up_now[1] && own.sink.arrived == 100; }));
    kill(child, SIGKILL);
    siginfo_t dead;
    waitid(P_PID, static_cast<id_t>(child), &dead, WEXITED | WNOWAIT);
    EXPECT_TRUE(world.until([&] { return own.sink.told[1] == 1; }, 5));
    waitpid(child, nullptr, 0);
    for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
}

TEST(Rdma, the_end_of_a_process_is_told) {
    Ranks world(3);
    world.exchange(50);
    world.endpoint(0, 2);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(0, 2); }));
    world.ranks[1].transport.reset();
    EXPECT_TRUE(world.until([&] { return world.ranks[0].sink.told[1] == 1; }));
    EXPECT_EQ(world.ranks[0].sink.told[2], 0);
}

}  // namespace
}  // namespace pomona
