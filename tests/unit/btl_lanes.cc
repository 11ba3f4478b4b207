// tests/unit/btl_lanes.cc: several TCP connections between two ranks (tcp_streams).
// Goal: each lane keeps the contract by itself, at its own speed; lanes are taken only from who made
// the first connection, once each; they use all addresses; whatever ends one ends the peer once, after
// what had arrived. Method: ranks of a "job" are transports of one process, driven in turn; where
// one must misbehave, the test plays it by bare sockets.
#include "btl/base/log.h"
#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/tcp/socket.h"
#include "btl/tcp/tcp.h"
#include "btl/tcp/wire.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <map>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <thread>

namespace pomona {
namespace {

constexpr const char* kKey = "key of this test";
constexpr long kTurns = 2'000'000;

std::vector<std::byte> payload_of(uint64_t way, uint64_t number, size_t length) {
    Random random(way * 1'000'003 + number * 31 + length);
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

// A frame's header names the way it went and its number there: lanes keep order only by themselves.
FrameHeader header_of(uint64_t way, uint64_t number, size_t length) {
    return {{way, number, length, 0}};
}

struct Receiver final : Sink {
    std::byte* place(int peer, const FrameHeader& header, size_t length) override {
        if (header.word[1] % 2 == 0) return nullptr;
        auto& room = placed[{peer, header.word[0]}];  // several may be under way at once
        room.assign(length, std::byte{0});
        return room.data();
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        auto [way, number] = std::pair{header.word[0], header.word[1]};
        EXPECT_EQ(told, 0) << "a frame after the peer was told gone";
        uint64_t& due = next[{peer, way}];
        EXPECT_EQ(number, due++) << "from " << peer << " by way " << way;
        auto right = payload_of(way, number, header.word[2]);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()))
            << "way " << way << ", frame " << number;
        ++arrived;
    }
    void gone(int, const Error& error) override { ++told, why = error.text(); }
    std::map<std::pair<int, uint64_t>, uint64_t> next;
    std::map<std::pair<int, uint64_t>, std::vector<std::byte>> placed;
    uint64_t arrived = 0;
    int told = 0;
    std::string why;
};

Params params_of(uint64_t streams) {
    Params made;
    made.tcp_streams = streams;
    made.connect_timeout_ms = 20000;
    return made;
}

struct Rank {
    Rank(const Params& params, Counters& counters, int rank, int size)
        : sleeper(std::move(Sleeper::make("").value())) {
        auto made =
            make_tcp_transport(params, counters, {tcp_identity(rank, size), true, sleeper.get()});
        EXPECT_TRUE(made.ok());
        transport = std::move(made.value());
    }
    int poll() { return transport->poll(sink, 16); }
    std::unique_ptr<Sleeper> sleeper;
    std::unique_ptr<Transport> transport;
    Receiver sink;
};

struct Job {
    explicit Job(uint64_t streams, int size = 2) : params(params_of(streams)) {
        for (int rank = 0; rank < size; ++rank)
            ranks.push_back(std::make_unique<Rank>(params, counters, rank, size));
    }
    Endpoint& endpoint(size_t from, size_t to) {
        auto made =
            ranks[from]->transport->connect(static_cast<int>(to), ranks[to]->transport->address());
        EXPECT_TRUE(made.ok());
        return **made;
    }
    void poll() {
        for (auto& rank : ranks) rank->poll();
    }
    template <class Condition> bool until(Condition holds) {
        for (long turn = 0; turn < kTurns; ++turn, poll())
            if (holds()) return true;
        return false;
    }
    // All connections between two ranks are up at both ends.
    bool up(Endpoint& a, Endpoint& b) {
        size_t lanes = params.tcp_streams - 1;
        return until([&] { return !lanes || (a.lane(lanes - 1) && b.lane(lanes - 1)); }) &&
               !a.lane(lanes) && !b.lane(lanes);
    }
    Params params;
    Counters counters;
    std::vector<std::unique_ptr<Rank>> ranks;
};

// A peer's ways: 0 is the first connection.
Endpoint& way_of(Endpoint& endpoint, size_t way) {
    return way == 0 ? endpoint : *endpoint.lane(way - 1);
}

TEST(Lanes, carry_frames_both_ways) {
    Job job(4);
    Endpoint* ends[2] = {&job.endpoint(0, 1), &job.endpoint(1, 0)};
    ASSERT_TRUE(job.up(*ends[0], *ends[1]));
    Random random(11);
    constexpr uint64_t kFrames = 300;  // for each way
    uint64_t sent[2][4] = {};
    auto all_sent = [&] {
        for (auto& side : sent)
            for (uint64_t number : side)
                if (number < kFrames) return false;
        return true;
    };
    for (long turn = 0; !all_sent(); ++turn) {
        ASSERT_LT(turn, kTurns);
        size_t side = random.below(2), way = random.below(4);
        uint64_t& number = sent[side][way];
        if (number == kFrames) continue;
        size_t length = random.chance(0.3) ? random.below(300'000) : random.below(3000);
        auto payload = payload_of(way, number, length);
        Push done = way_of(*ends[side], way).push(header_of(way, number, length), payload);
        ASSERT_NE(done, Push::gone);
        if (done == Push::sent) ++number;
        if (done == Push::busy || random.chance(0.2)) job.poll();
    }
    EXPECT_TRUE(job.until([&] {
        return job.ranks[0]->sink.arrived == 4 * kFrames &&
               job.ranks[1]->sink.arrived == 4 * kFrames;
    }));
    EXPECT_FALSE(job.ranks[0]->transport->pending());
}

// One that is full holds up neither the first connection nor another lane; parts of payloads are
// under way on several at once.
TEST(Lanes, each_has_its_own_speed) {
    Job job(3);
    Endpoint& endpoint = job.endpoint(0, 1);
    ASSERT_TRUE(job.up(endpoint, job.endpoint(1, 0)));
    constexpr size_t kLength = 400'000;
    uint64_t full = 0;
    size_t taken = 0;
    // Nobody reads meanwhile.
    auto push = [&](size_t way, uint64_t number) {
        taken = kLength;
        return way_of(endpoint, way)
            .push_part(header_of(way, number, kLength), payload_of(way, number, kLength), taken);
    };
    do {
        ASSERT_EQ(push(1, full++), Push::sent);
        ASSERT_LT(full, 1000u) << "the kernel takes everything";
    } while (taken == kLength);
    size_t done = taken;
    EXPECT_EQ(endpoint.lane(0)->push({}, {}), Push::busy);
    EXPECT_TRUE(job.ranks[0]->transport->pending());
    auto small = payload_of(2, 0, 100);
    EXPECT_EQ(endpoint.lane(1)->push(header_of(2, 0, 100), small), Push::sent);
    auto first = payload_of(0, 0, 100);
    EXPECT_EQ(endpoint.push(header_of(0, 0, 100), first), Push::sent);
    auto last = payload_of(1, full - 1, kLength);
    EXPECT_TRUE(job.until([&] {
        ConstBytes rest = ConstBytes(last).subspan(done);
        if (!rest.empty() && endpoint.lane(0)->push_rest(rest, taken) == Push::sent) done += taken;
        return done == kLength && job.ranks[1]->sink.arrived == full + 2;
    }));
    EXPECT_FALSE(job.ranks[0]->transport->pending());
}

// What waits in the kernel is known, and how quickly it goes once it goes.
TEST(Lanes, tell_their_pace) {
#if !defined(__linux__) && !defined(__APPLE__)
    GTEST_SKIP() << "this system does not tell";
#endif
    Job job(2);
    Endpoint& endpoint = job.endpoint(0, 1);
    ASSERT_TRUE(job.up(endpoint, job.endpoint(1, 0)));
    Endpoint& lane = *endpoint.lane(0);
    EXPECT_EQ(lane.pace().rate, 0);
    // The last words of the handshake are on their way.
    EXPECT_TRUE(job.until([&] { return lane.pace().queued == 0; }));
    constexpr size_t kLength = 1000;
    uint64_t number = 0;
    auto push = [&] {
        auto payload = payload_of(1, number, kLength);
        return lane.push(header_of(1, number, kLength), payload) == Push::sent;
    };
    // More than once: only what goes in short intervals is counted.
    for (int round = 0; round < 50 && lane.pace().rate == 0; ++round) {
        while (push()) ++number;  // nobody reads until the kernel is full
        EXPECT_GT(lane.pace().queued, 0u);
        EXPECT_TRUE(job.until([&] { return job.ranks[1]->sink.arrived == number; }));
        EXPECT_TRUE(job.until([&] { return lane.pace().queued == 0; }));
    }
    EXPECT_GT(lane.pace().rate, 0);
}

// Both connect at once, in any order of turns: in the end the same connections at both ends.
TEST(Lanes, crossing_connections_leave_one_set) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        Job job(3, 3);
        Endpoint* ends[3][3] = {};
        auto connect = [&](size_t from, size_t to) { ends[from][to] = &job.endpoint(from, to); };
        std::vector<std::pair<size_t, size_t>> order{{0, 1}, {1, 0}, {0, 2},
                                                     {2, 0}, {1, 2}, {2, 1}};
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
        for (auto [from, to] : order) {
            connect(from, to);
            for (uint64_t polls = random.below(6); polls > 0; --polls)
                job.ranks[random.below(3)]->poll();
        }
        for (auto [from, to] : order) ASSERT_TRUE(job.up(*ends[from][to], *ends[to][from]));
        uint64_t expected = 0;
        for (auto [from, to] : order)
            for (size_t way = 0; way < 3; ++way) {
                auto payload = payload_of(way, 0, 50'000);
                ASSERT_TRUE(job.until([&] {
                    return way_of(*ends[from][to], way)
                               .push(header_of(way, 0, payload.size()), payload) == Push::sent;
                }));
                ++expected;
            }
        EXPECT_TRUE(job.until([&] {
            uint64_t arrived = 0;
            for (auto& rank : job.ranks) arrived += rank->sink.arrived;
            return arrived == expected;
        }));
        for (auto& rank : job.ranks) EXPECT_EQ(rank->sink.told, 0) << rank->sink.why;
    }
}

// A rank that sleeps is woken by bytes on a lane, and by room on a lane that was full.
TEST(Lanes, wake_who_sleeps) {
    Job job(2);
    Endpoint& endpoint = job.endpoint(0, 1);
    ASSERT_TRUE(job.up(endpoint, job.endpoint(1, 0)));
    Endpoint& lane = *endpoint.lane(0);
    constexpr uint64_t kFrames = 40;
    constexpr size_t kLength = 500'000;
    std::atomic<bool> over{false};
    auto sleep = [](Rank& rank) {
        if (rank.transport->arm()) rank.sleeper->sleep(20'000'000'000);
        rank.transport->disarm();
    };
    std::thread receiver([&] {
        Rank& self = *job.ranks[1];
        Random random(5);
        while (self.sink.arrived < kFrames) {
            if (random.chance(0.1)) usleep(static_cast<useconds_t>(random.below(3000)));
            if (self.poll() == 0) sleep(self);
        }
        over = true;
    });
    Rank& self = *job.ranks[0];
    for (uint64_t number = 0; number < kFrames;) {
        auto payload = payload_of(1, number, kLength);
        Push done = lane.push(header_of(1, number, kLength), payload);
        ASSERT_NE(done, Push::gone);
        if (done == Push::sent) ++number;
        else if (self.poll() == 0 && self.transport->pending()) sleep(self);
    }
    while (self.transport->pending())
        if (self.poll() == 0 && self.transport->pending()) sleep(self);
    receiver.join();
    EXPECT_TRUE(over);
}

TEST(Lanes, number_has_limits) {
    Counters counters;
    for (uint64_t streams : {9, 1000}) {
        Params params = params_of(streams);
        auto made = make_tcp_transport(params, counters, {tcp_identity(0, 2), true, nullptr});
        ASSERT_FALSE(made.ok()) << streams;
        EXPECT_EQ(made.error().code, Code::invalid_argument);
    }
}

// ---- peers played by the test

// A blocking socket's worth of the wire.
class Bare {
public:
    explicit Bare(tcp::Socket socket) : socket_(std::move(socket)) {}
    static Bare to(const Transport& transport) {
        auto address = tcp::parse_address(transport.address());
        return Bare(
            std::move(tcp::Socket::connect("127.0.0.1", address->places[0].port, 0).value()));
    }
    void write(ConstBytes bytes) {
        while (!bytes.empty()) {
            wait(POLLOUT);
            ssize_t moved = socket_.write(bytes, {});
            ASSERT_GE(moved, 0);
            bytes = bytes.subspan(static_cast<size_t>(moved));
        }
    }
    // Begins a handshake as this rank, by its number of a connection.
    void dial(int from, int to, int number, const char* key = kKey) {
        identity_ = *tcp_identity(from, 8, key);
        handshake_ =
            std::make_unique<link::Handshake>(link::Handshake::dial(identity_, to, number, {}, 0));
        write(handshake_->take_output());
    }
    // Answers one.
    void listen(int rank) {
        identity_ = *tcp_identity(rank, 8);
        handshake_ = std::make_unique<link::Handshake>(link::Handshake::listen(identity_, 0, {}));
    }
    void frame(uint64_t way, uint64_t number, size_t length) {
        tcp::FrameHead head{length, header_of(way, number, length)};
        write({reinterpret_cast<const std::byte*>(&head), sizeof head});
        write(payload_of(way, number, length));
    }
    // Brings the handshake on: 1 the connection is used, -1 it is not (closed, mostly), 0 neither yet.
    int met() {
        using State = link::Handshake::State;
        if (handshake_->state() == State::waiting) {
            std::byte bytes[256];
            ssize_t got = socket_.read({bytes, std::min(sizeof bytes, handshake_->wants())}, {});
            if (got < 0) return -1;
            handshake_->feed({bytes, static_cast<size_t>(got)});
            if (handshake_->state() == State::decide) handshake_->accept(++decisions_);
            write(handshake_->take_output());
        }
        if (handshake_->state() == State::done) return 1;
        return handshake_->state() == State::waiting ? 0 : -1;
    }
    int number() const { return handshake_->peer_path(); }
    bool closed() {
        std::byte bytes[4096];
        return socket_.read(bytes, {}) < 0;
    }
    void close() { socket_.close(); }
    // The own address that the other side connected to.
    std::string address() const {
        sockaddr_in own{};
        socklen_t length = sizeof own;
        getsockname(socket_.descriptor(), reinterpret_cast<sockaddr*>(&own), &length);
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
        return text;
    }

private:
    void wait(short events) {
        pollfd look{socket_.descriptor(), events, 0};
        ::poll(&look, 1, 1000);
    }
    tcp::Socket socket_;
    link::Identity identity_;
    std::unique_ptr<link::Handshake> handshake_;
    static inline uint32_t decisions_ = 0;
};

// Rank 1 of three is a transport; the test is the others.
struct OneRank {
    explicit OneRank(uint64_t streams = 1)
        : params(params_of(streams)), rank(params, counters, 1, 3) {}
    template <class Condition> bool until(Condition holds) {
        for (int turn = 0; turn < 20'000; ++turn) {
            if (holds()) return true;
            rank.poll();
            rank.transport->arm();  // looks at the listener
            rank.transport->disarm();
            usleep(100);
        }
        return false;
    }
    // Does a new connection, which is kept, come to be used? Rank `from` wants it as its connection `number`.
    bool admitted(int from, int to, int number, const char* key = kKey) {
        ways.push_back(std::make_unique<Bare>(Bare::to(*rank.transport)));
        Bare& bare = *ways.back();
        bare.dial(from, to, number, key);
        int answer = 0;
        EXPECT_TRUE(until([&] { return (answer = bare.met()) != 0; }));
        // Who decides by itself (the lower rank) learns of a refusal later.
        int turns = 0;
        EXPECT_TRUE(until([&] { return ++turns > 30; }));
        return answer == 1 && !bare.closed();
    }
    Params params;
    Counters counters;
    Rank rank;
    std::vector<std::unique_ptr<Bare>> ways;
};

TEST(Lanes, are_refused_unless_they_belong) {
    OneRank one;
    EXPECT_FALSE(one.admitted(0, 1, 1)) << "before the first connection";
    EXPECT_TRUE(one.admitted(0, 1, 0));
    Bare& first = *one.ways.back();
    EXPECT_FALSE(one.admitted(2, 1, 1)) << "of a rank without a first connection";
    EXPECT_FALSE(one.admitted(0, 1, 1, "another key"));
    EXPECT_FALSE(one.admitted(0, 2, 1)) << "to another rank";
    EXPECT_FALSE(one.admitted(0, 1, tcp::kLanesMost)) << "out of range";
    EXPECT_TRUE(one.admitted(0, 1, 5));
    Bare& lane = *one.ways.back();
    EXPECT_FALSE(one.admitted(0, 1, 5)) << "twice the same";
    EXPECT_TRUE(one.admitted(0, 1, tcp::kLanesMost - 1));
    // What was there before works on.
    first.frame(0, 0, 1000);
    lane.frame(1, 0, 100'000);
    EXPECT_TRUE(one.until([&] { return one.rank.sink.arrived == 2; }));
    EXPECT_EQ(one.rank.sink.told, 0) << one.rank.sink.why;
    // A second first connection, which the lower rank has decided for: it has left the one before.
    EXPECT_FALSE(one.admitted(0, 1, 0));
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
}

// Who did not make the first connection makes no lanes either.
TEST(Lanes, are_made_by_one_side_only) {
    OneRank one(2);
    auto listener = std::move(tcp::Socket::listen("127.0.0.1", 0).value());
    auto endpoint = one.rank.transport->connect(
        2, tcp::write_address(address_at(listener.port(), {"127.0.0.1"})));
    ASSERT_TRUE(endpoint.ok());
    auto next = [&] {
        tcp::Socket made;
        EXPECT_TRUE(one.until([&] { return (made = listener.accept()).open(); }));
        auto bare = std::make_unique<Bare>(std::move(made));
        bare->listen(2);
        EXPECT_TRUE(one.until([&] { return bare->met() == 1; }));
        int number = bare->number();
        return std::pair{std::move(bare), number};
    };
    auto [first, number] = next();
    EXPECT_EQ(number, 0);
    auto [lane, further] = next();
    EXPECT_EQ(further, 1);
    EXPECT_TRUE(one.until([&] { return (*endpoint)->lane(0) != nullptr; }));
    EXPECT_FALSE(one.admitted(2, 1, 2));
}

// Bytes of the other connections that have arrived are handed on, then the peer is told once, though the
// first connection stays open; and which one broke.
TEST(Lanes, a_broken_lane_ends_the_peer) {
    OneRank one;
    ASSERT_TRUE(one.admitted(0, 1, 0));
    ASSERT_TRUE(one.admitted(0, 1, 2));
    ASSERT_TRUE(one.admitted(0, 1, 1));
    for (uint64_t number = 0; number < 60; ++number) one.ways[0]->frame(0, number, 3000);
    one.ways[1]->frame(2, 0, 50'000);
    one.ways[1]->close();
    one.ways[2]->frame(1, 0, 10);
    auto endpoint =
        one.rank.transport->connect(0, tcp::write_address(address_at(1, {"127.0.0.1"})));
    ASSERT_TRUE(endpoint.ok());
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
    EXPECT_EQ(one.rank.sink.arrived, 62u);
    EXPECT_NE(one.rank.sink.why.find("3rd TCP stream"), std::string::npos) << one.rank.sink.why;
    EXPECT_EQ((*endpoint)->push({}, {}), Push::gone);
    EXPECT_EQ((*endpoint)->lane(0)->push({}, {}), Push::busy) << "told by the first one alone";
    EXPECT_FALSE(one.rank.transport->pending());
    // The others are closed, and nothing is told again.
    EXPECT_TRUE(one.until([&] { return one.ways[0]->closed() && one.ways[2]->closed(); }));
    EXPECT_EQ(one.rank.sink.told, 1);
}

// The other way round: the first connection ends while lanes hold frames.
TEST(Lanes, are_read_to_their_end) {
    OneRank one;
    ASSERT_TRUE(one.admitted(0, 1, 0));
    ASSERT_TRUE(one.admitted(0, 1, 1));
    for (uint64_t number = 0; number < 60; ++number) one.ways[1]->frame(1, number, 3000);
    one.ways[0]->frame(0, 0, 10);
    one.ways[0]->close();
    one.ways[1]->close();
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
    EXPECT_EQ(one.rank.sink.arrived, 61u);
    EXPECT_NE(one.rank.sink.why.find("The TCP connection is closed"), std::string::npos);
}

// A peer that was given up: not even the rest of a payload that has its place is read.
TEST(Lanes, an_abandoned_peer_is_not_read) {
    OneRank one;
    ASSERT_TRUE(one.admitted(0, 1, 0));
    ASSERT_TRUE(one.admitted(0, 1, 1));
    constexpr size_t kLength = 100'000;
    auto payload = payload_of(1, 1, kLength);
    one.rank.sink.next[{0, 1}] = 1;  // odd ones are given a place
    tcp::FrameHead head{kLength, header_of(1, 1, kLength)};
    one.ways[1]->write({reinterpret_cast<const std::byte*>(&head), sizeof head});
    one.ways[1]->write(ConstBytes(payload).first(kLength / 2));
    auto& room = one.rank.sink.placed[{0, 1}];
    EXPECT_TRUE(one.until([&] {
        return !room.empty() &&
               std::equal(room.begin(), room.begin() + kLength / 2, payload.begin());
    }));
    one.ways[1]->write(ConstBytes(payload).subspan(kLength / 2));
    auto endpoint =
        one.rank.transport->connect(0, tcp::write_address(address_at(1, {"127.0.0.1"})));
    ASSERT_TRUE(endpoint.ok());
    auto before = room;
    (*endpoint)->abandon(Error{Code::malformed, "of this test", 0});
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
    EXPECT_EQ(room, before);
    EXPECT_EQ(one.rank.sink.arrived, 0u);
    EXPECT_EQ((*endpoint)->push({}, {}), Push::gone);
}

// A lane that nobody answers is done without, and said once.
TEST(Lanes, that_cannot_be_made_are_done_without) {
    OneRank one(2);
    one.params.connect_timeout_ms = 200;
    auto listener = std::move(tcp::Socket::listen("127.0.0.1", 0).value());
    auto endpoint = one.rank.transport->connect(
        2, tcp::write_address(address_at(listener.port(), {"127.0.0.1"})));
    ASSERT_TRUE(endpoint.ok());
    tcp::Socket made;
    ASSERT_TRUE(one.until([&] { return (made = listener.accept()).open(); }));
    Bare first(std::move(made));
    listener.close();
    long warnings = log_warning_count();
    first.listen(2);
    ASSERT_TRUE(one.until([&] { return first.met() == 1; }));
    EXPECT_TRUE(one.until([&] { return log_warning_count() > warnings; }));
    uint64_t arrived = one.rank.sink.arrived;
    first.frame(0, 0, 100);
    EXPECT_TRUE(one.until([&] { return one.rank.sink.arrived == arrived + 1; }));
    EXPECT_EQ((*endpoint)->push(header_of(0, 0, 0), {}), Push::sent);
    EXPECT_EQ((*endpoint)->lane(0), nullptr);
    EXPECT_EQ(log_warning_count(), warnings + 1);
    EXPECT_EQ(one.rank.sink.told, 0) << one.rank.sink.why;
}

#if defined(__linux__)  // which has all of 127.0.0.0/8

// The addresses at which the connections of a peer with these hosts arrive, by their numbers.
std::vector<std::string> arrive_at(const std::vector<std::string>& hosts, const char* listen_at,
                                   uint64_t streams) {
    OneRank one(streams);
    auto listener = std::move(tcp::Socket::listen(listen_at, 0).value());
    EXPECT_TRUE(
        one.rank.transport->connect(2, tcp::write_address(address_at(listener.port(), hosts)))
            .ok());
    std::vector<std::unique_ptr<Bare>> ways;
    std::vector<std::string> found(streams);
    size_t greeted = 0;
    EXPECT_TRUE(one.until([&] {
        tcp::Socket made = listener.accept();
        if (made.open()) {
            ways.push_back(std::make_unique<Bare>(std::move(made)));
            ways.back()->listen(2);
        }
        for (auto& way : ways) {
            if (!way || way->met() != 1) continue;
            found.at(static_cast<size_t>(way->number())) = way->address();
            ++greeted;
            one.ways.push_back(std::move(way));  // stays open
        }
        return greeted == streams;
    }));
    return found;
}

TEST(Lanes, use_all_addresses) {
    std::vector<std::string> hosts{"127.0.0.1", "127.0.0.2", "127.0.0.3"};
    EXPECT_EQ(arrive_at(hosts, "0.0.0.0", 5),
              (std::vector<std::string>{"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1",
                                        "127.0.0.2"}));
}

TEST(Lanes, pass_over_addresses_that_refuse) {
    std::vector<std::string> only{"127.0.0.2", "127.0.0.2", "127.0.0.2"};
    EXPECT_EQ(arrive_at({"127.0.0.1", "127.0.0.2"}, "127.0.0.2", 3), only);
    EXPECT_EQ(arrive_at({"127.0.0.2", "127.0.0.1"}, "127.0.0.2", 3), only);
}

#endif

}  // namespace
}  // namespace pomona
