// tests/sim/link_exchange.cc: long payloads in both directions at once, each of which asks first,
// in virtual time.
// Goal: a line carries both directions at once. So the answer to a question must not wait until
// all has left of what its sender sends meanwhile by the same path.
// Method: each of two ranks asks, answers, and sends when it is answered, one of them a little
// later than the other, as ranks come to a collective; the time from the first question until both
// have all, against that of one payload alone. Short messages are sent beside a payload, too.
#include "btl/link/link.h"
#include "btl/sim/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pomona {
namespace {

constexpr size_t kFragment = 512 << 10;  // tcp_fragment
constexpr size_t kUnaskedMax = 256 << 10;
constexpr double kMegabit = 125e-6;  // bytes a nanosecond
constexpr size_t kPayload = 1 << 20;
constexpr uint64_t kAsk = 1, kAnswer = 2, kShort = 3;

struct Side final : Sink {
    std::byte* place(int, const FrameHeader& header, size_t) override {
        return data.data() + header.word[3];
    }
    void arrive(int, const FrameHeader& header, ConstBytes payload) override {
        if (header.word[0] == kAsk) here ? send(kAnswer) : void(asked = true);
        else if (header.word[0] == kAnswer) push_long();
        else if (header.word[0] == kShort) ++shorts;
        else arrived += payload.size();
    }
    void gone(int, const Error& why) override { ADD_FAILURE() << why.text(); }
    void released(int, uint64_t) override { ++released_; }
    void send(uint64_t what) { EXPECT_EQ(endpoint->push({{what, 0, 0, 0}}, {}), Push::sent); }
    void push_long() {
        Bulk bulk;
        bulk.place = 100;
        bulk.ticket = ++ticket;
        bulk.length = length;
        bulk.data = data.data();
        EXPECT_EQ(endpoint->push_bulk(bulk), Push::sent);
    }

