// tests/unit/coll_watch.cc: how much is asked of others by collectives that wait, and who is told
// of one that has failed (coll/watch.h).
#include "coll/watch.h"

#include "coll/builder.h"

#include <gtest/gtest.h>

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

// Goal: thousands of collectives that wait do not drown the others in questions, and each asks in
// the end.
// Method: 3,000 that wait for a message of the other process, which never answers; a look each 20
// ms of a clock set by hand.
TEST(Watch, asks_a_few_at_a_time_and_all_in_the_end) {
    Shape shape{.rank = 0, .size = 2, .element = 1};
    Builder builder(shape);
    builder.recv(1, builder.result(0, 8));
    Schedule schedule = builder.finish();
    HandClock clock;
    CountedNotes notes;
    DeafCarrier carrier;
    Watch watch(0, clock, notes);
    Pair pair(watch);
    struct Waiting {
        Watched watched;
        Runner runner;
        Nobody nobody;
        std::byte result[8];
    };
    std::list<Waiting> all;
    for (uint64_t number = 0; number < 3000; ++number) {
        Waiting& each = all.emplace_back();
        each.watched.group = &pair;
        each.watched.call = Call::of(schedule, shape);
        each.watched.runner = &each.runner;
        each.watched.id = {1, number};
        pair.begin(each.watched);
        each.runner.prepare(schedule);
        each.runner.start(carrier, {.result = each.result}, each.nobody);
    }
    size_t before = 0;
    for (int look = 0; look < 1000; ++look) {
        watch.look();
        EXPECT_LE(notes.sent - before, 16u);
        before = notes.sent;
        clock.time += 20'000'000;
    }
    EXPECT_EQ(notes.sent, all.size());  // one open question each
    for (Waiting& each : all) pair.end(each.watched, nullptr);
}

// Rank `rank` waits in a collective for the message of the other one of a pair.
struct Member : Completion {
    explicit Member(int rank)
        : rank(rank), shape{.rank = rank, .size = 2, .element = 1}, builder(shape) {
        builder.recv(1 - rank, builder.result(0, 8));
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

// Where it is not a death, nobody is asked who has no part.
TEST(Watch, sends_to_nobody_else) {
    Member here(0), witness(1);
    witness.runner.fail({Code::out_of_memory, "No shared memory", 5});
    EXPECT_TRUE(here.watch.take(witness.notes.last[0]));
    EXPECT_FALSE(here.notes.last.count(5));
}

}  // namespace
}  // namespace pomona::coll
