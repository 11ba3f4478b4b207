// tests/unit/tcp_paths.cc: TCP as a path of links (btl/transport.h, rules 8 to 11).
// Goal: a path comes up, is lost and comes up again, each told once and in this order, whoever
// dials; an attempt that fails is told; a peer's newer connection takes the place of one that still
// seems up.
// Method: two transports of one process, driven in turn; paths are ended by abandon().
#include "btl/base/sleeper.h"
#include "btl/link/paths.h"
#include "btl/tcp/socket.h"
#include "btl/tcp/tcp.h"
#include "btl/tcp/wire.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {
namespace {

struct Teller final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int, const FrameHeader& header, ConstBytes) override {
        EXPECT_TRUE(is_up);
        last = header.word[0];
    }
    void up(int) override {
        EXPECT_FALSE(is_up);
        is_up = true;
        ++ups;
    }
    void gone(int, const Error& error) override {
        is_up = false;
        ++gones;
        why = error.text();
    }
    bool is_up = false;
    int ups = 0, gones = 0;
    uint64_t last = 0;
    std::string why;
};

struct Pair {
    explicit Pair(bool loopback_only = true) {
        params.connect_timeout_ms = 3000;
        for (int rank = 0; rank < 2; ++rank) {
            TcpOptions options{tcp_identity(rank, 2), loopback_only, nullptr};
            options.makes_paths = true;
            options.silence = 10'000'000'000;
            auto made = make_tcp_transport(params, counters, std::move(options));
            EXPECT_TRUE(made.ok());
            transports.push_back(std::move(*made));
        }
    }
    void connect(size_t from) {
        EXPECT_TRUE(transports[from]
                        ->connect(static_cast<int>(1 - from), transports[1 - from]->address())
                        .ok());
    }
    Endpoint& path(size_t from) { return *transports[from]->path(static_cast<int>(1 - from)); }
    template <class Condition> bool until(Condition holds) {
        for (long turn = 0; turn < 2'000'000; ++turn) {
            if (holds()) return true;
            for (size_t rank = 0; rank < 2; ++rank) {
                transports[rank]->poll(sinks[rank], 16);
                transports[rank]->arm();
                transports[rank]->disarm();
            }
        }
        return false;
    }
    bool both_up() {
        return until([&] { return sinks[0].is_up && sinks[1].is_up; });
    }
    // A frame arrives each way.
    void exchange(uint64_t number) {
        for (size_t from = 0; from < 2; ++from) {
            ASSERT_TRUE(until([&] {
                return path(from).push({{number, 0, 0, 0}}, {}) == Push::sent;
            }));
            ASSERT_TRUE(until([&] { return sinks[1 - from].last == number; }));
        }
    }
    Params params;
    Counters counters;
    std::vector<std::unique_ptr<Transport>> transports;
    Teller sinks[2];
};

TEST(TcpPaths, come_again) {
    for (int dialers : {1, 2, 3}) {
        SCOPED_TRACE(dialers);
        Pair pair;
        for (int round = 1; round <= 10; ++round) {
            for (size_t rank = 0; rank < 2; ++rank)
                if (dialers & (1 << rank)) pair.connect(rank);
            ASSERT_TRUE(pair.both_up());
            pair.exchange(static_cast<uint64_t>(round));
            for (Teller& each : pair.sinks) EXPECT_EQ(each.ups, round);
            pair.path(static_cast<size_t>(round) % 2).abandon(Error{Code::malformed, "test"});
            ASSERT_TRUE(pair.until([&] { return !pair.sinks[0].is_up && !pair.sinks[1].is_up; }));
            for (size_t rank = 0; rank < 2; ++rank)
                EXPECT_EQ(pair.path(rank).push({}, {}), Push::gone);
        }
    }
}

TEST(TcpPaths, tell_of_attempts_that_fail) {
    Pair pair;
    tcp::Address nobody = address_at(1, {"127.0.0.1"});
    ASSERT_TRUE(pair.transports[0]->connect(1, tcp::write_address(nobody)).ok());
    EXPECT_EQ(pair.path(0).push({}, {}), Push::busy);
    ASSERT_TRUE(pair.until([&] { return pair.sinks[0].gones == 1; }));
    EXPECT_EQ(pair.sinks[0].ups, 0);
    // People learn what was tried.
    EXPECT_EQ(pair.transports[0]->describe(1).text,
              "tcp 1, tried to 127.0.0.1 (lo): Connection refused");
    EXPECT_TRUE(pair.transports[0]->describe(1).here);
    pair.connect(0);
    ASSERT_TRUE(pair.both_up());
    pair.exchange(1);
    EXPECT_EQ(pair.transports[0]->describe(1).kind, "loopback");
    EXPECT_EQ(pair.transports[1]->describe(0).text.find("tcp 1 lo 127.0.0.1 to 127.0.0.1"), 0u);
}

