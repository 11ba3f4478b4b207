// tests/sim/link_order.cc: a slow line beside a quick one, in virtual time.
// Goal: a link with two lines of which one carries ten or a hundred times as much is never much
// slower than with the quick one alone: messages take the quick one, whichever came up first and
// though both answer as soon; while that is full they wait for it; and the slow one takes a piece
// of a long payload rarely, to find out whether it is still slow. Method: messages and payloads one
// after the other over both, against the same over the quick line alone.
#include "tests/sim/link_pair.h"

#include <algorithm>
#include <string>

namespace pomona {
namespace {

constexpr size_t kMessage = 60'000;

double now(LinkPair& pair) { return pair.fabric.world().now(); }

void push_message(LinkPair& pair) {
    pair.run_while([&] {
        return pair.endpoint->push({}, {pair.data.data(), kMessage}) == Push::busy;
    });
}

// From the first byte's leaving to the last one's coming, of a row of messages of which each leaves
// when the one before has come.
double time_of_messages(LinkPair& pair, int number) {
    double begin = now(pair);
    for (int i = 0; i < number; ++i) {
        size_t frames = pair.receiver.frames;
        push_message(pair);
        pair.run_while([&] { return pair.receiver.frames == frames; });
    }
    return now(pair) - begin;
}

double time_of_payload(LinkPair& pair, size_t bytes) {
    pair.receiver.arrived = 0;
    double begin = now(pair);
    uint64_t ticket = pair.push_long(bytes);
    pair.run_while([&] { return pair.receiver.arrived < bytes; });
    double took = now(pair) - begin;
    pair.run_while([&] { return !pair.sender.back.contains(ticket); });
    return took;
}

struct Lines {
    double quick, slow;
};
const std::vector<Lines> kLines{{1000, 100}, {10000, 100}, {20000, 300}, {1000, 10}};

std::string name_of(const Lines& lines, bool slow_first) {
    return std::to_string(static_cast<int>(lines.quick)) + " and " +
           std::to_string(static_cast<int>(lines.slow)) +
           (slow_first ? ", the slow one first" : "");
}

// With both lines; `slow_first`: that one has the lower number.
LinkPair both(const Lines& lines, bool slow_first) {
    if (slow_first) return LinkPair({lines.slow, lines.quick}, 384 << 10);
    return LinkPair({lines.quick, lines.slow}, 384 << 10);
}

// One or two go by the slow line to find out that it is slow, and one now and then, ever more
// rarely, whether it still is.
TEST(LinkOrder, messages_take_the_quick_line) {
    for (const Lines& lines : kLines)
        for (bool slow_first : {false, true}) {
            LinkPair alone({lines.quick}, 384 << 10);
            double quick = time_of_messages(alone, 400);
            LinkPair pair = both(lines, slow_first);
            time_of_messages(pair, 100);
            EXPECT_LE(time_of_messages(pair, 400), 1.1 * quick) << name_of(lines, slow_first);
        }
}

TEST(LinkOrder, a_slow_line_keeps_no_payload_waiting) {
    for (const Lines& lines : kLines)
        for (bool slow_first : {false, true}) {
            LinkPair alone({lines.quick}, 384 << 10);
            double quick = 0;
            for (int i = 0; i < 40; ++i) quick += time_of_payload(alone, kPayload);
            LinkPair pair = both(lines, slow_first);
            for (int i = 0; i < 2; ++i) time_of_payload(pair, kPayload);
            double took = 0;
            for (int i = 0; i < 40; ++i) took += time_of_payload(pair, kPayload);
            EXPECT_LE(took, 1.15 * quick) << name_of(lines, slow_first);
        }
}

// Messages behind payloads that keep the quick line full.
TEST(LinkOrder, messages_wait_for_a_quick_line_that_is_full) {
    for (const Lines& lines : kLines)
        for (bool slow_first : {false, true}) {
            auto time = [&](LinkPair& pair) {
                double sum = 0;
                for (int i = 0; i < 20; ++i) {
                    size_t frames = pair.receiver.frames;
                    uint64_t ticket = pair.push_long(kPayload);
                    for (int turns = 0; turns < 10; ++turns) pair.turn();
                    double begin = now(pair);
                    push_message(pair);
                    pair.run_while([&] { return !pair.sender.back.contains(ticket); });
                    // The payload's pieces and the message.
                    pair.run_while([&] { return pair.receiver.frames == frames; });
                    sum += now(pair) - begin;
                }
                return sum;
            };
            LinkPair alone({lines.quick}, 384 << 10);
            double quick = time(alone);
            LinkPair pair = both(lines, slow_first);
            for (int i = 0; i < 2; ++i) time_of_payload(pair, kPayload);
            EXPECT_LE(time(pair), 1.15 * quick) << name_of(lines, slow_first);
        }
}

}  // namespace
}  // namespace pomona
