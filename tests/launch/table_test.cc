// tests/launch/table_test.cc: mpirun's table of who waits for whom (pmix/launch/table.h).
// Goal: a deadlock is named when there is one, and never else. Method: the waits of small jobs, as
// ranks would tell of them, at chosen times.
#include "pmix/launch/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pomona {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr Nanoseconds kSecond = 1'000'000'000;

Waiting receive(std::vector<int> from, bool any = false) {
    Waiting waiting;
    waiting.operation = "MPI_Recv";
    waiting.communicator = "MPI_COMM_WORLD";
    for (int rank : from) waiting.await(rank, Need::message);
    waiting.any = any;
    return waiting;
}

// In collective operation `number` of a communicator; this rank has begun all of those up to it.
Waiting barrier(uint64_t number, std::vector<int> awaited) {
    Waiting waiting = receive(std::move(awaited));
    waiting.operation = "MPI_Barrier";
    waiting.collective = true;
    waiting.context = 7;
    waiting.number = number;
    waiting.begun = {{7, number + 1}};
    return waiting;
}

// All began to wait at 1 s, and have looked again at 3 s.
void tell(WaitTable& table, int rank, Waiting waiting) {
    table.waiting(rank, 1, {kSecond, 3 * kSecond}, std::move(waiting));
}

std::vector<TableProcess> processes(int count) {
    std::vector<TableProcess> out;
    for (int rank = 0; rank < count; ++rank)
        out.push_back({rank, 100 + rank, "here", TableProcess::State::running});
    return out;
}

// Goal: who waits in a call without a name is told of in a sentence all the same.
TEST(WaitTable, a_call_without_a_name) {
    WaitTable table;
    Waiting unnamed = receive({});
    unnamed.operation.clear();
    tell(table, 0, unnamed);
    EXPECT_THAT(table.lines(processes(1), 4 * kSecond),
                ElementsAre(HasSubstr("has been in an MPI call on MPI_COMM_WORLD for 3.0 s")));
}

TEST(WaitTable, two_that_receive_from_each_other) {
    WaitTable table;
    tell(table, 0, receive({1}));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    tell(table, 1, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 1));
    EXPECT_EQ(table.deadlock_text({0, 1}),
              "ranks 0 and 1 wait for each other: rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1, "
              "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 0");
    table.waited(1, 1, 4 * kSecond);
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    auto lines = table.lines(processes(2), 5 * kSecond);
    EXPECT_THAT(lines,
                ElementsAre("rank 0 (pid 100 on here) has been in MPI_Recv on MPI_COMM_WORLD for "
                            "4.0 s, waiting for rank 1",
                            "rank 1 (pid 101 on here) is not waiting in MPI; its last wait ended "
                            "1.0 s ago"));
}

TEST(WaitTable, what_was_sent_before_the_other_looked_again_may_be_on_the_way) {
    WaitTable table;
    tell(table, 0, receive({1}));
    table.waiting(1, 1, {3 * kSecond, 4 * kSecond}, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond),
                IsEmpty());  // rank 0 has not looked since rank 1 waits
    table.waiting(0, 1, {kSecond, 4 * kSecond}, receive({1}));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 1));
}

TEST(WaitTable, any_source_waits_for_the_last_of_them) {
    WaitTable table;
    tell(table, 0, receive({1, 2}, true));
    tell(table, 1, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());  // rank 2 may send
    tell(table, 2, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 1));
}

TEST(WaitTable, members_of_one_collective_go_on_by_themselves) {
    WaitTable table;
    tell(table, 0, barrier(3, {1}));
    tell(table, 1, barrier(3, {2}));
    tell(table, 2, barrier(3, {0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    // Until one is elsewhere, and waits for a member: rank 0 by way of rank 1.
    Waiting other = receive({0});
    other.begun = {{7, 3}};
    tell(table, 2, other);
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 2));
    // One that has begun it without waiting for it takes part whatever it does.
    other.begun = {{7, 4}};
    tell(table, 2, other);
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    other.begun = {};
    other.all_begun = false;  // who knows
    tell(table, 2, other);
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
}

TEST(WaitTable, what_something_else_may_end_is_no_deadlock) {
    WaitTable table;
    Waiting transfer = receive({1});
    transfer.releases = true;
    tell(table, 0, transfer);
    tell(table, 1, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
}

Waiting by_threads(Waiting waiting, uint32_t threads, bool idle = false) {
    waiting.threads = threads;
    waiting.idle_threads = idle;
    return waiting;
}

TEST(WaitTable, all_threads_of_a_rank_must_wait) {
    WaitTable table;
    tell(table, 1, receive({0}));
    tell(table, 0, by_threads(receive({1}), 2));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    table.waiting(0, 2, {kSecond, 3 * kSecond}, by_threads(receive({2}), 2));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty()) << "rank 2 may come";
    tell(table, 2, receive({1}));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 1));
    EXPECT_THAT(table.deadlock_text({0, 1}),
                HasSubstr("for rank 1 (one of its 2 threads, which all wait), "));
    table.waited(0, 1, 4 * kSecond);  // this thread does something else now
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
    tell(table, 0, by_threads(receive({1}), 2));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 1));
    table.waiting(0, 2, {kSecond, 3 * kSecond}, by_threads(receive({2}), 3));  // a third one calls
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty());
}