// The socket of this process whose own port is this one.
int socket_of_port(uint16_t port) {
    for (int file = 3; file < 1000; ++file) {
        sockaddr_in own{};
        socklen_t length = sizeof own;
        if (getsockname(file, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
            own.sin_family == AF_INET && ntohs(own.sin_port) == port)
            return file;
    }
    return -1;
}

// A process that is busy outside MPI answers late, which is waited for. Its machine may vanish
// meanwhile, which the system alone finds out.
TEST(TcpPaths, are_watched_before_the_peer_has_answered) {
    Pair pair;
    auto listener = tcp::Socket::listen("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    tcp::Address silent = address_at(listener->port(), {"127.0.0.1"});
    ASSERT_TRUE(pair.transports[0]->connect(1, tcp::write_address(silent)).ok());
    tcp::Socket taken;
    ASSERT_TRUE(pair.until([&] { return (taken = listener->accept()).open(); }));
    std::byte greeting[64];
    ASSERT_TRUE(pair.until([&] { return taken.read(greeting, {}) > 0; }));
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    ASSERT_EQ(getpeername(taken.descriptor(), reinterpret_cast<sockaddr*>(&peer), &length), 0);
    int dialled = socket_of_port(ntohs(peer.sin_port));
    ASSERT_GE(dialled, 0);
    int watched = 0;
    length = sizeof watched;
    ASSERT_EQ(getsockopt(dialled, SOL_SOCKET, SO_KEEPALIVE, &watched, &length), 0);
    EXPECT_NE(watched, 0);
}

// Two processes of one machine reach each other by its link-local address of IPv6 alone, which
// means nothing without its interface.
TEST(TcpPaths, go_by_an_own_link_local_address) {
    Pair pair(false);
    auto places = tcp::parse_address(pair.transports[1]->address()).value().places;
    std::erase_if(places,
                  [](const tcp::Place& each) { return !each.ip.six || !each.ip.link_local(); });
    if (places.empty()) GTEST_SKIP() << "no interface has a link-local address of IPv6";
    ASSERT_TRUE(pair.transports[0]->connect(1, tcp::write_address({places})).ok());
    pair.until([&] { return pair.sinks[0].is_up || pair.sinks[0].gones > 0; });
    ASSERT_TRUE(pair.sinks[0].is_up) << pair.sinks[0].why;
    EXPECT_TRUE(pair.transports[0]->describe(1).here);
    ASSERT_TRUE(pair.both_up());
    pair.exchange(1);
}

// Second names of all open files: who closes one of these ends no connection.
struct AllOpen {
    AllOpen() {
        for (int file = 3; file < 200; ++file)
            if (int other = fcntl(file, F_DUPFD_CLOEXEC, 200); other >= 0) others.push_back(other);
    }
    ~AllOpen() {
        for (int each : others) close(each);
    }
    std::vector<int> others;
};

// One end has lost the path and dials again before the other has noticed, or can notice: there the
// old one is told gone, then the new one up.
TEST(TcpPaths, newer_ones_take_the_place) {
    for (size_t test = 0; test < 4; ++test) {
        size_t lost = test % 2;
        Pair pair;
        pair.connect(lost);
        ASSERT_TRUE(pair.both_up());
        std::optional<AllOpen> seems_up;
        if (test >= 2) seems_up.emplace();
        size_t other = 1 - lost;
        pair.path(lost).abandon(Error{Code::malformed, "test"});
        // The other end is not polled meanwhile.
        for (int turn = 0; turn < 1000 && pair.sinks[lost].is_up; ++turn)
            pair.transports[lost]->poll(pair.sinks[lost], 16);
        ASSERT_FALSE(pair.sinks[lost].is_up);
        pair.connect(lost);
        ASSERT_TRUE(pair.until([&] { return pair.sinks[other].ups == 2; }));
        EXPECT_EQ(pair.sinks[other].gones, 1);
        ASSERT_TRUE(pair.both_up());
        pair.exchange(2);
    }
}

}  // namespace
}  // namespace pomona
