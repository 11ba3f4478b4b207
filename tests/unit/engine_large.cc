// tests/unit/engine_large.cc: many large messages from one peer whose memory can be read.
// Goal: each is received once and whole, by whatever way; no more is asked for ahead than is
// needed, and what cannot come any more holds up nothing behind it. Method: a scripted peer that
// announces many messages at once and sends what it is asked for when the test says so.
#include "tests/unit/scripted_world.h"

namespace pomona {
namespace {

constexpr int kMessages = 24;
constexpr size_t kBytes = 300 << 10;

struct Window {
    explicit Window(useconds_t reading_us = 0) {
        world.peer(1).readable = world.peer(1).can_read = true;
        world.peer(1).reading_us = reading_us;
        for (int i = 0; i < kMessages; ++i) {
            sent.emplace_back(kBytes, static_cast<std::byte>(i + 1));
            received.emplace_back(kBytes);
        }
        requests.resize(sent.size());
        for (size_t i = 0; i < sent.size(); ++i)
            MPI_Irecv(received[i].data(), kBytes, MPI_BYTE, 1, static_cast<int>(i), MPI_COMM_WORLD,
                      &requests[i]);
        for (size_t i = 0; i < sent.size(); ++i) {
            auto address = reinterpret_cast<uint64_t>(sent[i].data());
            world.transport->frame(
                1, {world.context(), 1, static_cast<int>(i), kBytes, FrameKind::rts, 0, 1000 + i},
                {reinterpret_cast<const std::byte*>(&address), sizeof address});
        }
        world.turns(200);
    }
    long asked() { return world.peer(1).count(FrameKind::cts); }
    long read() { return world.peer(1).count(FrameKind::pulled); }
    // Those that were asked for, in order.
    std::vector<Header> questions() {
        std::vector<Header> found;
        for (const Header& each : world.peer(1).pushed)
            if (each.kind == FrameKind::cts) found.push_back(each);
        return found;
    }
    // Sends the data of the next one that was asked for.
    void send_next() {
        Header asked_for = questions().at(answered++);
        auto& data = sent.at(asked_for.token - 1000);
        world.transport->frame(1, {asked_for.context, 0, 0, kBytes, FrameKind::data, 0, 0}, data);
        world.turns(200);
    }
    bool over(size_t i) {
        int over = 0;
        MPI_Request_get_status(requests[i], &over, MPI_STATUS_IGNORE);
        return over;
    }
    ScriptedWorld world;
    std::vector<std::vector<std::byte>> sent, received;
    std::vector<MPI_Request> requests;
    size_t answered = 0;
};

TEST(EngineLarge, what_is_read_waits_for_what_was_asked_for) {
    Window window;
    EXPECT_EQ(window.read(), 2);  // both ways are tried
    EXPECT_EQ(window.asked(), 2);
    window.send_next();
    EXPECT_EQ(window.read(), 2);
    EXPECT_LE(window.asked(), 3);
    while (window.answered < static_cast<size_t>(window.asked())) {
        EXPECT_LE(static_cast<size_t>(window.asked()), window.answered + 2);
        window.send_next();
    }
    EXPECT_EQ(window.read() + window.asked(), kMessages);
    for (size_t i = 0; i < kMessages; ++i) {
        EXPECT_TRUE(window.over(i)) << i;
        EXPECT_EQ(window.received[i], window.sent[i]) << i;
    }
    MPI_Waitall(kMessages, window.requests.data(), MPI_STATUSES_IGNORE);
}

// Where reading takes long nearly all are asked for.
TEST(EngineLarge, no_more_is_asked_for_ahead_than_is_needed) {
    Window window(10'000);
    while (window.answered < static_cast<size_t>(window.asked())) {
        window.send_next();
        EXPECT_LE(static_cast<size_t>(window.asked()), window.answered + 2);
    }
    EXPECT_EQ(window.read() + window.asked(), kMessages);
    for (size_t i = 0; i < kMessages; ++i) EXPECT_EQ(window.received[i], window.sent[i]) << i;
    MPI_Waitall(kMessages, window.requests.data(), MPI_STATUSES_IGNORE);
}

TEST(EngineLarge, messages_that_were_cancelled_hold_up_nothing) {
    Window window;
    auto asked_for = window.questions();
    ASSERT_EQ(asked_for.size(), 2u);
    for (const Header& each : asked_for)
        window.world.transport->frame(
            1, {each.context, 0, 0, 0, FrameKind::refused, kFlagCancelled, 0});
    window.answered = 2;
    window.world.turns(200);
    while (window.answered < static_cast<size_t>(window.asked())) window.send_next();
    EXPECT_EQ(window.read() + window.asked() - 2, kMessages - 2);
    for (size_t i = 0; i < kMessages; ++i) {
        bool cancelled = i + 1000 == asked_for[0].token || i + 1000 == asked_for[1].token;
        EXPECT_EQ(window.over(i), !cancelled) << i;  // their receives wait for other messages
        if (cancelled) continue;
        EXPECT_EQ(window.received[i], window.sent[i]) << i;
    }
}

TEST(EngineLarge, a_peer_that_dies_ends_all_of_them) {
    Window window;
    window.world.transport->death(1);
    window.world.turns(200);
    for (size_t i = 0; i < kMessages; ++i) {
        bool read = i < static_cast<size_t>(window.read());
        EXPECT_EQ(ScriptedWorld::error_of(window.requests[i]),
                  read ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED)
            << i;
    }
}

// The system may forbid it at any time: then everything is asked for.
TEST(EngineLarge, where_reading_fails_all_are_asked_for) {
    Window window;
    window.world.peer(1).can_read = false;
    for (int i = 0; i < 2; ++i) window.send_next();
    while (window.answered < static_cast<size_t>(window.asked())) window.send_next();
    EXPECT_EQ(window.read() + window.asked(), kMessages);
    for (size_t i = 0; i < kMessages; ++i) EXPECT_EQ(window.received[i], window.sent[i]) << i;
    MPI_Waitall(kMessages, window.requests.data(), MPI_STATUSES_IGNORE);
}

}  // namespace
}  // namespace pomona
