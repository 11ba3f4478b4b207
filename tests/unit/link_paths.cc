// tests/unit/link_paths.cc: how a long payload is shared among the paths of a link (next_piece),
// and how much of its messages may be on its way.
// Goal: quick paths take more, a slow one takes nothing that would keep the others waiting, and
// whatever the paces, somebody takes the next piece. Method: pieces are drawn in turns, as
// Link::drain_bulk() does, from paths whose paces the test sets.
#include "btl/base/random.h"
#include "btl/link/paths.h"
#include "btl/link/window.h"

#include <gtest/gtest.h>

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
