// tests/unit/link_paths.cc: how a long payload is shared among the paths of a link (next_piece),
// and how much of its messages may be on its way.
// Goal: quick paths take more, a slow one takes nothing that would keep the others waiting, and
// whatever the paces, somebody takes the next piece. Method: pieces are drawn in turns, as
// Link::drain_bulk() does, from paths whose paces the test sets.
#include "btl/base/random.h"
#include "btl/link/paths.h"
#include "btl/link/window.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pomona::link {
namespace {

constexpr size_t kLongest = 1000;
constexpr size_t kPieces = 20;

// The bytes that each path takes of one payload.
std::vector<size_t> shares(std::vector<Path>& paths, size_t length) {
    std::vector<const Path*> all;
    for (const Path& each : paths) all.push_back(&each);
    std::vector<size_t> taken(paths.size());
    size_t left = length;
    while (left > 0) {
        size_t before = left;
        for (size_t i = 0; i < paths.size() && left > 0; ++i) {
            size_t piece = next_piece(all, paths[i], kLongest, left, left);
            EXPECT_LE(piece, std::min(kLongest, left));
            taken[i] += piece;
            paths[i].pace.queued += piece;
            left -= piece;
        }
        if (left == before) {
            ADD_FAILURE() << "nobody takes the next piece";
            break;
        }
    }
    return taken;
}

std::vector<size_t> shares_of_two(Pace first, Pace second) {
    std::vector<Path> paths(2);
    paths[0].pace = first;
    paths[1].pace = second;
    return shares(paths, kPieces * kLongest);
}

TEST(LinkPaths, share_by_rate) {
    EXPECT_EQ(shares_of_two({1, 0, 0}, {0.001, 0, 0})[1], 0u) << "the first does all before";
    EXPECT_EQ(shares_of_two({1, 1'000'000, 0}, {0.1, 0, 0})[0], 0u) << "much stands before it";
    EXPECT_GT(shares_of_two({1, 0, 0}, {1, 0, 0})[1], 5 * kLongest);
    EXPECT_GT(shares_of_two({1, 0, 0}, {0.5, 0, 0})[1], 5 * kLongest);
    EXPECT_GT(shares_of_two({1, 0, 0}, {0, 0, 0})[1], 5 * kLongest) << "not known yet";
}

TEST(LinkPaths, somebody_always_goes_on) {
    Random random(4);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<Path> paths(1 + random.below(5));
        for (Path& each : paths) {
            if (!random.chance(0.2))
                each.pace.rate = static_cast<double>(1 + random.below(1000)) / 100;
            if (!random.chance(0.3))
                each.pace.queued = random.below(random.chance(0.5) ? 1000 : 1000000);
        }
        size_t length = 1 + random.below(kPieces * kLongest), sum = 0;
        for (size_t each : shares(paths, length)) sum += each;
        ASSERT_EQ(sum, length) << "round " << round;
    }
}

// Short pieces are not worth a second path's turn, but towards the end of a long payload pieces get
// shorter, so that all paths are done at about the same time.
TEST(LinkPaths, pieces_get_shorter_towards_the_end) {
    std::vector<Path> paths(2);
    for (Path& each : paths) each.pace.rate = 1;
    std::vector<const Path*> both{&paths[0], &paths[1]};
    size_t longest = 512 << 10;
    EXPECT_EQ(next_piece(both, paths[0], longest, 8 << 20, 8 << 20), longest);
    EXPECT_EQ(next_piece(both, paths[0], longest, 600 << 10, 600 << 10), size_t{300} << 10);
    EXPECT_EQ(next_piece(both, paths[0], longest, 100 << 10, 100 << 10), size_t{100} << 10);
    EXPECT_EQ(next_piece({&paths[0]}, paths[0], longest, 600 << 10, 600 << 10), longest);
}

