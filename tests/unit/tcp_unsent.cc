// tests/unit/tcp_unsent.cc: what a connection's system keeps unsent (UnsentBound), and that it is
// told so.
// Goal: little until the line's rate is known, since it may be slow; then what leaves in half a
// millisecond, whatever pauses the sender makes; within a machine as much as serves a stream.
// Method: a line that takes bytes at a known rate; and connections of this machine, whose sockets
// are asked.
#include "btl/tcp/unsent.h"

#include "btl/base/sleeper.h"
#include "btl/tcp/tcp.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {
namespace {

using tcp::UnsentBound;
constexpr double kMegabit = 125e-6;  // bytes a nanosecond

// A payload that the line takes in parts as its buffer has room; then nothing for `pause`.
void send(UnsentBound& bound, double megabits, size_t bytes, Nanoseconds& now, Nanoseconds pause) {
    size_t left = bytes;
    for (size_t part = 32 << 10; left != 0; part = 8 << 10) {  // the buffer is empty at first
        size_t taken = std::min(left, part);
        left -= taken;
        bound.took(taken, left != 0, now);
        now += static_cast<Nanoseconds>(8192 / (megabits * kMegabit));
    }
    now += pause;
}

TEST(TcpUnsent, little_until_the_rate_is_known) {
    UnsentBound bound(true);
    EXPECT_EQ(bound.most(), size_t{16} << 10);
    Nanoseconds now = 1;
    // What is taken at once says nothing.
    bound.took(20 << 10, false, now);
    EXPECT_EQ(bound.most(), size_t{16} << 10);
}

TEST(TcpUnsent, what_leaves_in_half_a_millisecond) {
    for (auto [megabits, most] : {std::pair{100.0, size_t{16} << 10},
                                  {1000.0, size_t{32} << 10},
                                  {10000.0, size_t{128} << 10}}) {
        UnsentBound bound(true);
        Nanoseconds now = 1;
        send(bound, megabits, 1 << 20, now, 0);
        EXPECT_EQ(bound.most(), most) << megabits;
    }
}

TEST(TcpUnsent, pauses_do_not_count) {
    UnsentBound bound(true);
    Nanoseconds now = 1;
    for (int number = 0; number < 20; ++number) send(bound, 10000, 256 << 10, now, 100'000'000);
    EXPECT_EQ(bound.most(), UnsentBound::kMost);
}

TEST(TcpUnsent, a_line_that_has_become_slow_is_seen) {
    UnsentBound bound(true);
    Nanoseconds now = 1;
    send(bound, 10000, 1 << 20, now, 1'000'000);
    send(bound, 100, 1 << 20, now, 0);
    EXPECT_EQ(bound.most(), UnsentBound::kLeast);
}

// A payload of a sender that comes back so late each time. What the line could have carried besides
// meanwhile is returned.
size_t send_late(UnsentBound& bound, double megabits, size_t bytes, Nanoseconds& now,
                 Nanoseconds away) {
    size_t kept = 0, missed = 0;
    for (size_t left = bytes; left != 0;) {
        size_t taken = std::min(left, bound.most() - std::min(bound.most(), kept));
        left -= taken;
        kept += taken;
        bound.took(taken, left != 0, now);
        auto carried = static_cast<size_t>(static_cast<double>(away) * megabits * kMegabit);
        if (left != 0 && carried > kept) missed += carried - kept;
        kept -= std::min(kept, carried);
        now += away;
    }
    return missed;
}

// Goal: the line of a sender that comes milliseconds late does not stand still; when it comes in
// time again, little waits before an answer. Method: away for 5 ms each time, then for 50 us.
TEST(TcpUnsent, who_comes_late_has_more_kept) {
    UnsentBound bound(true);
    Nanoseconds now = 1;
    send(bound, 1000, 1 << 20, now, 0);
    size_t usual = bound.most();
    EXPECT_GT(send_late(bound, 1000, 8 << 20, now, 5'000'000), size_t{1} << 20);
    EXPECT_GE(bound.most(), size_t{625} << 10);
    EXPECT_LE(bound.most(), UnsentBound::kMostLate);
    EXPECT_EQ(send_late(bound, 1000, 8 << 20, now, 5'000'000), size_t{0});
    for (int second = 0; second < 6; ++second) send_late(bound, 1000, 125 << 20, now, 50'000);
    EXPECT_EQ(bound.most(), usual);
}

TEST(TcpUnsent, within_a_machine_nothing_is_slow) {
    UnsentBound bound(false);
    Nanoseconds now = 1;
    send(bound, 100, 1 << 20, now, 0);
    EXPECT_EQ(bound.most(), UnsentBound::kMost);
}

#if defined(TCP_NOTSENT_LOWAT)
struct Nobody final : Sink {
    std::byte* place(int, const FrameHeader&, size_t) override { return nullptr; }
    void arrive(int, const FrameHeader&, ConstBytes) override {}
    void up(int) override { ++ups; }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    int ups = 0;
};

// What the connected sockets of this process are told to keep unsent.
std::multiset<int> told() {
    std::multiset<int> out;
    for (int descriptor = 0; descriptor < 256; ++descriptor) {
        sockaddr_storage peer;
        socklen_t length = sizeof peer;
        if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
        int most = 0;
        length = sizeof most;
        if (getsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, &length) == 0)
            out.insert(most);
    }
    return out;
}

TEST(TcpUnsent, the_system_is_told) {
    for (bool loopback : {true, false}) {
        Params params;
        Counters counters;
        std::vector<std::unique_ptr<Transport>> transports;
        for (int rank = 0; rank < 2; ++rank) {
            TcpOptions options{tcp_identity(rank, 2), loopback, nullptr};
            options.makes_paths = true;
            auto made = make_tcp_transport(params, counters, std::move(options));
            if (!made.ok() && !loopback) GTEST_SKIP() << "there is no interface but the loopback";
            ASSERT_TRUE(made.ok());
            transports.push_back(std::move(*made));
        }
        ASSERT_TRUE(transports[0]->connect(1, transports[1]->address()).ok());
        Nobody sinks[2];
        RealClock clock;
        Nanoseconds end = clock.now() + 5'000'000'000;
        while (sinks[0].ups + sinks[1].ups < 2 && clock.now() < end)
            for (size_t rank = 0; rank < 2; ++rank) transports[rank]->poll(sinks[rank], 16);
        ASSERT_EQ(sinks[0].ups + sinks[1].ups, 2);
        auto description = transports[0]->describe(1);
        bool inside = std::string_view(description.kind) == "loopback";
        if (!loopback && inside) GTEST_SKIP() << "there is no interface but the loopback";
        auto most = static_cast<int>(inside ? UnsentBound::kMost : UnsentBound::kLeast);
        EXPECT_EQ(told(), (std::multiset<int>{most, most})) << description.kind;
    }
}
#endif

}  // namespace
}  // namespace pomona
