// tests/unit/coll_builder.cc: edges that the Builder infers, and what verify() says of broken sets.
#include "coll/algorithms/algorithms.h"
#include "coll/catalog.h"
#include "coll/verify.h"

#include <gtest/gtest.h>

namespace pomona::coll {
namespace {

Shape pair_shape(int rank) { return {.rank = rank, .size = 2, .element = 1}; }

bool has_edge(const Schedule& schedule, StepId from, StepId to) {
    for (StepId next : schedule.successors(schedule.steps()[from]))
        if (next == to) return true;
    return false;
}

TEST(Builder, orders_steps_that_touch_the_same_bytes) {
    Builder s(pair_shape(0));
    StepId received = s.recv(1, s.result(0, 10));  // writes
    StepId read = s.send(1, s.result(5, 5));       // read after write
    StepId apart = s.send(1, s.input(0, 10));      // elsewhere
    StepId overwrite = s.recv(1, s.result(9, 3));  // write after read, after write
    Schedule schedule = s.finish();
    EXPECT_TRUE(has_edge(schedule, received, read));
    EXPECT_TRUE(has_edge(schedule, read, overwrite));
    EXPECT_TRUE(has_edge(schedule, received, overwrite));
    EXPECT_EQ(schedule.steps()[apart].dependencies, 0u);
    EXPECT_EQ(schedule.roots().size(), 2u);
}

TEST(Builder, leaves_apart_what_only_touches) {
    Builder s(pair_shape(0));
    s.recv(1, s.result(0, 10));
    StepId next = s.recv(1, s.result(10, 10));
    EXPECT_EQ(s.finish().steps()[next].dependencies, 0u);
}

TEST(Builder, numbers_messages_per_peer_and_skips_empty_ones) {
    Shape shape{.rank = 0, .size = 3, .element = 1};
    Builder s(shape);
    StepId a = s.send(1, s.input(0, 1)), b = s.send(2, s.input(0, 1)), c = s.send(1, s.input(0, 1));
    EXPECT_EQ(s.send(1, s.input(0, 0)), kNoStep);
    EXPECT_EQ(s.copy(s.input(0, 4), s.input(0, 4)), kNoStep);
    Schedule schedule = s.finish();
    EXPECT_EQ(schedule.steps()[a].slot, 0);
    EXPECT_EQ(schedule.steps()[b].slot, 0);
    EXPECT_EQ(schedule.steps()[c].slot, 1);
}

TEST(Builder, in_place_input_is_the_result) {
    Shape shape{.rank = 0, .size = 2, .element = 1, .in_place = true};
    Builder s(shape);
    EXPECT_EQ(s.input(3, 4), s.result(3, 4));
    StepId read = s.send(1, s.input(0, 4)), write = s.recv(1, s.result(0, 4));
    EXPECT_TRUE(has_edge(s.finish(), read, write));
}

std::vector<Schedule> two(void (*build)(Builder&, int rank)) {
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 2; ++rank) {
        Builder s(pair_shape(rank));
        build(s, rank);
        schedules.push_back(s.finish());
    }
    return schedules;
}

// Only who does nothing but take copies past the caches.
TEST(Builder, knows_who_only_takes) {
    auto taken = [](Collective collective, const char* name, int rank) {
        Shape shape{
            .collective = collective, .rank = rank, .size = 3, .count = 50000, .element = 4};
        shape.board = true;
        return build_schedule(*find_algorithm(collective, name), shape, {}).taken_bytes();
    };
    EXPECT_EQ(taken(Collective::bcast, "chunks", 0), 0u);
    EXPECT_EQ(taken(Collective::bcast, "chunks", 1), 200000u);
    EXPECT_EQ(taken(Collective::bcast, "binomial", 1), 0u);
    for (int rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(taken(Collective::allreduce, "chunks", rank), 0u);
        EXPECT_EQ(taken(Collective::allgather, "chunks", rank), 0u);
        EXPECT_EQ(taken(Collective::alltoall, "chunks", rank), 0u);
    }
}

TEST(Verify, finds_a_message_without_partner) {
    auto verdict = verify(two([](Builder& s, int rank) {
        if (!rank) s.send(1, s.input(0, 4));
    }));
    EXPECT_NE(verdict.problem.find("has no partner"), std::string::npos) << verdict.problem;
}

TEST(Verify, finds_lengths_that_differ) {
    auto verdict = verify(two([](Builder& s, int rank) {
        if (rank) s.recv(0, s.result(0, 5));
        else s.send(1, s.input(0, 4));
    }));
    EXPECT_EQ(verdict.problem, "Rank 0 sends 4 bytes to rank 1, which expects 5 (slot 0)");
}

TEST(Verify, finds_a_deadlock) {
    auto verdict = verify(two([](Builder& s, int rank) {  // both receive before they send
        StepId heard = s.recv(1 - rank, s.result(0, 4));
        s.after(s.send(1 - rank, s.input(0, 4)), heard);
    }));
    EXPECT_NE(verdict.problem.find("Deadlock"), std::string::npos) << verdict.problem;
}

// Every row of the catalog fits together for many shapes, in as many rounds as its idea says.
TEST(Verify, accepts_the_catalog) {
    for (const Algorithm& row : catalog())
        for (int p : {1, 2, 3, 4, 7, 8, 16, 23, 64})
            for (size_t count : {0u, 1u, 5u, 64u, 1000u}) {
                if (row.collective == Collective::neighbor) continue;
                std::vector<int> nodes;
                for (int r = 0; r < p; ++r) nodes.push_back(r / 3);
                Shape shape{.collective = row.collective,
                            .size = p,
                            .root = p / 2,
                            .count = count,
                            .element = 4,
                            .nodes = nodes};
                Options options{row.uses_segments ? 3 : 1, 3};
                if (!row.legal(Facts(shape, Machine::shared_memory(), options))) continue;
                std::vector<Schedule> schedules;
                for (shape.rank = 0; shape.rank < p; ++shape.rank)
                    schedules.push_back(build_schedule(row, shape, options));
                Verdict verdict = verify(schedules);
                EXPECT_EQ(verdict.problem, "") << row.name << " p=" << p << " count=" << count;
                if (row.name == std::string("dissemination")) {
                    EXPECT_EQ(verdict.rounds, ceil_log2(p));
                }
            }
}

TEST(Verify, counts_what_an_algorithm_sends) {
    const Algorithm& ring = *find_algorithm(Collective::allreduce, "ring");
    Shape shape{.collective = Collective::allreduce, .size = 8, .count = 64, .element = 8};
    std::vector<Schedule> schedules;
    for (shape.rank = 0; shape.rank < 8; ++shape.rank)
        schedules.push_back(build_schedule(ring, shape, {}));
    Verdict verdict = verify(schedules);
    EXPECT_EQ(verdict.messages, 8u * 14);
    EXPECT_EQ(verdict.bytes, 8u * 14 * 64);
    EXPECT_EQ(verdict.rounds, 14);
}

}  // namespace
}  // namespace pomona::coll
