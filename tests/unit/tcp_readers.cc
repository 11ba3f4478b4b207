// tests/unit/tcp_readers.cc: which connections of a TCP transport are read without asking.
// Goal: those by which nothing comes while others move are left out until the Poller finds bytes
// there, and none is lost. Method: connections over loopback, in the state of endpoints.
#include "btl/tcp/readers.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <vector>

namespace pomona {
namespace {

using tcp::Connection;
using tcp::Readers;
using tcp::Socket;
using tcp::TcpEndpoint;

struct World final : tcp::EndpointOwner {
    explicit World(int number) {
        Socket listener = std::move(Socket::listen("127.0.0.1", 0).value());
        for (int i = 0; i < number; ++i) {
            peers.push_back(std::move(Socket::connect("127.0.0.1", listener.port(), 0).value()));
            wait_for(listener.descriptor());
            endpoints.push_back(std::make_unique<TcpEndpoint>(*this, i, params));
            TcpEndpoint& made = *endpoints.back();
            made.connection = std::make_unique<Connection>(listener.accept());
            made.state = TcpEndpoint::State::up;
            EXPECT_TRUE(poller.add(made.connection->socket.descriptor(), made.token()).ok());
            readers.add(made);
        }
    }
    static void wait_for(int descriptor) {
        pollfd look{descriptor, POLLIN, 0};
        EXPECT_EQ(1, poll(&look, 1, 20'000)) << "nothing for 20 s";
    }
    void fail(TcpEndpoint& endpoint, Error) override { endpoint.state = TcpEndpoint::State::gone; }
    void attend(TcpEndpoint&) override {}
    Counters& counters() override { return counters_; }
    Clock& clock() override { return clock_; }
    void long_payload_comes() override {}
    bool receives_long() override { return false; }

    // Reads that bring something, by the first `number`.
    void move(int number, int times) {
        for (int i = 0; i < times; ++i) {
            readers.moved(*endpoints[static_cast<size_t>(i % number)]);
            readers.end_turn();
        }
    }
    void send(int peer) {
        std::byte one{};
        EXPECT_EQ(1, peers[static_cast<size_t>(peer)].write({&one, 1}, {}));
        wait_for(endpoints[static_cast<size_t>(peer)]->connection->socket.descriptor());
    }
    // Whom the Poller finds, told to the readers.
    std::vector<int> find() {
        void* tokens[16];
        std::vector<int> out;
        int number = poller.ready(tokens, 16);
        for (int i = 0; i < number; ++i) {
            auto& found = static_cast<TcpEndpoint&>(*static_cast<tcp::Watched*>(tokens[i]));
            readers.found(found);
            out.push_back(found.peer);
        }
        return out;
    }
    bool busy(int peer) {
        auto& all = readers.busy();
        return std::count(all.begin(), all.end(), endpoints[static_cast<size_t>(peer)].get()) == 1;
    }

    Params params;
    Counters counters_;
    RealClock clock_;
    tcp::Poller poller = std::move(tcp::Poller::make().value());
    Readers readers{poller};
    std::vector<Socket> peers;
    std::vector<std::unique_ptr<TcpEndpoint>> endpoints;
};

using Found = std::vector<int>;

TEST(TcpReaders, few_move_and_the_others_are_asked_about) {
    World world(6);
    EXPECT_TRUE(world.readers.many());
    EXPECT_FALSE(world.readers.asks_quiet(0));
    world.move(2, 5000);
    EXPECT_EQ(world.readers.busy().size(), 2U);
    EXPECT_FALSE(world.readers.many());
    bool asks = false;
    for (unsigned turn = 0; turn < 64; ++turn) asks |= world.readers.asks_quiet(turn);
    EXPECT_TRUE(asks);

    world.send(4);
    EXPECT_EQ(world.find(), Found{4});
    EXPECT_TRUE(world.busy(4));
    world.move(2, 5000);
    EXPECT_FALSE(world.busy(4));
    EXPECT_EQ(world.find(), Found{4});  // it has not been read, and is not forgotten
    EXPECT_TRUE(world.busy(4));
}

TEST(TcpReaders, busy_ones_leave_the_set_and_quiet_ones_do_not) {
    World world(4);
    world.readers.leave_set();
    EXPECT_TRUE(world.readers.out_of_set());
    world.send(3);
    EXPECT_EQ(world.find(), Found{});
    world.move(1, 5000);  // the third one goes back
    EXPECT_EQ(world.readers.busy().size(), 1U);
    EXPECT_EQ(world.find(), Found{3});
    EXPECT_EQ(world.find(), Found{});  // it has left again
    world.send(2);
    EXPECT_EQ(world.find(), Found{2});
    EXPECT_TRUE(world.readers.watch_all());
    world.send(0);
    Found found = world.find();
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, (Found{0, 2, 3}));
}

TEST(TcpReaders, none_is_quiet_while_nothing_moves) {
    World world(5);
    for (int turn = 0; turn < 100'000; ++turn) world.readers.end_turn();
    EXPECT_EQ(world.readers.busy().size(), 5U);
}

TEST(TcpReaders, those_that_end_are_forgotten_and_may_come_again) {
    World world(5);
    world.move(1, 5000);
    world.fail(*world.endpoints[0], {});
    world.fail(*world.endpoints[4], {});
    world.readers.forget_unread();
    EXPECT_TRUE(world.readers.busy().empty());
    EXPECT_TRUE(world.readers.asks_quiet(3));  // in each turn, if there is no other
    world.send(4);
    EXPECT_EQ(world.find(), Found{4});
    EXPECT_FALSE(world.busy(4));
    world.endpoints[4]->state = TcpEndpoint::State::up;
    world.readers.add(*world.endpoints[4]);
    world.readers.add(*world.endpoints[4]);
    EXPECT_EQ(world.readers.busy().size(), 1U);
}

}  // namespace
}  // namespace pomona