    Endpoint* endpoint = nullptr;
    std::vector<std::byte> data = std::vector<std::byte>(kPayload);
    bool here = true, asked = false;  // whether it has come to the collective
    size_t length = kPayload, arrived = 0, shorts = 0;
    uint64_t ticket = 0, released_ = 0;
};

struct Exchange {
    explicit Exchange(double megabits, size_t buffer)
        : byte_ns(1 / (megabits * kMegabit)), fabric(7, 2, {way(byte_ns, buffer)}) {
        for (int rank = 0; rank < 2; ++rank) {
            std::vector<std::unique_ptr<Transport>> paths;
            paths.push_back(fabric.make_transport(rank, 0));
            LinkOptions link;
            link.rank = rank;
            link.clock = &fabric.clock();
            link.caps = {64, 65536, kFragment};
            link.unasked_max = kUnaskedMax;
            transports.push_back(
                make_link_transport(params, counters, std::move(link), std::move(paths)));
        }
        for (int rank = 0; rank < 2; ++rank)
            sides[rank].endpoint = *transports[static_cast<size_t>(rank)]->connect(
                1 - rank, transports[static_cast<size_t>(1 - rank)]->address());
        run_until([&] { return now() >= 20e6; });
    }
    static sim::WayOptions way(double byte_ns, size_t buffer) {
        sim::WayOptions out;
        out.latency_ns = 100'000;
        out.byte_ns = byte_ns;
        out.buffer = buffer;
        out.fills = true;
        out.fragment_max = kFragment + kLinkRoom;
        return out;
    }
    sim::Time now() { return fabric.world().now(); }
    template <class Condition> void run_until(Condition over) {
        while (!over() && !testing::Test::HasFailure()) {
            for (size_t rank = 0; rank < 2; ++rank) transports[rank]->poll(sides[rank], 16);
            fabric.run_until(now() + 20'000);
            ASSERT_LT(now(), 60e9) << "it hangs";
        }
    }
    // What one payload alone takes on the line.
    double alone(size_t bytes) const { return static_cast<double>(bytes) * byte_ns; }
    // The time until both sides have `bytes` of the other one, where the second begins `late`;
    // `answers_late`: it answers only then, too.
    double exchange(size_t bytes, double late, bool answers_late = false) {
        double begin = now();
        for (Side& side : sides) side.arrived = 0, side.length = bytes;
        sides[1].here = !answers_late;
        sides[0].send(kAsk);
        run_until([&] { return now() >= begin + late; });
        if (answers_late && sides[1].asked) sides[1].send(kAnswer);
        sides[1].here = true, sides[1].asked = false;
        sides[1].send(kAsk);
        run_until([&] { return sides[0].arrived >= bytes && sides[1].arrived >= bytes; });
        double took = now() - begin;
        run_until([&] { return sides[0].released_ + sides[1].released_ >= 2 * (exchanges + 1); });
        ++exchanges;
        return took;
    }

    Params params;
    Counters counters;
    double byte_ns;
    sim::PathFabric fabric;
    std::vector<std::unique_ptr<Transport>> transports;
    Side sides[2];
    uint64_t exchanges = 0;
};

TEST(LinkExchange, both_directions_take_as_long_as_one) {
    for (double megabits : {100.0, 1000.0})
        for (size_t bytes : {256 << 10, 1 << 20})
            for (double part_late : {0.02, 0.1, 0.3}) {
                size_t buffer = megabits < 500 ? 32 << 10 : 64 << 10;
                Exchange both(megabits, buffer);
                double alone = both.alone(bytes), late = part_late * alone;
                double took = 0;
                // The first ones are how the link comes to know the line.
                for (int number = 0; number < 4; ++number) took = both.exchange(bytes, late);
                // What is in the system's buffer goes before the answer.
                EXPECT_LE(took - late, 1.15 * alone + 1.5 * both.alone(buffer))
                    << megabits << " Mb/s, " << (bytes >> 10) << " KiB, " << part_late << " late";
            }
}

// Who comes late answers and asks at once. Its question must be answered before what its answer
// lets go, however much the system takes of that.
TEST(LinkExchange, a_question_that_comes_with_an_answer_is_answered_first) {
    Exchange both(1000, 1 << 20);
    for (int number = 0; number < 4; ++number) {
        constexpr double kLate = 3e6;
        double took = both.exchange(kFragment, kLate, true);
        EXPECT_LE(took - kLate, 1.3 * both.alone(kFragment)) << number;
    }
}

TEST(LinkExchange, the_first_one_does_not_wait_for_much) {
    Exchange both(100, 32 << 10);
    double alone = both.alone(kPayload);
    EXPECT_LE(both.exchange(kPayload, 1e6), 1.4 * alone);
}

// A line that is known to be slow takes, within bounds, what it carries in 26 ms; a quick one
// 128 KiB.
TEST(LinkExchange, knows_what_is_better_sent_without_asking) {
    constexpr size_t kQuick = 128 << 10;
    struct Line {
        double megabits;
        size_t least, most;
    };
    for (const Line& line : {Line{50, 120 << 10, 200 << 10}, Line{1000, kUnaskedMax, kUnaskedMax},
                             Line{10000, kQuick, kQuick}}) {
        Exchange both(line.megabits, 64 << 10);
        EXPECT_EQ(both.sides[0].endpoint->unasked_most(), kUnaskedMax) << "nothing is known yet";
        for (int number = 0; number < 4; ++number) both.exchange(kPayload, 1e5);
        EXPECT_GE(both.sides[0].endpoint->unasked_most(), line.least) << line.megabits;
        EXPECT_LE(both.sides[0].endpoint->unasked_most(), line.most) << line.megabits;
    }
}

// How quickly a line takes messages shows while more of them waits: while nothing is to be sent
// it takes nothing, and is no slower.
TEST(LinkExchange, pauses_of_the_sender_say_nothing_of_the_line) {
    for (bool keeps : {true, false}) {
        Exchange both(50, 32 << 10);
        for (int number = 0; number < 4; ++number) both.exchange(kPayload, 1e5);
        Endpoint& endpoint = *both.sides[0].endpoint;
        size_t known = endpoint.unasked_most(), sent = 0;
        std::vector<std::byte> payload(48 << 10);
        auto push = [&] {
            bool held = false;
            FrameHeader header{{kShort, 0, 0, 0}};
            ++sent;
            return keeps ? endpoint.push_held(header, payload, sent, held)
                         : endpoint.push(header, payload);
        };
        for (size_t in_row : {1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1}) {
            for (size_t number = 0; number < in_row; ++number) ASSERT_EQ(push(), Push::sent);
            both.run_until([&] { return both.sides[1].shorts == sent; });
            double later = both.now() + 50e6;
            both.run_until([&] { return both.now() >= later; });
            EXPECT_NEAR(static_cast<double>(endpoint.unasked_most()), static_cast<double>(known),
                        static_cast<double>(known) / 10)
                << sent << " messages" << (keeps ? ", kept" : "");
        }
    }
}

// Both sides send a row, and neither has anything more to say: so that nobody answers rows does not
// have to be found out anew each time.
TEST(LinkExchange, rows_that_cross_are_over_soon) {
    for (size_t row : {1, 2, 8})
        for (size_t bytes : {32 << 10, 128 << 10}) {
            Exchange both(10000, 4 << 20);
            std::vector<std::byte> payload(bytes);
            for (int number = 0; number < 6; ++number) {
                double begin = both.now();
                uint64_t owed[2];
                for (int rank : {0, 1}) {
                    Side& side = both.sides[rank];
                    owed[rank] = side.released_ + row;
                    for (size_t i = 0; i < row; ++i) {
                        bool held = false;
                        FrameHeader header{{kShort, 0, 0, 0}};
                        ASSERT_EQ(side.endpoint->push_held(header, payload, ++side.ticket, held),
                                  Push::sent);
                        if (!held) ++side.released_;
                    }
                }
                both.run_until([&] {
                    return both.sides[0].released_ == owed[0] && both.sides[1].released_ == owed[1];
                });
                // The row's time, a question and its answer, and some turns of 20 us.
                EXPECT_LE(both.now() - begin, both.alone(row * bytes) + 400e3)
                    << row << " of " << bytes << ", number " << number;
                both.run_until([&] { return both.now() >= begin + 20e6; });
            }
        }
}

// Of messages that follow each other the later ones ask, until the earlier ones have arrived.
TEST(LinkExchange, only_a_message_that_is_alone_goes_without_asking) {
    Exchange both(10000, 64 << 10);
    for (int number = 0; number < 4; ++number) both.exchange(kPayload, 1e5);
    Endpoint& endpoint = *both.sides[0].endpoint;
    EXPECT_EQ(endpoint.unasked_most(), size_t{128} << 10);
    std::vector<std::byte> payload(40 << 10);
    ASSERT_EQ(endpoint.push(FrameHeader{{kShort, 0, 0, 0}}, payload), Push::sent);
    EXPECT_EQ(endpoint.unasked_most(), 0u);
    both.run_until([&] { return endpoint.unasked_most() != 0; });
    EXPECT_EQ(both.sides[1].shorts, 1u);
}

// Of a slow line the second one does not ask either: its answer would come when the first one has
// left.
TEST(LinkExchange, the_second_in_a_row_goes_unasked_by_a_slow_line) {
    Exchange both(50, 32 << 10);
    for (int number = 0; number < 4; ++number) both.exchange(kPayload, 1e5);
    Endpoint& endpoint = *both.sides[0].endpoint;
    std::vector<std::byte> payload(128 << 10);
    for (size_t number = 1; number <= 2; ++number) {
        EXPECT_GE(endpoint.unasked_most(), payload.size()) << number;
        ASSERT_EQ(endpoint.push(FrameHeader{{kShort, 0, 0, 0}}, payload), Push::sent);
    }
    EXPECT_LT(endpoint.unasked_most(), payload.size()) << "a third one";
    both.run_until([&] { return endpoint.unasked_most() >= payload.size(); });
    EXPECT_LT(both.sides[1].shorts, 2u) << "the next one goes before the line is idle";
    both.run_until([&] { return both.sides[1].shorts == 2; });
}

TEST(LinkExchange, short_messages_pass_between_pieces) {
    Exchange both(100, 32 << 10);
    both.exchange(kPayload, 1e6);
    both.sides[1].arrived = 0;
    both.sides[0].push_long();
    double longest = 0;
    for (size_t number = 1; number <= 10; ++number) {
        double begin = both.now();
        both.sides[0].send(kShort);
        both.run_until([&] { return both.sides[1].shorts == number; });
        longest = std::max(longest, both.now() - begin);
    }
    EXPECT_LT(longest, 6e6);  // of which 2.6 ms are in the system's buffer
    both.run_until([&] { return both.sides[1].arrived == kPayload; });
}

}  // namespace
}  // namespace pomona
