// tests/unit/copy_choice.cc: which way large messages take, by what was measured.
#include "mpi/p2p/copy_choice.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

constexpr size_t kBytes = 1 << 20;

// Of the messages after the first trials: how many were read?
int pulls_of(CopyChoice& choice, bool both_ways, int messages = 640) {
    for (int i = 0; i < 4; ++i) choice.pull(kBytes, both_ways);
    int pulls = 0;
    for (int i = 0; i < messages; ++i) pulls += choice.pull(kBytes, both_ways);
    return pulls;
}

// What the engine tells of a message of kBytes / 2 that went that way.
void tell(CopyChoice& choice, bool pulled, Nanoseconds time) {
    constexpr size_t bytes = kBytes / 2;
    choice.took(pulled, bytes, time);
    if (pulled) {
        choice.read(bytes, time);
    } else {
        choice.pushed(bytes, time / 2);
        choice.drained(bytes, time / 2);
    }
}

TEST(CopyChoice, ShortMessagesAreRead) {
    CopyChoice choice;
    choice.took(true, CopyChoice::kMeasuredMin, 1000);
    EXPECT_TRUE(choice.pull(CopyChoice::kMeasuredMin - 1, false));
    EXPECT_TRUE(choice.pull(0, true));
}

TEST(CopyChoice, BothAreTriedFirst) {
    for (bool both_ways : {false, true}) {
        CopyChoice choice;
        for (bool pulled : {true, true, false, false})
            EXPECT_EQ(choice.pull(kBytes, both_ways), pulled);
    }
}

TEST(CopyChoice, OneWayTheQuickerIsTakenAndTheOtherTriedNowAndThen) {
    CopyChoice choice;
    choice.took(true, kBytes, 90'000);
    choice.took(false, kBytes, 60'000);
    int pulls = pulls_of(choice, false);
    EXPECT_GT(pulls, 0);
    EXPECT_LT(pulls, 30);
}

// A core that writes into the ring cannot read from it at the same time.
TEST(CopyChoice, BothWaysTheWorkOfBothCoresCounts) {
    CopyChoice choice;
    choice.took(true, kBytes, 90'000);  // as above: one way, the ring is quicker
    choice.took(false, kBytes, 60'000);
    choice.read(kBytes, 90'000);
    choice.pushed(kBytes, 60'000);
    choice.drained(kBytes, 40'000);
    EXPECT_GT(pulls_of(choice, true), 600);
    for (int i = 0; i < 4; ++i)
        choice.drained(kBytes, 20'000);  // now two copies are less work than one reading
    int pulls = pulls_of(choice, true);
    EXPECT_LT(pulls, 30);
    EXPECT_GT(pulls, 0);
}

TEST(CopyChoice, WhatWasFarBehindIsTriedLessOften) {
    for (bool both_ways : {false, true}) {
        CopyChoice near, far;
        for (CopyChoice* choice : {&near, &far}) {
            Nanoseconds slow = choice == &far ? 200'000 : 46'000;
            choice->took(true, kBytes, 40'000);
            choice->took(false, kBytes, slow);
            choice->read(kBytes, 40'000);
            choice->pushed(kBytes, slow / 2);
            choice->drained(kBytes, slow / 2);
        }
        int streamed_near = 6400 - pulls_of(near, both_ways, 6400);
        int streamed_far = 6400 - pulls_of(far, both_ways, 6400);
        EXPECT_GT(streamed_far, 10);
        EXPECT_LT(streamed_far, 60);
        EXPECT_GT(streamed_near, 150);
    }
}

TEST(CopyChoice, SizesAreJudgedByThemselves) {
    CopyChoice choice;
    for (size_t bytes : {kBytes, kBytes / 16}) {
        bool large = bytes == kBytes;
        choice.took(true, bytes, static_cast<Nanoseconds>(bytes) * (large ? 2 : 1));
        choice.took(false, bytes, static_cast<Nanoseconds>(bytes) * (large ? 1 : 2));
        for (int i = 0; i < 4; ++i) choice.pull(bytes, false);
        EXPECT_EQ(choice.pull(bytes, false), !large);
    }
}

TEST(CopyChoice, AnInterruptionDoesNotDecideForLong) {
    CopyChoice choice;
    choice.took(true, kBytes, 100'000'000);
    choice.took(false, kBytes, 60'000);
    for (int i = 0; i < 3; ++i) choice.took(true, kBytes, 50'000);
    EXPECT_GT(pulls_of(choice, false), 600);
}

// Of the quicker way, too: measured where a message of 128 KiB takes 7 us through the ring, 17 by
// reading, and 160 when the system does something else.
TEST(CopyChoice, OneInterruptionDoesNotChangeTheWay) {
    CopyChoice choice;
    for (int i = 0; i < 4; ++i) choice.pull(kBytes, false);
    choice.took(true, kBytes, 17'000);
    choice.took(false, kBytes, 7'000);
    choice.took(false, kBytes, 160'000);
    EXPECT_FALSE(choice.pull(kBytes, false));
    for (int i = 0; i < 20; ++i) choice.took(false, kBytes, 160'000);  // it has become slow
    EXPECT_TRUE(choice.pull(kBytes, false));
}

// What is learned first may be wrong: memory is colder then than it stays. So the first message of
// a trial is not the only one. Measured: reading 512 KiB took 80 us at first, and 30 afterwards.
TEST(CopyChoice, AFirstMistakeIsMendedSoon) {
    for (bool both_ways : {false, true}) {
        CopyChoice choice;
        int streamed = 0, read_in_a_row = 0;
        for (int i = 0; i < 512; ++i) {
            bool pull = choice.pull(kBytes / 2, both_ways);
            streamed += !pull;
            read_in_a_row = pull ? read_in_a_row + 1 : 0;
            Nanoseconds time = !pull ? 50'000 : read_in_a_row == 1 || i < 4 ? 80'000 : 30'000;
            tell(choice, pull, time);
        }
        EXPECT_LT(streamed, 50);
    }
}

// A program changes what it does: data that nobody wrote again is read from the reader's own cache,
// data that was just written from the writer's.
TEST(CopyChoice, AChangeIsFollowed) {
    for (bool both_ways : {false, true}) {
        CopyChoice choice;
        for (int phase = 0; phase < 6; ++phase) {
            bool written = phase % 2;
            int right = 0;
            for (int i = 0; i < 300; ++i) {
                bool pull = choice.pull(kBytes / 2, both_ways);
                right += pull != written;
                Nanoseconds time = written ? (pull ? 120'000 : 70'000) : pull ? 30'000 : 42'000;
                tell(choice, pull, time);
            }
            EXPECT_GT(right, 270) << "phase " << phase;
        }
    }
}

// A clock that does not move (the simulator's, between events) tells nothing.
TEST(CopyChoice, WithoutTimesMessagesAreRead) {
    CopyChoice choice;
    choice.took(false, kBytes, 0);
    EXPECT_GT(pulls_of(choice, false), 600);
    EXPECT_GT(pulls_of(choice, true), 600);
}

}  // namespace
}  // namespace pomona
