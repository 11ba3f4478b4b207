// tests/unit/intake.cc: the rate of a way from what it takes while more waits (Intake).
// Goal: the rate is the line's, also where payloads are hardly longer than what the way keeps,
// bytes leave it in groups, or the sender has nothing to send for a while. Method: a buffer before
// a line of a known rate, which gets its room back in groups, later by the time that they travel.
#include "btl/base/intake.h"

#include <gtest/gtest.h>

#include <deque>

namespace pomona {
namespace {

constexpr Nanoseconds kLook = 20'000;  // the sender looks so often

struct Line {
    double rate;  // bytes a nanosecond
    size_t buffer, group;
    Nanoseconds travel;
    Intake intake{};
    Nanoseconds now = 1;
    bool grows = false;  // the buffer, while it sends
    bool tells = false;  // how much it keeps

    // Sends a payload; the sender waits for `pause` when it has left.
    void send(size_t bytes, Nanoseconds pause) {
        size_t left = bytes;
        for (bool first = true; left != 0; first = false) {
            if (!first) now += kLook;
            while (!back.empty() && back.front().first <= now) {
                inside -= back.front().second;
                back.pop_front();
            }
            if (grows && left < (2 << 20)) buffer = 2 << 20;
            size_t taken = std::min(left, buffer - std::min(buffer, inside));
            left -= taken;
            inside += taken;
            for (size_t put = 0; put < taken; put += group) {
                size_t part = std::min(group, taken - put);
                free_at = std::max(free_at, static_cast<double>(now));
                free_at += static_cast<double>(part) / rate;
                back.emplace_back(static_cast<Nanoseconds>(free_at) + travel, part);
            }
            if (first || taken != 0 || left != 0)
                intake.took(taken, left != 0, now, tells ? inside : 0);
        }
        intake.idle();
        now += pause;
    }
    std::deque<std::pair<Nanoseconds, size_t>> back{};
    size_t inside = 0;
    double free_at = 0;
};

TEST(Intake, finds_the_rate_of_a_stream) {
    for (double rate : {0.0125, 0.125, 1.25}) {
        Line line{rate, 64 << 10, 4 << 10, 20'000};
        line.send(8 << 20, 0);
        EXPECT_NEAR(line.intake.rate() / rate, 1, 0.1) << rate;
    }
}

// What fills an empty way says nothing until its first bytes have arrived.
TEST(Intake, a_long_way_is_not_slow) {
    Line line{0.025, 96 << 10, 4 << 10, 2'000'000};
    for (int number = 0; number < 8; ++number) {
        line.send(192 << 10, 20'000'000);
        ASSERT_NE(line.intake.rate(), 0);
        EXPECT_NEAR(line.intake.rate() / 0.025, 1, 0.25) << number;
    }
}

TEST(Intake, pauses_are_no_slowness) {
    Line line{0.0125, 32 << 10, 4 << 10, 100'000};
    line.send(1 << 20, 0);
    for (int number = 0; number < 20; ++number) {
        line.send(48 << 10, 50'000'000);
        EXPECT_NEAR(line.intake.rate() / 0.0125, 1, 0.15) << number;
    }
}

// What the system keeps more than before was not carried: where it can tell from the first time on,
// elsewhere once something is known.
TEST(Intake, a_growing_buffer_is_no_quickness) {
    for (bool tells : {true, false}) {
        Line line{0.125, 64 << 10, 4 << 10, 20'000};
        line.tells = tells;
        if (!tells) line.send(1 << 20, 10'000'000);
        line.grows = true;
        line.send(4 << 20, 10'000'000);
        EXPECT_EQ(line.buffer, size_t{2} << 20);
        EXPECT_LT(line.intake.rate(), (tells ? 1.1 : 1.8) * line.rate) << tells;
        EXPECT_GT(line.intake.rate(), 0.8 * line.rate) << tells;
    }
}

TEST(Intake, a_changed_rate_is_found) {
    Line line{1.25, 64 << 10, 4 << 10, 100'000};
    line.send(4 << 20, 10'000'000);
    line.rate = 0.0125;
    line.send(1 << 20, 10'000'000);
    EXPECT_NEAR(line.intake.rate() / 0.0125, 1, 0.15);
}

// One long pause of the peer halves it once.
TEST(Intake, a_peer_that_does_not_read_makes_no_way_slow_for_long) {
    Intake intake;
    Nanoseconds now = 1;
    auto stream = [&] {
        for (int number = 0; number < 64; ++number) intake.took(64 << 10, true, now += 100'000);
    };
    stream();
    double usual = intake.rate();
    for (int number = 0; number < 1000; ++number) intake.took(0, true, now += 1'000'000);
    intake.took(64 << 10, true, now += 100'000);
    EXPECT_NEAR(intake.rate(), usual / 2, usual / 50);
    stream();
    EXPECT_NEAR(intake.rate(), usual, usual / 50);
}

}  // namespace
}  // namespace pomona
