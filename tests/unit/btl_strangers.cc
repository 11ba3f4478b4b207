// tests/unit/btl_strangers.cc: TCP connections that come to nothing, from inside the job and
// outside.
// Goal: a pair of ranks that reach each other one way only meets; an address where somebody else
// answers, or nobody, is passed over; strangers (silent, slow, talking garbage, ten thousand of
// them) cost a job neither memory nor reads. Method: ranks of a "job" are transports of one
// process, driven in turn; strangers are bare sockets; what they cost is counted, not timed.
#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/tcp/socket.h"
#include "btl/tcp/tcp.h"
#include "btl/tcp/wire.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {
namespace {

struct Receiver final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int peer, const FrameHeader& header, ConstBytes) override {
        EXPECT_EQ(header.word[0], next[static_cast<size_t>(peer)]++) << "from " << peer;
        ++arrived;
    }
    void gone(int, const Error& error) override { ++told, why = error.text(); }
    uint64_t next[64] = {};
    uint64_t arrived = 0;
    int told = 0;
    std::string why;
};

struct Rank {
    Rank(const Params& params, int rank, int size) : sleeper(std::move(Sleeper::make("").value())) {
        auto made =
            make_tcp_transport(params, counters, {tcp_identity(rank, size), true, sleeper.get()});
        EXPECT_TRUE(made.ok());
        transport = std::move(made.value());
    }
    void poll() {
        transport->poll(sink, 16);
        transport->arm();  // also looks at the listener
        transport->disarm();
    }
    tcp::Address address() const { return *tcp::parse_address(transport->address()); }
    Endpoint* connect(int peer, const tcp::Address& address) {
        auto made = transport->connect(peer, tcp::write_address(address));
        EXPECT_TRUE(made.ok());
        return *made;
    }
    Counters counters;
    std::unique_ptr<Sleeper> sleeper;
    std::unique_ptr<Transport> transport;
    Receiver sink;
};

struct Job {
    explicit Job(int size) {
        params.connect_timeout_ms = 4000;
        for (int rank = 0; rank < size; ++rank)
            ranks.push_back(std::make_unique<Rank>(params, rank, size));
    }
    void poll() {
        for (auto& rank : ranks) rank->poll();
    }
    template <class Condition> bool until(Condition holds, int milliseconds = 20'000) {
        RealClock clock;
        Nanoseconds end = clock.now() + static_cast<Nanoseconds>(milliseconds) * 1'000'000;
        for (; clock.now() < end; poll())
            if (holds()) return true;
        return holds();
    }
    bool send(Endpoint* endpoint, uint64_t number) {
        Push done = Push::busy;
        return until([&] {
                   done = endpoint->push({{number, 0, 0, 0}}, {});
                   return done != Push::busy;
               }) &&
               done == Push::sent;
    }
    bool arrived(size_t rank, uint64_t frames) {
        return until([&] { return ranks[rank]->sink.arrived == frames; });
    }
    Params params;
    std::vector<std::unique_ptr<Rank>> ranks;
};

tcp::Socket connected(const tcp::Address& address, const char* host = "127.0.0.1") {
    auto made = tcp::Socket::connect(host, address.places[0].port, 0);
    EXPECT_TRUE(made.ok());
    if (!made.ok()) return {};
    pollfd look{made->descriptor(), POLLOUT, 0};
    ::poll(&look, 1, 5000);
    return std::move(*made);
}

// Whatever it was told before.
bool closed(tcp::Socket& socket) {
    std::byte bytes[256];
    ssize_t got = 0;
    do got = socket.read(bytes, {});
    while (got > 0);
    return got < 0;
}

#if defined(__linux__)

// A port that neither answers nor refuses: nobody accepts, and the queue of connections is full.
struct Silence {
    Silence() {
        descriptor = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof own;
        EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&own), length), 0);
        EXPECT_EQ(listen(descriptor, 0), 0);
        EXPECT_EQ(getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length), 0);
        address = address_at(ntohs(own.sin_port), {"127.0.0.1"});
        for (int i = 0; i < 4; ++i)
            fill.push_back(
                std::move(tcp::Socket::connect("127.0.0.1", ntohs(own.sin_port), 0).value()));
        usleep(20'000);
    }
    ~Silence() { close(descriptor); }
    int descriptor;
    std::vector<tcp::Socket> fill;
    tcp::Address address;
};

