// tests/unit/btl_connections.cc: the TCP connection between two ranks, and who gets it.
// Goal: ranks that connect to each other at once end up with one connection; one is taken only from
// who belongs to the job, for whom it is; what it carries and how fast is known; one that was given
// up is not read. Method: ranks of a "job" are transports of one process, driven in turn; where one
// must misbehave, the test plays it by bare sockets.
#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/tcp/socket.h"
#include "btl/tcp/tcp.h"
#include "btl/tcp/wire.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <poll.h>
#include <unistd.h>

namespace pomona {
namespace {

constexpr const char* kKey = "key of this test";
constexpr long kTurns = 2'000'000;

std::vector<std::byte> payload_of(uint64_t number, size_t length) {
    Random random(number * 31 + length);
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

FrameHeader header_of(uint64_t number, size_t length) { return {{number, length, 0, 0}}; }

struct Receiver final : Sink {
    std::byte* place(int, const FrameHeader&, size_t length) override {
        placed.assign(length, std::byte{0});
        return placed.data();
    }
    void arrive(int peer, const FrameHeader& header, ConstBytes payload) override {
        EXPECT_EQ(told, 0) << "a frame after the peer was told gone";
        EXPECT_EQ(header.word[0], next[peer]++) << "from " << peer;
        auto right = payload_of(header.word[0], header.word[1]);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), right.begin(), right.end()))
            << "frame " << header.word[0];
        ++arrived;
    }
    void gone(int, const Error& error) override { ++told, why = error.text(); }
    std::map<int, uint64_t> next;
    std::vector<std::byte> placed;
    uint64_t arrived = 0;
    int told = 0;
    std::string why;
};

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
    explicit Job(int size) {
        params.connect_timeout_ms = 20000;
        params.tcp_socket_buffer = 64 << 10;
        for (int rank = 0; rank < size; ++rank)
            ranks.push_back(std::make_unique<Rank>(params, counters, rank, size));
    }
    Endpoint& endpoint(size_t from, size_t to) {
        auto made =
            ranks[from]->transport->connect(static_cast<int>(to), ranks[to]->transport->address());
        EXPECT_TRUE(made.ok());
        return **made;
    }
    template <class Condition> bool until(Condition holds) {
        for (long turn = 0; turn < kTurns; ++turn) {
            if (holds()) return true;
            for (auto& rank : ranks) rank->poll();
        }
        return false;
    }
    Params params;
    Counters counters;
    std::vector<std::unique_ptr<Rank>> ranks;
};

// What waits in the kernel is known, and how quickly it goes once it goes.
TEST(Connections, tell_their_pace) {
#if !defined(__linux__) && !defined(__APPLE__)
    GTEST_SKIP() << "this system does not tell";
#endif
    Job job(2);
    Endpoint& endpoint = job.endpoint(0, 1);
    constexpr size_t kLength = 1000;
    uint64_t number = 0;
    auto push = [&] {
        auto payload = payload_of(number, kLength);
        return endpoint.push(header_of(number, kLength), payload) == Push::sent;
    };
    ASSERT_TRUE(job.until(push));
    ++number;
    EXPECT_EQ(endpoint.pace().rate, 0);
    EXPECT_TRUE(job.until([&] { return endpoint.pace().queued == 0; }));
    // More than once: only what goes in short intervals is counted.
    for (int round = 0; round < 50 && endpoint.pace().rate == 0; ++round) {
        while (push()) ++number;  // nobody reads until the kernel is full
        EXPECT_GT(endpoint.pace().queued, 0u);
        EXPECT_TRUE(job.until([&] { return job.ranks[1]->sink.arrived == number; }));
        EXPECT_TRUE(job.until([&] { return endpoint.pace().queued == 0; }));
    }
    EXPECT_GT(endpoint.pace().rate, 0);
}

// All connect at once, in any order of turns: in the end each pair has one connection, used both
// ways.
TEST(Connections, that_cross_leave_one) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        Job job(3);
        Endpoint* ends[3][3] = {};
        std::vector<std::pair<size_t, size_t>> order{{0, 1}, {1, 0}, {0, 2},
                                                     {2, 0}, {1, 2}, {2, 1}};
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
        for (auto [from, to] : order) {
            ends[from][to] = &job.endpoint(from, to);
            for (uint64_t polls = random.below(6); polls > 0; --polls)
                job.ranks[random.below(3)]->poll();
        }
        auto payload = payload_of(0, 50'000);
        for (const auto& pair : order) {
            size_t from = pair.first, to = pair.second;
            ASSERT_TRUE(job.until([&] {
                return ends[from][to]->push(header_of(0, payload.size()), payload) == Push::sent;
            }));
        }
        EXPECT_TRUE(job.until([&] {
            return std::all_of(job.ranks.begin(), job.ranks.end(),
                               [](auto& rank) { return rank->sink.arrived == 2; });
        }));
        for (auto& rank : job.ranks) EXPECT_EQ(rank->sink.told, 0) << rank->sink.why;
    }
}

