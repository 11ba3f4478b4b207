// tests/unit/pace_meter.cc: the rate of a way from what is under way and what has arrived
// (PaceMeter).
// Goal: the rate that is found is the line's, also by a process that is woken when acknowledgements
// come and not in between, or that has other things to do for milliseconds; an idle line says
// nothing; a line that has become slower or quicker is seen to be. Method: a line of a known rate,
// whose bytes are acknowledged in groups, and a process that asks at times which each test sets.
#include "btl/base/pace_meter.h"
#include "btl/base/random.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;

// Bytes leave at `rate` while there are some; they count as arrived when a group of them is whole.
struct Line {
    double rate;  // bytes a nanosecond
    size_t group;
    double left = 0;  // bytes in it
    double passed = 0;
    uint64_t written = 0;

    void write(size_t bytes) { left += static_cast<double>(bytes), written += bytes; }
    void pass(Nanoseconds time) {
        double now = std::min(left, rate * static_cast<double>(time));
        left -= now;
        passed += now;
    }
    uint64_t arrived() const {
        auto whole = static_cast<uint64_t>(passed) / group * group;
        return left < 1 ? written : whole;
    }
    size_t queued() const { return written - arrived(); }
};

struct Process {
    Line line;
    PaceMeter meter{};
    Nanoseconds now = 1;
    double rate = 0;

    void wait(Nanoseconds time) { line.pass(time), now += time; }
    void ask() { rate = meter.rate(line.queued(), line.arrived(), now); }
    // Keeps the line busy.
    void fill(size_t bytes = 400'000) {
        if (line.queued() < bytes / 2) line.write(bytes);
    }
};

TEST(PaceMeter, who_is_woken_by_acknowledgements_finds_the_rate) {
    Process process{{0.0125, 65160}};  // 100 Mb/s
    for (uint64_t seen = 0; process.now < 300 * kMillisecond; process.wait(20'000)) {
        process.fill();
        // Asks for a while after each group, then sleeps.
        if (process.line.arrived() != seen || process.now % (5 * kMillisecond) < kMillisecond)
            process.ask();
        seen = process.line.arrived();
        if (process.now > 100 * kMillisecond) {
            ASSERT_NEAR(process.rate, 0.0125, 0.0125 * 0.35) << process.now;
        }
    }
}

TEST(PaceMeter, a_busy_process_finds_the_rate) {
    Random random(3);
    Process process{{0.06, 65160}};
    while (process.now < 500 * kMillisecond) {
        process.fill(900'000);
        process.ask();
        process.wait(random.chance(0.3) ? static_cast<Nanoseconds>(random.below(6 * kMillisecond))
                                        : 50'000);
        if (process.now > 100 * kMillisecond) {
            ASSERT_NEAR(process.rate, 0.06, 0.06 * 0.2) << process.now;
        }
    }
}

TEST(PaceMeter, an_idle_line_says_nothing) {
    Process process{{0.06, 1000}};
    for (int message = 0; message < 100; ++message) {
        process.line.write(600'000);  // 10 ms
        while (process.line.queued() != 0) process.ask(), process.wait(100'000);
        for (int n = 0; n < 200; ++n) process.ask(), process.wait(100'000);
        if (message > 3) { ASSERT_NEAR(process.rate, 0.06, 0.06 * 0.1) << message; }
    }
}

// As answers and acknowledgements, which the peer's system acknowledges late.
TEST(PaceMeter, few_bytes_under_way_say_nothing) {
    PaceMeter meter;
    Nanoseconds now = kMillisecond;
    uint64_t arrived = 0;
    for (; now < 300 * kMillisecond; now += kMillisecond / 2) {
        if (now % (40 * kMillisecond) == 0) arrived += 76;
        ASSERT_EQ(meter.rate(76, arrived, now), 0) << now;
    }
}

TEST(PaceMeter, few_bytes_under_way_leave_the_rate_as_it_was) {
    Process process{{0.06, 65160}};
    for (; process.now < 100 * kMillisecond; process.wait(50'000)) process.fill(), process.ask();
    while (process.line.queued() != 0) process.wait(50'000), process.ask();
    double before = process.rate;
    uint64_t arrived = process.line.arrived();
    for (int i = 0; i < 1000; ++i) {
        process.now += kMillisecond / 2;
        if (i % 20 == 0) arrived += 76;
        ASSERT_EQ(process.meter.rate(76, arrived, process.now), before) << i;
    }
}

TEST(PaceMeter, a_changed_rate_is_found_soon) {
    Process process{{0.06, 65160}};
    for (double rate : {0.06, 0.006, 0.06}) {
        process.line.rate = rate;
        Nanoseconds changed = process.now;
        while (process.now - changed < 200 * kMillisecond)
            process.fill(), process.ask(), process.wait(100'000);
        EXPECT_NEAR(process.rate, rate, rate * 0.35);
    }
}

}  // namespace
}  // namespace pomona
