// tests/unit/coll_watch.cc: how much is asked of others by collectives that wait (coll/watch.h).
#include "coll/watch.h"

#include "coll/builder.h"

#include <gtest/gtest.h>

#include <list>
#include <set>

namespace pomona::coll {
namespace {

// Nothing that it is given is ever over.
class DeafCarrier final : public Carrier {
public:
    void send(int, int, ConstBytes, Completion&) override {}
    void recv(int, int, Bytes, Completion&) override {}
    void cancel(Completion&) override {}
};

class CountedNotes final : public NoteCarrier {
public:
    bool reaches(int) const override { return true; }
    void send(int, ConstBytes note) override { sent.insert({note.begin(), note.end()}); }
    std::multiset<std::vector<std::byte>> sent;
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
        EXPECT_LE(notes.sent.size() - before, 16u);
        before = notes.sent.size();
        clock.time += 20'000'000;
    }
    EXPECT_EQ(notes.sent.size(), all.size());  // one open question each
    for (Waiting& each : all) pair.end(each.watched, nullptr);
}

}  // namespace
}  // namespace pomona::coll
