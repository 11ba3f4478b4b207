// tests/sim/link_acks.cc: what acknowledgements cost, and when the memory of messages is free, on
// one path.
// Goal: a row of long payloads or messages needs few acknowledgements, what is alone gets one at
// once; nobody waits for memory that a copy could free, and nothing is copied whose acknowledgement
// comes anyway.
// Method: frames that the receiver sends are counted; releases are looked at between turns.
#include "tests/sim/link_pair.h"

namespace pomona {
namespace {

struct LinkAcks : testing::Test {
    LinkPair pair{{10'000}, 1 << 20};
    uint64_t answers() { return pair.fabric.frames(0, 1, 0); }
    void run_until_released() {
        pair.run_while([&] { return pair.sender.back.size() < pair.ticket; });
    }
};

TEST_F(LinkAcks, a_row_of_payloads_needs_few) {
    uint64_t before = answers();
    constexpr size_t kNumber = 32, kBytes = 100 << 10;
    for (size_t i = 0; i < kNumber; ++i) pair.push_long(kBytes);
    run_until_released();
    EXPECT_EQ(pair.receiver.arrived, kNumber * kBytes);
    EXPECT_LE(answers() - before, kNumber * kBytes / (512 << 10) + 2);
}

TEST_F(LinkAcks, a_payload_alone_is_acknowledged_at_once) {
    for (size_t bytes : {300 << 10, 2 << 20}) {
        pair.receiver.arrived = 0;
        uint64_t ticket = pair.push_long(bytes);
        pair.run_while([&] { return pair.receiver.arrived < bytes; });
        sim::Time arrived = pair.fabric.world().now();
        pair.run_while([&] { return !pair.sender.back.contains(ticket); });
        EXPECT_LT(pair.fabric.world().now() - arrived, 200e3);  // the latency, and turns
    }
}

TEST_F(LinkAcks, memory_of_many_messages_is_kept_and_of_few_is_copied) {
    constexpr size_t kBytes = 16 << 10;
    for (int i = 0; i < 4; ++i) pair.push_held(kBytes);
    pair.poll();
    EXPECT_EQ(pair.sender.back.size(), 0u) << "more may come";
    pair.poll();
    EXPECT_EQ(pair.sender.back.size(), 4u) << "whoever waits goes on before the acknowledgement";
    pair.run_while([&] { return pair.receiver.frames < 4; });
    for (int i = 0; i < 64; ++i) pair.push_held(kBytes);
    for (int i = 0; i < 5; ++i) pair.poll();
    EXPECT_EQ(pair.sender.back.size(), 4u) << "copied though much is on its way";
    uint64_t before = answers();
    pair.run_while([&] { return pair.receiver.frames < 68; });
    run_until_released();
    EXPECT_LE(answers() - before, 64 * kBytes / (512 << 10) + 2);
}

TEST_F(LinkAcks, a_long_row_is_not_copied) {
    constexpr size_t kBytes = 16 << 10, kNumber = 64;
    LinkPair quick{{40'000}, 1 << 20};  // all has arrived before the sender loses patience
    for (bool slowly : {false, true, false}) {
        uint64_t all = quick.ticket + kNumber;
        for (size_t i = 0; i < kNumber; ++i) {
            quick.push_held(kBytes);
            // Longer than the sender waits for a row that has come to its end.
            if (slowly && i > kNumber / 4) quick.turn();
        }
        quick.run_while([&] { return quick.sender.back.size() < all; });
        EXPECT_EQ(quick.counters.link_copied_bytes.load(), 0u) << slowly;
    }
    // A few behind them are copied, as before.
    quick.push_held(kBytes);
    for (int i = 0; i < 2; ++i) quick.poll();
    EXPECT_EQ(quick.counters.link_copied_bytes.load(), kBytes);
    EXPECT_EQ(quick.sender.back.size(), quick.ticket);
}

// As MPI_Isend in a loop does, which looks after the links each time.
TEST_F(LinkAcks, a_row_that_grows_is_not_copied) {
    constexpr size_t kBytes = 16 << 10, kNumber = 64;
    for (size_t i = 0; i < kNumber; ++i) {
        pair.push_held(kBytes);
        pair.transports[0]->poll(pair.sender, 16);
    }
    EXPECT_EQ(pair.counters.link_copied_bytes.load(), 0u);
    run_until_released();
    EXPECT_EQ(pair.counters.link_copied_bytes.load(), 0u);
}

// The other side's answer acknowledges a row, so that the link need not ask. Who never gets one
// waits for it once, and after that is acknowledged as soon as the row has arrived.
TEST_F(LinkAcks, a_row_that_is_answered_needs_no_question) {
    constexpr size_t kBytes = 16 << 10, kNumber = 64;
    // What is acknowledged by the other side's system, which takes the way back as well, is not
    // simulated.
    LinkPair quick{{40'000}, 1 << 20, 3'000};
    quick.turn_ns = 2'000;
    auto send_row = [&](bool answered) {
        uint64_t sent = quick.fabric.frames(0, 0, 1), all = quick.receiver.frames + kNumber;
        for (size_t i = 0; i < kNumber; ++i) quick.push_held(kBytes);
        quick.run_while([&] { return quick.receiver.frames < all; });
        sim::Time arrived = quick.fabric.world().now();
        if (answered) {
            size_t answers = quick.sender.frames + 1;
            EXPECT_EQ(quick.transports[1]->path(0)->push({}, {}), Push::sent);
            quick.run_while([&] { return quick.sender.frames < answers; });
        }
        quick.run_while([&] { return quick.sender.back.size() < quick.ticket; });
        struct Row {
            uint64_t questions;
            double microseconds;  // from its arrival to the release of all memory
        };
        return Row{quick.fabric.frames(0, 0, 1) - sent - kNumber,
                   static_cast<double>(quick.fabric.world().now() - arrived) / 1e3};
    };
    for (int row = 0; row < 4; ++row) EXPECT_EQ(send_row(true).questions, 0u);
    EXPECT_EQ(send_row(false).questions, 1u);
    for (int row = 0; row < 4; ++row) {
        auto [questions, microseconds] = send_row(false);
        EXPECT_EQ(questions, 1u);
        EXPECT_LE(microseconds, 150) << "the latency, and turns";
    }
    for (int row = 0; row < 2; ++row) send_row(true);
    for (int row = 0; row < 4; ++row) EXPECT_EQ(send_row(true).questions, 0u);
    EXPECT_EQ(quick.counters.link_copied_bytes.load(), 0u);
}

// The peer may be busy outside MPI, and then the caller goes on by copies.
TEST_F(LinkAcks, a_long_row_is_copied_when_the_peer_does_not_answer) {
    constexpr size_t kBytes = 16 << 10, kNumber = 32;
    for (size_t i = 0; i < kNumber; ++i) pair.push_held(kBytes);
    for (int turn = 0; turn < 100 && pair.sender.back.size() < kNumber; ++turn) {
        pair.transports[0]->poll(pair.sender, 16);
        pair.fabric.run_until(pair.fabric.world().now() + 20'000);
    }
    EXPECT_EQ(pair.receiver.frames, 0u);
    EXPECT_EQ(pair.sender.back.size(), kNumber);
    run_until_released();
    pair.run_while([&] { return pair.receiver.frames < kNumber; });
}

}  // namespace
}  // namespace pomona