// Both connect at once, and what one of them sends on its way out is lost: the other's connection
// is used, whichever rank is the lower one.
TEST(Strangers, one_way_is_enough) {
    Silence silence;
    for (size_t deaf : {0, 1}) {
        Job job(2);
        size_t other = 1 - deaf;
        Endpoint* ends[2] = {};
        ends[deaf] = job.ranks[deaf]->connect(static_cast<int>(other), silence.address);
        for (int turn = 0; turn < 5; ++turn) job.poll();
        ends[other] = job.ranks[other]->connect(static_cast<int>(deaf), job.ranks[deaf]->address());
        // Before the attempt that cannot succeed is given up.
        EXPECT_TRUE(job.until(
            [&] {
                return ends[other]->push({{0, 0, 0, 0}}, {}) == Push::sent;
            },
            2000));
        EXPECT_TRUE(job.arrived(deaf, 1));
        EXPECT_TRUE(job.send(ends[deaf], 0));
        EXPECT_TRUE(job.arrived(other, 1));
        for (auto& rank : job.ranks) EXPECT_EQ(rank->sink.told, 0) << rank->sink.why;
    }
}

// At the first of a peer's addresses another program listens (127.0.0.2 stands for a network that
// has such an address too): with wrong words, with none, closing at once.
TEST(Strangers, somebody_else_is_passed_over) {
    enum class Manner { wrong, silent, closing };
    for (Manner manner : {Manner::wrong, Manner::silent, Manner::closing}) {
        Job job(2);
        tcp::Address address = job.ranks[1]->address();
        int other = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in place{};
        place.sin_family = AF_INET;
        uint16_t port = address.places[0].port;
        place.sin_port = htons(port);
        inet_pton(AF_INET, "127.0.0.2", &place.sin_addr);
        if (bind(other, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0) {
            close(other);
            GTEST_SKIP() << "127.0.0.2 is taken";
        }
        ASSERT_EQ(listen(other, 10), 0);
        fcntl(other, F_SETFL, O_NONBLOCK);
        std::vector<tcp::Socket> met;
        Endpoint* endpoint = job.ranks[0]->connect(1, address_at(port, {"127.0.0.2", "127.0.0.1"}));
        Push done = Push::busy;
        EXPECT_TRUE(job.until([&] {
            tcp::Socket made(accept(other, nullptr, nullptr));
            if (made.open()) {
                std::vector<std::byte> words(200, std::byte{42});
                if (manner == Manner::wrong) made.write(words, {});
                if (manner != Manner::closing) met.push_back(std::move(made));
            }
            done = endpoint->push({{0, 0, 0, 0}}, {});
            return done != Push::busy;
        }));
        EXPECT_EQ(done, Push::sent) << job.ranks[0]->sink.why;
        EXPECT_TRUE(job.arrived(1, 1));
        close(other);
    }
}

#endif

// Silent strangers are not read from, not even once a turn.
TEST(Strangers, silence_costs_nothing) {
    Job job(2);
    Endpoint* endpoint = job.ranks[0]->connect(1, job.ranks[1]->address());
    ASSERT_TRUE(job.send(endpoint, 0) && job.arrived(1, 1));
    std::vector<tcp::Socket> silent;
    for (int i = 0; i < 100; ++i) silent.push_back(connected(job.ranks[1]->address()));
    for (int turn = 0; turn < 1000; ++turn) job.poll();
    uint64_t before = job.ranks[1]->counters.tcp_reads.load();
    for (int turn = 0; turn < 10'000; ++turn) job.ranks[1]->transport->poll(job.ranks[1]->sink, 16);
    // One connection of the job is looked at in each turn, and nothing else.
    EXPECT_LE(job.ranks[1]->counters.tcp_reads.load() - before, 11'000u);
    EXPECT_TRUE(job.send(endpoint, 1) && job.arrived(1, 2));
}

// The same of peers that have nothing to say: what a turn costs does not grow with them.
TEST(Strangers, idle_peers_cost_nothing) {
    constexpr size_t kRanks = 40;
    Job job(kRanks);
    std::vector<Endpoint*> ends(kRanks);
    for (size_t from = 1; from < kRanks; ++from) {
        ends[from] = job.ranks[from]->connect(0, job.ranks[0]->address());
        ASSERT_TRUE(job.send(ends[from], 0) && job.arrived(0, from));
    }
    Rank& first = *job.ranks[0];
    for (int turn = 0; turn < 100; ++turn) first.transport->poll(first.sink, 16);
    uint64_t reads = first.counters.tcp_reads.load(), looks = first.counters.tcp_looks.load();
    constexpr uint64_t kFrames = 1000;
    for (uint64_t number = 1; number <= kFrames; ++number) {
        ASSERT_TRUE(ends[7]->push({{number, 0, 0, 0}}, {}) == Push::sent);
        for (int turn = 0; turn < 10; ++turn) first.transport->poll(first.sink, 16);
    }
    ASSERT_TRUE(job.arrived(0, kRanks - 1 + kFrames));
    EXPECT_LE(first.counters.tcp_reads.load() - reads, 3 * kFrames);
    EXPECT_LE(first.counters.tcp_looks.load() - looks, 13 * kFrames);
}

// A stranger that says nothing is closed after a while; one that sends its greeting byte by byte
// too.
TEST(Strangers, have_a_deadline) {
    Job job(1);
    job.params.tcp_greeting_ms = 300;
    tcp::Socket silent = connected(job.ranks[0]->address());
    tcp::Socket slow = connected(job.ranks[0]->address());
    bool slow_closed = false, silent_closed = false;
    EXPECT_TRUE(job.until([&] {
        std::byte one{0x31};  // the first of the magic number's
        if (!slow_closed) slow_closed = slow.write({&one, 1}, {}) < 0 || closed(slow);
        silent_closed = silent_closed || closed(silent);
        usleep(1000);
        return slow_closed && silent_closed;
    }));
    EXPECT_TRUE(slow_closed) << "the slow one";
    EXPECT_TRUE(silent_closed) << "the silent one";
}

// What a rank of the job says first on a connection that it makes: to a listener of this test.
std::vector<std::byte> recorded_greeting(Job& job, size_t rank, int peer) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof own;
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&own), length), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&own), &length), 0);
    fcntl(listener, F_SETFL, O_NONBLOCK);
    job.ranks[rank]->connect(peer, address_at(ntohs(own.sin_port), {"127.0.0.1"}));
    std::byte bytes[4096];
    ssize_t got = 0;
    int accepted = -1;
    job.until([&] {
        if (accepted < 0) accepted = accept(listener, nullptr, nullptr);
        if (accepted >= 0) got = recv(accepted, bytes, sizeof bytes, MSG_DONTWAIT);
        return got > 0;
    });
    EXPECT_GT(got, 0);
    close(accepted);
    close(listener);
    return {bytes, bytes + std::max<ssize_t>(got, 0)};
}

