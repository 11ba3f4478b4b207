// tests/unit/tcp_wakes.cc: what wakes who sleeps while a long payload comes by a TCP connection.
// Goal: many bytes of it at once, not each packet; whatever is left of it, however little; what
// comes behind it; and the connection's end. Method: the two ends of a connection in this process.
#include "btl/tcp/connection.h"
#include "btl/tcp/poller.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sys/ioctl.h>
#include <thread>
#include <vector>

namespace pomona {
namespace {

using tcp::Connection;
using tcp::kWakeAt;
using tcp::Socket;

struct Ends {
    Ends() {
        Socket listener = std::move(Socket::listen("127.0.0.1", 0).value());
        sender = std::move(Socket::connect("127.0.0.1", listener.port(), 0).value());
        Socket accepted;
        while (!accepted.open()) accepted = listener.accept();
        while (sender.finished() == 0) {}
        reader = std::make_unique<Connection>(std::move(accepted));
        EXPECT_TRUE(poller.add(reader->socket.descriptor(), this).ok());
    }
    // As after the head of a long frame, of which nothing has come yet.
    void begin_payload(size_t length) {
        reader->in_payload = true;
        reader->head.length = length;
        reader->payload_done = 0;
        payload.resize(length);
        reader->target = payload.data();
    }
    void send(size_t bytes) {
        std::vector<std::byte> some(bytes);
        for (ConstBytes rest = some; !rest.empty();) {
            ssize_t moved = sender.write(rest, {});
            ASSERT_GE(moved, 0);
            rest = rest.subspan(static_cast<size_t>(moved));
        }
    }
    // Who slept would be woken now.
    bool wakes() {
        void* found[1];
        return poller.ready(found, 1) == 1;
    }
    void await_wake() {
        while (!wakes()) {}
    }
    // Reads all that is there.
    void read() {
        for (bool more = true; more && reader->payload_done < reader->head.length;)
            if (reader->read_payload(more) <= 0) return;
    }
    Socket sender;
    std::unique_ptr<Connection> reader;
    std::vector<std::byte> payload;
    tcp::Poller poller = std::move(tcp::Poller::make().value());
};

TEST(TcpWakes, by_many_bytes_of_a_long_payload) {
    Ends ends;
    ends.send(1);
    ends.await_wake();  // outside payloads each byte wakes
    bool more = false;
    EXPECT_EQ(ends.reader->read_in(100, more), 1);
    ends.reader->in_begin = ends.reader->in_end = 0;

    ends.begin_payload(2 * kWakeAt + 5);
    ends.reader->wake_for_payload();
    ends.send(kWakeAt - 1);
    EXPECT_FALSE(ends.wakes());
    ends.send(1);
    ends.await_wake();
    ends.read();
    EXPECT_EQ(ends.reader->payload_done, kWakeAt);
    EXPECT_FALSE(ends.wakes());
}

TEST(TcpWakes, by_little_when_no_more_is_to_come) {
    Ends ends;
    ends.begin_payload(kWakeAt + 5);
    ends.reader->wake_for_payload();
    ends.send(kWakeAt);
    ends.await_wake();
    ends.read();
    ends.send(3);
    ends.await_wake();  // who had not slept again would wait for more than there will be
    ends.read();
    ends.reader->wake_for_payload();
    ends.send(1);
    EXPECT_FALSE(ends.wakes());
    ends.send(1);
    ends.await_wake();
    ends.read();
    ends.reader->in_payload = false;
    ends.send(1);  // of the next frame
    ends.await_wake();
}

#if defined(__linux__)
// Between machines so much may come before it is read that the sender does not stand still.
TEST(TcpWakes, room_for_what_a_line_brings) {
    size_t least = 0, usual = 0, most = 0;
    std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual >> most;
    if (most < 2 * tcp::kRoom) GTEST_SKIP() << "the system allows receive buffers of " << most;
    Ends ends;
    ends.reader->leaves_machine(true);
    std::vector<std::byte> some(64 << 10);
    size_t sent = 0;
    for (int vain = 0; vain < 200 && sent < (16 << 20);) {
        ssize_t moved = ends.sender.write(some, {});
        ASSERT_GE(moved, 0);
        sent += static_cast<size_t>(moved);
        if (moved != 0) vain = 0;
        else ++vain, std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    int there = 0;
    ASSERT_EQ(0, ioctl(ends.reader->socket.descriptor(), FIONREAD, &there));
    EXPECT_GT(there, 1 << 20);
    // One byte wakes as before.
    Ends others;
    others.reader->leaves_machine(true);
    others.send(1);
    others.await_wake();
}
#endif

TEST(TcpWakes, by_the_end_of_the_connection) {
    Ends ends;
    ends.begin_payload(10 * kWakeAt);
    ends.reader->wake_for_payload();
    ends.send(1);
    EXPECT_FALSE(ends.wakes());
    ends.sender.close();
    ends.await_wake();
}

}  // namespace
}  // namespace pomona