TEST(Connections, number_has_limits) {
    Counters counters;
    for (uint64_t streams : {9, 1000}) {
        Params params;
        params.tcp_streams = streams;
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
            pollfd look{socket_.descriptor(), POLLOUT, 0};
            ::poll(&look, 1, 1000);
            ssize_t moved = socket_.write(bytes, {});
            ASSERT_GE(moved, 0);
            bytes = bytes.subspan(static_cast<size_t>(moved));
        }
    }
    // Begins a handshake as this rank, for a path of this number.
    void dial(int from, int to, int path, const char* key) {
        identity_ = *tcp_identity(from, 8, key);
        handshake_ =
            std::make_unique<link::Handshake>(link::Handshake::dial(identity_, to, path, {}, 0));
        write(handshake_->take_output());
    }
    void frame(uint64_t number, size_t length) {
        head(number, length);
        write(payload_of(number, length));
    }
    void head(uint64_t number, size_t length) {
        tcp::FrameHead head{length, header_of(number, length)};
        write({reinterpret_cast<const std::byte*>(&head), sizeof head});
    }
    // Brings the handshake on: 1 the connection is used, -1 it is not (closed, mostly), 0 neither
    // yet.
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
    bool closed() {
        std::byte bytes[4096];
        return socket_.read(bytes, {}) < 0;
    }

private:
    tcp::Socket socket_;
    link::Identity identity_;
    std::unique_ptr<link::Handshake> handshake_;
    static inline uint32_t decisions_ = 0;
};

// Rank 1 of three is a transport; the test is the others.
struct OneRank {
    OneRank() : rank(params, counters, 1, 3) {}
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
    // Does a new connection, which is kept, come to be used? Rank `from` wants it as this path.
    bool admitted(int from, int to, int path, const char* key = kKey) {
        ways.push_back(std::make_unique<Bare>(Bare::to(*rank.transport)));
        Bare& bare = *ways.back();
        bare.dial(from, to, path, key);
        int answer = 0;
        EXPECT_TRUE(until([&] { return (answer = bare.met()) != 0; }));
        // Who decides by itself (the lower rank) learns of a refusal later.
        int turns = 0;
        EXPECT_TRUE(until([&] { return ++turns > 30; }));
        return answer == 1 && !bare.closed();
    }
    Endpoint& endpoint() {
        auto made = rank.transport->connect(0, tcp::write_address(address_at(1, {"127.0.0.1"})));
        EXPECT_TRUE(made.ok());
        return **made;
    }
    Params params;
    Counters counters;
    Rank rank;
    std::vector<std::unique_ptr<Bare>> ways;
};

TEST(Connections, are_refused_unless_they_belong) {
    OneRank one;
    EXPECT_FALSE(one.admitted(0, 1, 0, "another key"));
    EXPECT_FALSE(one.admitted(0, 2, 0)) << "to another rank";
    EXPECT_FALSE(one.admitted(0, 1, 1)) << "a path that there is not";
    EXPECT_FALSE(one.admitted(0, 1, 255)) << "out of range";
    ASSERT_TRUE(one.admitted(0, 1, 0));
    one.ways.back()->frame(0, 1000);
    EXPECT_TRUE(one.until([&] { return one.rank.sink.arrived == 1; }));
    EXPECT_EQ(one.rank.sink.told, 0) << one.rank.sink.why;
    // A second one, which the lower rank has decided for: it has left the one before.
    EXPECT_FALSE(one.admitted(0, 1, 0));
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
}

// A peer that was given up: not even the rest of a payload that has its place is read.
TEST(Connections, that_were_abandoned_are_not_read) {
    OneRank one;
    ASSERT_TRUE(one.admitted(0, 1, 0));
    Bare& way = *one.ways.back();
    constexpr size_t kLength = 100'000;
    auto payload = payload_of(0, kLength);
    way.head(0, kLength);
    way.write(ConstBytes(payload).first(kLength / 2));
    auto& room = one.rank.sink.placed;
    EXPECT_TRUE(one.until([&] {
        return !room.empty() &&
               std::equal(room.begin(), room.begin() + kLength / 2, payload.begin());
    }));
    way.write(ConstBytes(payload).subspan(kLength / 2));
    auto before = room;
    one.endpoint().abandon(Error{Code::malformed, "of this test", 0});
    EXPECT_TRUE(one.until([&] { return one.rank.sink.told == 1; }));
    EXPECT_EQ(room, before);
    EXPECT_EQ(one.rank.sink.arrived, 0u);
    EXPECT_EQ(one.endpoint().push({}, {}), Push::gone);
}