// Ten thousand connections, silent, slow, cut, talking garbage or repeating what a rank of the job
// once said, while two ranks exchange messages and a third one comes in: only so many are open at
// once, the oldest make room, and nobody of the job is disturbed.
TEST(Strangers, ten_thousand_disturb_no_job) {
    constexpr int kStrangers = 10'000;
    constexpr int kOpenMost = 2'000;  // of this test's own ends
    Job job(4);
    job.params.tcp_half_open = 50;
    Random random(20261122);
    const std::vector<std::byte> greeting = recorded_greeting(job, 3, 1);
    Rank& target = *job.ranks[1];
    Endpoint* endpoint = job.ranks[0]->connect(1, target.address());
    ASSERT_TRUE(job.send(endpoint, 0) && job.arrived(1, 1));
    struct Stranger {
        tcp::Socket socket;
        size_t said = 0;  // of the greeting, by one that says it byte by byte
    };
    std::deque<Stranger> strangers;
    auto say_more = [&](Stranger& slow) {
        if (slow.said == 0 || slow.said == greeting.size()) return;
        if (slow.socket.write({&greeting[slow.said], 1}, {}) == 1) ++slow.said;
    };
    uint64_t sent = 1, late = 0;
    for (int i = 0; i < kStrangers; ++i) {
        auto made = tcp::Socket::connect("127.0.0.1", target.address().places[0].port, 0);
        ASSERT_TRUE(made.ok());
        double manner = random.unit();
        if (manner < 0.3) {
            std::byte garbage[300];
            for (std::byte& each : garbage) each = static_cast<std::byte>(random.next());
            made->write({garbage, 1 + random.below(sizeof garbage)}, {});
        } else if (manner < 0.6) {
            made->write(greeting, {});
        }
        if (random.chance(0.1)) made->close();
        strangers.push_back({std::move(*made), 0});
        Stranger& last = strangers.back();
        if (manner > 0.9 && last.socket.open() && last.socket.write({greeting.data(), 1}, {}) == 1)
            last.said = 1;
        for (size_t back = 1; back <= std::min<size_t>(strangers.size(), 20); ++back)
            say_more(strangers[strangers.size() - back]);
        if (strangers.size() > kOpenMost) strangers.pop_front();
        if (endpoint->push({{sent, 0, 0, 0}}, {}) == Push::sent) ++sent;
        job.poll();
        if (i == kStrangers / 2) {
            Endpoint* third = job.ranks[2]->connect(1, target.address());
            ASSERT_TRUE(job.send(third, 0)) << job.ranks[2]->sink.why;
            late = 1;
        }
    }
    EXPECT_TRUE(job.arrived(1, sent + late));
    EXPECT_GE(sent, static_cast<uint64_t>(kStrangers) * 9 / 10);
    EXPECT_EQ(target.sink.told, 0) << target.sink.why;
    EXPECT_GE(target.counters.tcp_strangers.load(), static_cast<uint64_t>(kStrangers) * 9 / 10);
    // The oldest have been closed; no more than the bound are open.
    long open = 0;
    for (Stranger& each : strangers)
        if (each.socket.open() && !closed(each.socket)) ++open;
    EXPECT_LE(open, 60);
}

}  // namespace
}  // namespace pomona