Path path_of(const char* kind, double measured, Nanoseconds trip) {
    Path path;
    path.description.kind = kind;
    path.measured = measured;
    path.shortest_trip = trip;
    return path;
}

// The numbers of paths in the order in which messages take them.
std::vector<size_t> order_of(std::vector<Path>& paths, size_t front) {
    std::vector<Path*> ordered;
    for (Path& each : paths) ordered.push_back(&each);
    order_by_time(ordered, front < paths.size() ? &paths[front] : nullptr, 1);
    std::vector<size_t> out;
    for (Path* each : ordered) out.push_back(static_cast<size_t>(each - paths.data()));
    return out;
}

TEST(LinkPaths, messages_take_the_path_by_which_they_are_there_first) {
    using Order = std::vector<size_t>;
    constexpr size_t kNone = 9;
    std::vector<Path> paths;
    auto are = [&](std::vector<Path> given) { paths = std::move(given); };
    are({path_of("vpn", 0, 0), path_of("wifi", 0, 0), path_of("wired", 0, 0),
         path_of("thunderbolt", 0, 0)});
    EXPECT_EQ(order_of(paths, kNone), (Order{3, 2, 1, 0})) << "kinds, before anything is measured";
    are({path_of("wired", 0.0125, 40'000), path_of("wired", 0, 50'000)});
    EXPECT_EQ(order_of(paths, 0), (Order{1, 0})) << "one that may be quicker is tried";
    are({path_of("wired", 0.0125, 40'000), path_of("wired", 0.01, 50'000)});
    EXPECT_EQ(order_of(paths, 0), (Order{0, 1})) << "and left again";
    are({path_of("wired", 1.2, 2'000'000), path_of("wifi", 0.1, 100'000)});
    EXPECT_EQ(order_of(paths, 0), (Order{1, 0})) << "a long way";
    are({path_of("wired", 1.2, 0), path_of("wifi", 0.1, 100'000)});
    EXPECT_EQ(order_of(paths, 0), (Order{0, 1})) << "how long is not known of both";
    are({path_of("wired", 1, 0), path_of("wired", 1.1, 0)});
    EXPECT_EQ(order_of(paths, 0), (Order{0, 1})) << "hardly quicker";
    EXPECT_EQ(order_of(paths, kNone), (Order{1, 0}));
}

TEST(LinkPaths, messages_wait_rather_than_take_a_slow_path) {
    std::vector<Path> paths{path_of("wired", 1, 0), path_of("wired", 0.3, 0),
                            path_of("wired", 0.2, 0)};
    EXPECT_EQ(message_paths({&paths[0], &paths[1], &paths[2]}), 2u);
    EXPECT_EQ(message_paths({&paths[2]}), 1u);
    EXPECT_EQ(message_paths({}), 0u);
}

TEST(LinkPaths, a_slow_path_takes_no_part_and_is_tried_ever_more_rarely) {
    constexpr Nanoseconds kSecond = 1'000'000'000;
    std::vector<Path> paths{path_of("wired", 1, 0), path_of("wired", 0.11, 0),
                            path_of("wired", 0.09, 0), path_of("wired", 0, 0)};
    std::vector<Path*> all;
    for (Path& each : paths) all.push_back(&each);
    EXPECT_EQ(sharers(all), (std::vector<Path*>{&paths[0], &paths[1]}));
    Path& unknown = paths[3];
    EXPECT_EQ(trial_piece(unknown, 1), kTrialPiece);
    unknown.pace.queued = kTrialPiece;
    EXPECT_EQ(trial_piece(unknown, 2), 0u) << "one piece after the other";
    unknown.pace.queued = 0;
    unknown.asked_at = 2;
    EXPECT_EQ(trial_piece(unknown, 3), 0u) << "its question is not answered yet";
    unknown.asked_at = 0;
    unknown.shortest_trip = 40'000;
    unknown.took(60'000, kTrialPiece, 4);
    EXPECT_EQ(unknown.measured, 0) << "an answer takes as long without it";
    EXPECT_EQ(trial_piece(unknown, 5), 2 * kTrialPiece);
    unknown.took(40'000 + 2 * kTrialPiece, 2 * kTrialPiece, 6);
    EXPECT_DOUBLE_EQ(unknown.measured, 1);
    EXPECT_EQ(sharers(all), (std::vector<Path*>{&paths[0], &paths[1], &unknown}));
    Path& slow = paths[2];
    std::vector<double> seconds;
    for (int tenth = 1; tenth < 1500; ++tenth)
        if (Nanoseconds now = tenth * kSecond / 10; trial_piece(slow, now) != 0) {
            seconds.push_back(tenth / 10.0);
            EXPECT_EQ(slow.trial, kTrialPiece);
            slow.measured = 0.09;
            slow.measured_at = now;
        }
    EXPECT_EQ(seconds,
              (std::vector<double>{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4}));
    slow.measured = 0.2;
    EXPECT_EQ(sharers(all), (std::vector<Path*>{&paths[0], &paths[1], &slow, &unknown}));
}

// What a path is only expected to carry leaves no other one out.
TEST(LinkPaths, somebody_always_shares) {
    Random random(7);
    for (int round = 0; round < 5'000; ++round) {
        std::vector<Path> paths;
        std::vector<Path*> all;
        for (uint64_t number = 1 + random.below(4); number > 0; --number) {
            static constexpr const char* kKinds[] = {"thunderbolt", "wired", "wifi", "vpn"};
            double measured = random.chance(0.4) ? 0 : std::pow(10, -4 * random.unit());
            auto trip = static_cast<Nanoseconds>(random.below(20'000'000));
            paths.push_back(path_of(kKinds[random.below(4)], measured, trip));
        }
        for (Path& each : paths) all.push_back(&each);
        order_by_time(all, all.back(), 1);
        ASSERT_FALSE(sharers(all).empty()) << "round " << round;
        ASSERT_GE(message_paths(all), 1u);
    }
}

// Nothing else tells a slow line from a peer that does not read for a while.
TEST(LinkPaths, the_best_rate_of_the_last_seconds_counts) {
    constexpr Nanoseconds kMillisecond = 1'000'000;
    Path path;
    path.note_rate(1, kMillisecond);
    path.note_rate(0.01, 40 * kMillisecond);
    EXPECT_GT(path.measured, 0.95);
    Nanoseconds now = 40 * kMillisecond;
    for (int i = 0; i < 100; ++i) path.note_rate(0.01, now += 50 * kMillisecond);
    EXPECT_NEAR(path.measured, 0.03, 0.01) << "halved each second";
    path.note_rate(0.5, now);
    EXPECT_EQ(path.measured, 0.5) << "at once";
}

// However large its user makes a window, no more is on its way than the other side takes before its
// turn; and what has arrived so, whose memory is free, still counts.
TEST(Window, holds_no_more_than_may_come_before_its_turn) {
    bool grew = false;
    Window of_many(size_t{1} << 30, grew);
    while (of_many.next() <= kAheadMost && of_many.add(Kind::message, 32)) {}
    EXPECT_EQ(of_many.next(), kAheadMost);
    Window of_long(size_t{4} << 20, grew);
    constexpr size_t kLong = 1 << 20;
    std::byte byte{};
    auto add = [&] {
        if (!of_long.add(Kind::message, 32, kLong)) return false;
        of_long.attach(&byte, kLong, 0);
        return true;
    };
    while (of_long.next() * kLong <= kEarlyBytesMost && add()) {
        uint64_t last = of_long.next() - 1;
        if (last > 0) of_long.drop_payload(of_long[last]);
    }
    EXPECT_EQ(of_long.next(), kEarlyBytesMost / kLong - 1);
    of_long.drop_below(2);
    EXPECT_TRUE(add());
}

}  // namespace
}  // namespace pomona::link