TEST(WaitTable, a_thread_that_has_not_called_yet_is_named) {
    WaitTable table;
    tell(table, 0, receive({1}));
    tell(table, 1, by_threads(receive({0}), 1, true));
    EXPECT_EQ(
        table.deadlock_text(table.deadlock(4 * kSecond)),
        "ranks 0 and 1 wait for each other, unless a thread that has not called MPI yet does so: "
        "rank 0 in MPI_Recv on MPI_COMM_WORLD for rank 1, "
        "rank 1 in MPI_Recv on MPI_COMM_WORLD for rank 0");
}

// Goal: members of a collective who wait in it hold each other up in no way, whatever other threads
// of theirs do.
TEST(WaitTable, a_collective_of_ranks_with_threads) {
    WaitTable table;
    tell(table, 0, by_threads(barrier(3, {1, 2}), 2));
    tell(table, 1, by_threads(barrier(3, {0, 2}), 2));
    for (int rank : {0, 1})
        table.waiting(rank, 2, {kSecond, 3 * kSecond}, by_threads(receive({2}), 2));
    EXPECT_THAT(table.deadlock(4 * kSecond), IsEmpty()) << "rank 2 may come";
    tell(table, 2, receive({0}));
    EXPECT_THAT(table.deadlock(4 * kSecond), ElementsAre(0, 2));
}

TEST(WaitTable, explains_by_whom_the_others_are_held) {
    WaitTable table;
    tell(table, 0, receive({1}));
    tell(table, 1, receive({2}));
    EXPECT_EQ(
        table.explain(0, 1, processes(3), 4 * kSecond),
        "rank 1 has been in MPI_Recv on MPI_COMM_WORLD for 3.0 s, waiting for rank 2; rank 2 is not "
        "waiting in MPI");
    tell(table, 2, receive({0}));
    EXPECT_THAT(table.explain(0, 1, processes(3), 4 * kSecond),
                HasSubstr("this is a deadlock: ranks 0, 1"));
    EXPECT_EQ(table.explain(0, 9, processes(3), 4 * kSecond), "");
}

TEST(WaitTable, explains_a_rank_by_the_circle_that_it_stands_in) {
    WaitTable table;
    tell(table, 0, receive({0}));
    tell(table, 1, receive({1}));
    EXPECT_THAT(table.explain(1, 1, processes(2), 4 * kSecond),
                StartsWith("this is a deadlock: rank 1 waits for itself: rank 1 in MPI_Recv"));
}

TEST(WaitTable, json_quotes_what_needs_it) {
    WaitTable table;
    Waiting odd = receive({1});
    odd.communicator = "my \"comm\"\n";
    tell(table, 0, odd);
    std::string json = table.json(processes(2), 4 * kSecond);
    EXPECT_THAT(json, HasSubstr(R"("communicator": "my \"comm\"\u000a")"));
    EXPECT_THAT(json, HasSubstr(R"("waits_for": [1])"));
    EXPECT_THAT(json, HasSubstr(R"("state": "not waiting")"));
    // Letters of Latin-1, the beginning of a character and half a pair are no UTF-8.
    odd.communicator = "\xe9t\xe9 \xc3\xa9 \xf0\x9f\x98\x80 \xed\xa0\x80 \xe2\x82";
    tell(table, 0, odd);
    std::string none = "\xef\xbf\xbd";
    EXPECT_THAT(table.json(processes(2), 4 * kSecond),
                HasSubstr("\"" + none + "t" + none + " \xc3\xa9 \xf0\x9f\x98\x80 " + none + none +
                          none + " " + none + none + "\""));
}

TEST(Waiting, comes_back_from_its_bytes_and_not_from_fewer) {
    Waiting waiting = barrier(5, {1, 2});
    waiting.detail = "from rank 1";
    Writer out;
    waiting.write(out);
    ConstBytes bytes = out.bytes();
    Waiting back;
    Reader whole(bytes);
    EXPECT_TRUE(back.read(whole));
    EXPECT_EQ(back, waiting);
    for (size_t length = 0; length < bytes.size(); ++length) {
        Reader part(bytes.first(length));
        EXPECT_FALSE(back.read(part)) << length;
    }
}

TEST(Waiting, words) {
    EXPECT_EQ(ranks_text({3}), "rank 3");
    EXPECT_EQ(ranks_text({0, 1, 2}), "ranks 0, 1 and 2");
    EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6 and 3 more");
    Waiting waiting = receive({1, 2});
    waiting.await(3, Need::arrival);
    EXPECT_EQ(needs_text(waiting, {{1, "TCP"}, {2, "TCP"}}),
              "nothing has come from ranks 1 and 2 (TCP); rank 3 has not come");
    EXPECT_EQ(needs_text(receive({1, 2}, true)), "nothing has come from any of ranks 1 and 2");
    EXPECT_EQ(seconds_text(1.57), "1.5 s");
    EXPECT_EQ(seconds_text(61), "61 s");
}

}  // namespace
}  // namespace pomona
