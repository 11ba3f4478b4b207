// tests/unit/meeting.cc: the table by which ranks meet that were started by hand (meeting.h).
// Goal: who is told what, whoever comes, ends and comes again, and in whatever pieces words come.
// Whole jobs are in tests/launch/test_by_hand.py.
#include "pmix/wireup/by_hand.h"
#include "pmix/wireup/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pomona {
namespace {

using testing::ElementsAre;

std::vector<std::byte> text(std::string_view of) {
    ConstBytes bytes = bytes_of(of);
    return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> key(std::string_view of) {
    Writer out;
    out.put_text(of);
    return out.bytes();
}

const char* name_of(MeetingWord word) {
    switch (word) {
    case MeetingWord::all_here: return "all_here";
    case MeetingWord::missing: return "missing";
    case MeetingWord::value: return "value";
    case MeetingWord::failed: return "failed";
    default: return "?";
    }
}

// "1 value: number", in the order of saying.
std::vector<std::string> said(MeetingBoard& board) {
    std::vector<std::string> out;
    for (const MeetingBoard::Said& each : board.take_output()) {
        MeetingFrames frames;
        frames.feed(each.frame);
        auto frame = frames.next();
        if (!frame) return {"no frame"};
        std::string contents(text_of(frame->contents));
        out.push_back(std::to_string(each.rank) + " " + name_of(frame->word) +
                      (contents.empty() ? "" : ": " + contents));
    }
    return out;
}

TEST(Meeting, allHearThatAllAreThere) {
    MeetingBoard board(3);
    EXPECT_THAT(board.missing(), ElementsAre(1, 2));
    EXPECT_TRUE(board.arrive(2));
    EXPECT_THAT(said(board), ElementsAre());
    EXPECT_FALSE(board.complete());
    EXPECT_TRUE(board.arrive(1));
    EXPECT_TRUE(board.complete());
    EXPECT_THAT(said(board), ElementsAre("1 all_here", "2 all_here"));
}

TEST(Meeting, aNumberIsOneProcesss) {
    MeetingBoard board(3);
    EXPECT_TRUE(board.arrive(1));
    for (int rank : {1, 0, 3, -1}) EXPECT_FALSE(board.arrive(rank)) << rank;
    board.leave(1);
    EXPECT_THAT(board.missing(), ElementsAre(1, 2));
    EXPECT_TRUE(board.arrive(1));  // it was started again
}

TEST(Meeting, valuesReachWhoWaits) {
    MeetingBoard board(3);
    board.arrive(1), board.arrive(2), board.take_output();
    EXPECT_TRUE(board.take(1, MeetingWord::get, key("of 2")));
    EXPECT_THAT(said(board), ElementsAre());
    EXPECT_TRUE(board.take(2, MeetingWord::put, meeting_entry("of 2", text("two"))));
    EXPECT_THAT(said(board), ElementsAre("1 value: two"));
    EXPECT_TRUE(board.take(2, MeetingWord::put, meeting_entry("of 2", text("changed"))));
    EXPECT_TRUE(board.take(1, MeetingWord::get, key("of 2")));
    EXPECT_THAT(said(board), ElementsAre("1 value: changed"));
    EXPECT_TRUE(board.take(2, MeetingWord::get, key("of 0")));
    EXPECT_TRUE(board.put("of 0", text("zero")));
    EXPECT_THAT(said(board), ElementsAre("2 value: zero"));
    ASSERT_NE(board.find("of 2"), nullptr);
    EXPECT_EQ(text_of(*board.find("of 2")), "changed");
    EXPECT_EQ(board.find("of 1"), nullptr);
}

TEST(Meeting, whoEndsInTheMiddleIsLost) {
    MeetingBoard board(4);
    for (int rank : {1, 2, 3}) board.arrive(rank);
    board.take_output();
    EXPECT_TRUE(board.take(3, MeetingWord::bye, {}));
    board.leave(3);
    EXPECT_EQ(board.lost(), -1);
    board.leave(1);
    EXPECT_EQ(board.lost(), 1);
    EXPECT_THAT(said(board), ElementsAre("2 failed: rank 1 ended while MPI started"));
    EXPECT_FALSE(board.arrive(1));
    EXPECT_FALSE(board.over());
    board.leave(2);
    EXPECT_TRUE(board.over());
    EXPECT_EQ(board.lost(), 1);  // the cause
}

TEST(Meeting, itIsOverWhenAllHaveSaidBye) {
    MeetingBoard board(3);
    EXPECT_FALSE(board.over());
    board.arrive(1), board.arrive(2);
    for (int rank : {2, 1}) {
        EXPECT_FALSE(board.over());
        EXPECT_TRUE(board.take(rank, MeetingWord::bye, {}));
    }
    EXPECT_TRUE(board.over());
    EXPECT_FALSE(board.take(1, MeetingWord::get, key("late")));
}

TEST(Meeting, whatMayNotBeSaid) {
    MeetingBoard board(3);
    board.arrive(1);
    EXPECT_FALSE(board.take(1, MeetingWord::get, key("early")));  // not all are there
    board.arrive(2);
    EXPECT_FALSE(board.take(1, MeetingWord::get, {}));
    EXPECT_FALSE(board.take(1, MeetingWord::get, meeting_entry("key", text("and more"))));
    EXPECT_FALSE(board.take(1, MeetingWord::put, key("without a value")));
    EXPECT_FALSE(board.take(1, MeetingWord::get, key(std::string(kMeetingKeyMost + 1, 'x'))));
    EXPECT_FALSE(board.take(1, MeetingWord::all_here, {}));
    EXPECT_FALSE(board.take(1, MeetingWord::bye, text("x")));
    EXPECT_FALSE(board.take(1, static_cast<MeetingWord>(200), {}));
    EXPECT_TRUE(board.take(1, MeetingWord::get, key("one")));
    EXPECT_FALSE(board.take(1, MeetingWord::get, key("and another")));
    for (size_t i = 0; i < kMeetingKeysOfRank; ++i)
        EXPECT_TRUE(board.take(2, MeetingWord::put, meeting_entry(std::to_string(i), {})));
    EXPECT_TRUE(board.take(2, MeetingWord::put, meeting_entry("0", {})));
    EXPECT_FALSE(board.take(2, MeetingWord::put, meeting_entry("one more", {})));
}

TEST(Meeting, framesComeInPieces) {
    std::vector<std::byte> all = meeting_frame(MeetingWord::put, text("first"));
    std::vector<std::byte> second = meeting_frame(MeetingWord::bye, {});
    all.insert(all.end(), second.begin(), second.end());
    for (size_t piece = 1; piece <= all.size(); ++piece) {
        MeetingFrames frames;
        std::vector<std::string> seen;
        for (size_t at = 0; at < all.size(); at += piece) {
            frames.feed(ConstBytes(all).subspan(at, std::min(piece, all.size() - at)));
            while (auto frame = frames.next()) seen.emplace_back(text_of(frame->contents));
        }
        EXPECT_THAT(seen, ElementsAre("first", "")) << piece;
        EXPECT_FALSE(frames.failed());
    }
}

TEST(Meeting, framesOfNoLengthThatCanBe) {
    for (uint32_t length :
         {uint32_t{0}, static_cast<uint32_t>(kMeetingFrameMost + 1), ~uint32_t{0}}) {
        Writer out;
        out.put(length);
        MeetingFrames frames;
        frames.feed(out.bytes());
        EXPECT_FALSE(frames.next());
        EXPECT_TRUE(frames.failed()) << length;
    }
}

TEST(Meeting, listsOfRanks) {
    EXPECT_EQ(list_of_ranks({3}), "3");
    EXPECT_EQ(list_of_ranks({1, 2}), "1, 2");
    EXPECT_EQ(list_of_ranks({1, 2, 3, 7, 9, 10}), "1 to 3, 7, 9, 10");
    std::vector<int> odd;
    for (int rank = 1; rank < 100; rank += 2) odd.push_back(rank);
    EXPECT_EQ(list_of_ranks(odd), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 40 more");
}

TEST(ByHand, whatTheVariablesSay) {
    const char* second[] = {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=7", nullptr};
    auto hand = find_origin(second).by_hand;
    ASSERT_TRUE(hand.has_value());
    EXPECT_EQ(hand->rank, 1);
    EXPECT_EQ(hand->size, 2);
    EXPECT_EQ(hand->host, "a");
    EXPECT_EQ(hand->port, 7);
    const char* one[] = {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a", "MASTER_PORT=7", nullptr};
    EXPECT_FALSE(find_origin(one).by_hand);
    EXPECT_FALSE(find_origin(second + 1).by_hand);  // a part of them may mean anything
    EXPECT_EQ(find_origin(second + 1).refusal, "");
}

}  // namespace
}  // namespace pomona
