// tests/unit/coll_watch.cc: how much is asked of others by collectives that wait, and who is told
// of one that has failed (coll/watch.h).
#include "coll/watch.h"

#include "coll/builder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace pomona::coll {
namespace {

// Nothing that it is given is over before it is cancelled.
class DeafCarrier final : public Carrier {
public:
    void send(int, int, ConstBytes, Completion&) override {}
    void recv(int, int, Bytes, Completion&) override {}
    void cancel(Completion& done) override {
        Error error{Code::refused, "Cancelled"};
        done.function(&done, &error);
    }
};

class CountedNotes final : public NoteCarrier {
public:
    bool reaches(int) const override { return true; }
    void send(int process, ConstBytes note) override {
        ++sent;
        last[process] = {note.begin(), note.end()};
    }
    size_t sent = 0;
    std::map<int, std::vector<std::byte>> last;  // by process
};

class Pair final : public WatchedGroup {
public:
    explicit Pair(Watch& watch) : WatchedGroup(watch, 1) {}
    int process_of(int member) const override { return member; }
    std::string name_of(int process) const override { return "rank " + std::to_string(process); }
    std::string name() const override { return "a pair"; }
    uint64_t begun() const override { return 0; }
    std::optional<Error> closed() const override { return std::nullopt; }
};

struct HandClock final : Clock {
    Nanoseconds now() override { return time; }
    Nanoseconds time = 1;
};

struct Nobody : Completion {
    Nobody() {
        function = [](Completion*, const Error*) {};
    }
};

// Collectives of rank 0 that wait for a message of the other process, which never comes.
struct Waiting {
    Waiting() {
        builder.recv(1, builder.result(0, 8));
        schedule = builder.finish();
    }
    void begin(uint64_t number) {
        Call& made = calls.emplace_back();
        made.watched.group = &pair;
        made.watched.call = coll::Call::of(schedule, shape);
        made.watched.runner = &made.runner;
        made.watched.id = {1, number};
        pair.begin(made.watched);
        made.runner.prepare(schedule);
        made.runner.start(carrier, {.result = made.result}, made.nobody);
    }
    void end(uint64_t number) {
        calls.remove_if([&](Call& each) {
            return each.watched.id.number == number && pair.end(each.watched, nullptr);
        });
    }

    struct Call {
        Watched watched;
        Runner runner;
        Nobody nobody;
        std::byte result[8];
    };
    Shape shape{.rank = 0, .size = 2, .element = 1};
    Builder builder{shape};
    Schedule schedule;
    HandClock clock;
    CountedNotes notes;
    DeafCarrier carrier;
    Watch watch{0, clock, notes};
    Pair pair{watch};
    std::list<Call> calls;
};

// Goal: thousands of collectives that wait do not drown the others in questions, and each asks in
// the end.
// Method: 3,000 that wait for the other process, which never answers; a look each 20 ms of a clock
// set by hand.
TEST(Watch, asks_a_few_at_a_time_and_all_in_the_end) {
    Waiting all;
    for (uint64_t number = 0; number < 3000; ++number) all.begin(number);
    size_t before = 0;
    for (int look = 0; look < 1000; ++look) {
        all.watch.look();
        EXPECT_LE(all.notes.sent - before, 16u);
        before = all.notes.sent;
        all.clock.time += 20'000'000;
    }
    EXPECT_EQ(all.notes.sent, all.calls.size());  // one open question each
    for (uint64_t number = 0; number < 3000; ++number) all.end(number);
}

// Rank `rank` waits in a collective for the message of the other one of a pair, or to send it one.
struct Member : Completion {
    explicit Member(int rank, bool sends = false)
        : rank(rank), shape{.rank = rank, .size = 2, .element = 1}, builder(shape) {
        if (sends) builder.send(1 - rank, builder.result(0, 8));
        else builder.recv(1 - rank, builder.result(0, 8));
        schedule = builder.finish();
        function = [](Completion* self, const Error* error) {
            auto& own = *static_cast<Member*>(self);
            Error why = *error;
            own.pair.end(own.watched, &why);
        };
        watched.group = &pair;
        watched.call = Call::of(schedule, shape);
        watched.runner = &runner;
        watched.id = {1, 0};
        pair.begin(watched);
        runner.prepare(schedule);
        runner.start(carrier, {.result = result}, *this);
    }
    int rank;
    Shape shape;
    Builder builder;
    Schedule schedule;
    HandClock clock;
    CountedNotes notes;
    DeafCarrier carrier;
    Watch watch{rank, clock, notes};
    Pair pair{watch};
    Watched watched;
    Runner runner;
    std::byte result[8] = {};
};

// Goal: who hears that a process has gone finds that out for itself, also where the two have never
// exchanged anything. Method: rank 1 fails by the end of process 5 and says so to rank 0, which
// sends something to process 5.
TEST(Watch, sends_to_who_is_said_to_be_gone) {
    Member here(0), witness(1);
    witness.runner.fail({Code::peer_gone, "The other process has ended", 5});
    ASSERT_TRUE(witness.notes.last.count(0));
    EXPECT_TRUE(here.notes.last.empty());
    EXPECT_TRUE(here.watch.take(witness.notes.last[0]));
    EXPECT_FALSE(here.runner.running());
    EXPECT_TRUE(here.notes.last.count(5));
}

// Goal: a process answers rightly about each of many collectives, whatever began and ended between
// two questions. Method: the question of another process, with one number after the other.
TEST(Watch, answers_about_many) {
    Member asking(1, true);
    asking.watch.look();
    asking.clock.time += Watch::kAskFirst;
    asking.watch.look();
    ASSERT_TRUE(asking.notes.last.count(0));
    Waiting all;
    // Where a note has the collective's number, and its answer the state (Watch::Note::pack).
    constexpr size_t kNumberAt = 13, kStateAt = 1;
    auto state_of = [&](uint64_t number) {
        auto question = asking.notes.last[0];
        std::memcpy(question.data() + kNumberAt, &number, sizeof number);
        all.notes.last.clear();
        EXPECT_TRUE(all.watch.take(question));
        return all.notes.last.count(1) ? std::to_integer<int>(all.notes.last[1][kStateAt]) : -1;
    };
    enum { not_begun, under_way, failing, over };
    for (uint64_t number = 0; number < 300; ++number) {
        EXPECT_EQ(state_of(number), not_begun) << number;
        all.begin(number);
        EXPECT_EQ(state_of(number), under_way) << number;
    }
    for (uint64_t number = 0; number < 300; number += 2) {
        all.end(number);
        EXPECT_EQ(state_of(number), over) << number;
        EXPECT_EQ(state_of(number + 1), under_way) << number;
    }
    // One begins in the place of one that has ended.
    all.end(1);
    all.begin(300);
    EXPECT_EQ(state_of(1), over);
    EXPECT_EQ(state_of(300), under_way);
    for (uint64_t number = 3; number <= 301; number += 2) all.end(number);
    all.end(300);
    EXPECT_EQ(state_of(300), over);
    EXPECT_EQ(state_of(301), not_begun);
    EXPECT_TRUE(all.calls.empty());
    asking.pair.end(asking.watched, nullptr);
}

// Where it is not a death, nobody is asked who has no part.
TEST(Watch, sends_to_nobody_else) {
    Member here(0), witness(1);
    witness.runner.fail({Code::out_of_memory, "No shared memory", 5});
    EXPECT_TRUE(here.watch.take(witness.notes.last[0]));
    EXPECT_FALSE(here.notes.last.count(5));
}

}  // namespace
}  // namespace pomona::coll
