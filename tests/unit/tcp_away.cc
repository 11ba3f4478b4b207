// tests/unit/tcp_away.cc: output that a program leaves behind in its connections.
// Goal: it arrives while nobody else writes, each byte once and in order, however often its owner
// comes back in between and adds to it; a connection that ends meanwhile disturbs nobody. Method:
// connections over loopback, and over slow readers; the bytes count up.
#include "btl/tcp/away_writer.h"

#include "btl/base/random.h"
#include "btl/tcp/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <poll.h>
#include <thread>
#include <vector>

namespace pomona {
namespace {

using tcp::AwayWriter;
using tcp::Connection;
using tcp::Socket;

struct Pair {
    Pair() {
        auto listener = Socket::listen("127.0.0.1", 0);
        EXPECT_TRUE(listener.ok());
        auto made = Socket::connect("127.0.0.1", listener->port(), 0);
        EXPECT_TRUE(made.ok());
        wait_for(listener->descriptor(), POLLIN);
        peer = listener->accept();
        out = std::make_unique<Connection>(std::move(*made));
    }
    static void wait_for(int descriptor, short event) {
        pollfd look{descriptor, event, 0};
        EXPECT_EQ(1, poll(&look, 1, 20'000)) << "nothing for 20 s";
    }
    // Bytes that count up, behind those given before.
    void add(size_t length) {
        for (std::byte& each : out->add_output(length)) each = next(given++);
    }
    static std::byte next(uint64_t number) {
        return static_cast<std::byte>(number * 7 + number / 251);
    }
    // Reads so many; false when one of them is not the next.
    bool read(size_t length) {
        std::vector<std::byte> room(64 << 10);
        while (length > 0) {
            wait_for(peer.descriptor(), POLLIN);
            ssize_t got = peer.read(Bytes(room).first(std::min(room.size(), length)), {});
            if (got < 0 || HasFailure()) return false;
            for (ssize_t i = 0; i < got; ++i)
                if (room[static_cast<size_t>(i)] != next(taken++)) return false;
            length -= static_cast<size_t>(got);
        }
        return true;
    }
    static bool HasFailure() { return testing::Test::HasFailure(); }

    Socket peer;
    std::unique_ptr<Connection> out;
    uint64_t given = 0, taken = 0;
};

TEST(TcpAway, WhatIsLeftArrives) {
    auto writer = AwayWriter::start();
    ASSERT_TRUE(writer);
    Pair one, other;
    for (Pair* each : {&one, &other}) {
        each->add(12 << 20);  // more than systems take
        ASSERT_TRUE(each->out->flush());
        ASSERT_TRUE(each->out->has_output());
    }
    for (Pair* each : {&one, &other}) writer->leave(each->out->away, *each->out);
    EXPECT_TRUE(other.read(12 << 20));
    EXPECT_TRUE(one.read(12 << 20));
    for (Pair* each : {&one, &other}) {
        each->out->away.take_back();
        EXPECT_FALSE(each->out->has_output());
        EXPECT_EQ(0u, each->out->out.size()) << "much memory is kept";
    }
}

TEST(TcpAway, ItsOwnerComesBackAndAddsToIt) {
    auto writer = AwayWriter::start();
    ASSERT_TRUE(writer);
    Pair pair;
    constexpr int kCalls = 400;
    Random random(5);
    std::vector<size_t> lengths(kCalls);
    size_t all = 0;
    for (size_t& each : lengths) all += each = 1 + random.next() % (200 << 10);
    std::thread reader([&] { EXPECT_TRUE(pair.read(all)); });
    for (size_t each : lengths) {
        pair.out->away.take_back();
        pair.add(each);
        bool works = random.next() % 2 == 0 || pair.out->flush();
        EXPECT_TRUE(works);
        writer->leave(pair.out->away, *pair.out);
        if (random.next() % 8 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random.next() % 4000));
    }
    reader.join();
}

// Long after it was forgotten, too.
TEST(TcpAway, IsLeftAgainLater) {
    auto writer = AwayWriter::start();
    ASSERT_TRUE(writer);
    Pair pair;
    for (int round = 0; round < 3; ++round) {
        pair.add(8 << 20);
        ASSERT_TRUE(pair.out->flush());
        writer->leave(pair.out->away, *pair.out);
        EXPECT_TRUE(pair.read(8 << 20));
        pair.out->away.take_back();
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
}

TEST(TcpAway, AConnectionThatEndsDisturbsNobody) {
    auto writer = AwayWriter::start();
    ASSERT_TRUE(writer);
    Pair pair;
    for (int round = 0; round < 20; ++round) {
        Pair gone;
        for (Pair* each : {&gone, &pair}) {
            each->add(7 << 20);
            ASSERT_TRUE(each->out->flush());
            writer->leave(each->out->away, *each->out);
        }
        if (round % 2 == 0) gone.peer.close();
        else gone.out.reset();
        EXPECT_TRUE(pair.read(7 << 20));
        pair.out->away.take_back();
    }
}

}  // namespace
}  // namespace pomona