// Who leaves says so last, and does not wait for what others still send. That must not take the
// last words with it: not when its system resets the connection, nor when writing fails here first.
TEST(Connections, end_after_what_was_sent) {
    for (bool writes_first : {false, true}) {
        SCOPED_TRACE(writes_first ? "writing fails first" : "reading");
        Job job(2);
        constexpr size_t kLength = 1000;
        auto push = [&](Endpoint& endpoint, uint64_t number) {
            auto payload = payload_of(number, kLength);
            return endpoint.push(header_of(number, kLength), payload);
        };
        Endpoint& leaver = job.endpoint(0, 1);
        uint64_t sent = 0, last = 0;
        ASSERT_TRUE(job.until([&] { return push(leaver, last) == Push::sent; }));
        ++last;
        ASSERT_TRUE(job.until([&] { return job.ranks[1]->sink.arrived == last; }));
        Endpoint* stayer = job.ranks[1]->transport->path(0);
        ASSERT_NE(stayer, nullptr);
        while (sent < 100 && push(*stayer, sent) == Push::sent)
            ++sent;  // rank 0 reads none of them
        ASSERT_EQ(push(leaver, last++), Push::sent);
        job.ranks[0].reset();
        Rank& rest = *job.ranks[1];
        for (int round = 0; writes_first && round < 5; ++round) {
            usleep(2000);
            push(*stayer, sent++);
        }
        for (long turn = 0; turn < kTurns && rest.sink.told == 0; ++turn) {
            rest.poll();
            push(*stayer, sent++);
        }
        EXPECT_EQ(rest.sink.told, 1);
        EXPECT_EQ(rest.sink.arrived, last);
    }
}

// ---- sleep

// A rank whose connection is full, and one that reads when it is told to.
struct Full {
    Full() : job(2), endpoint(job.endpoint(0, 1)) {
        EXPECT_TRUE(job.until([&] { return push(8) == Push::sent; }));
        EXPECT_TRUE(job.until([&] { return reader().sink.arrived == sent; }));
    }
    Rank& writer() { return *job.ranks[0]; }
    Rank& reader() { return *job.ranks[1]; }
    Push push(size_t length) {
        auto payload = payload_of(sent, length);
        Push done = endpoint.push(header_of(sent, length), payload);
        sent += done == Push::sent;
        return done;
    }
    void fill(size_t length) {
        while (push(length) == Push::sent) {}
    }
    bool may_sleep() {
        bool armed = false;
        for (int turn = 0; turn < 100 && !armed; ++turn) {
            writer().poll();
            armed = writer().transport->arm();
            writer().transport->disarm();
        }
        return armed;
    }
    Job job;
    Endpoint& endpoint;
    uint64_t sent = 0;
};

// While one thread sleeps another one finds that all has left: nobody wants to know of room then,
// which there always is.
TEST(Connections, that_have_room_let_their_rank_sleep) {
    Full full;
    full.fill(100'000);
    ASSERT_TRUE(full.writer().transport->pending());
    ASSERT_TRUE(full.writer().transport->arm());
    ASSERT_TRUE(full.job.until([&] { return full.reader().sink.arrived == full.sent; }));
    full.writer().transport->disarm();
    EXPECT_TRUE(full.may_sleep());
}

// The system may be full between two frames: who was refused wants to know of room as well. The
// length of the first frame decides where in a frame it is full.
TEST(Connections, tell_of_room_between_frames) {
    Full full;
    Transport& transport = *full.writer().transport;
    auto all_have_come = [&] { return full.reader().sink.arrived == full.sent; };
    bool between = false;
    for (size_t length = 100'000; length < 100'200 && !between; ++length) {
        ASSERT_EQ(full.push(length), Push::sent);
        full.fill(0);
        between = !transport.pending();
        if (!between) { ASSERT_TRUE(full.job.until(all_have_come)); }
    }
    if (!between) GTEST_SKIP() << "the kernel is full at another place each time";
    ASSERT_TRUE(transport.arm());
    for (long turn = 0; turn < kTurns && !all_have_come(); ++turn) full.reader().poll();
    EXPECT_TRUE(full.writer().sleeper->sleep(2'000'000'000));
    transport.disarm();
    ASSERT_EQ(full.push(8), Push::sent);
    ASSERT_TRUE(full.job.until(all_have_come));
    EXPECT_TRUE(full.may_sleep());
}

}  // namespace
}  // namespace pomona
