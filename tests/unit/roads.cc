// tests/unit/roads.cc: ways between machines through others (btl/base/roads.h).
// Goal: who goes through whom, and how many messages share a line, is as one counts it by hand.
// Method: chains and stars of a few machines.
#include "btl/base/roads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace pomona {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Roads joined(int machines, std::vector<std::pair<int, int>> cables) {
    std::vector<bool> direct(static_cast<size_t>(machines * machines));
    for (int i = 0; i < machines; ++i) direct[static_cast<size_t>(i * machines + i)] = true;
    for (auto [a, b] : cables)
        direct[static_cast<size_t>(a * machines + b)] =
            direct[static_cast<size_t>(b * machines + a)] = true;
    return {machines, std::move(direct)};
}

TEST(Roads, nobody_goes_through_others_where_all_have_paths) {
    Roads roads = joined(3, {{0, 1}, {1, 2}, {0, 2}});
    EXPECT_FALSE(roads.known());
    std::vector<int> nodes{0, 1, 2};
    EXPECT_EQ(detours_of(roads, nodes), Detours{});
    EXPECT_EQ(detours_of({}, nodes), Detours{});
}

TEST(Roads, a_chain) {
    Roads roads = joined(4, {{0, 1}, {1, 2}, {2, 3}});
    EXPECT_THAT(roads.between(0, 1), IsEmpty());
    EXPECT_THAT(roads.between(0, 3), ElementsAre(1, 2));
    EXPECT_THAT(roads.between(3, 0), ElementsAre(2, 1));
    // From 3 to 0 both others carry one more. Of three messages of each: 0's to 2 and 3 pass 1, as
    // do those of 2 and 3 to 0, each with a third of a message.
    Detours detours = detours_of(roads, std::vector<int>{0, 1, 2, 3});
    EXPECT_EQ(detours.links, 3);
    EXPECT_DOUBLE_EQ(detours.ring, 2);
    EXPECT_DOUBLE_EQ(detours.all, 1 + 4.0 / 3);
    EXPECT_DOUBLE_EQ(detours.next, 1.5);
    // Members on neighbours only.
    EXPECT_FALSE(detours_of(roads, std::vector<int>{1, 1, 2}).any());
    // The one between is no member, and carries what goes both ways.
    Detours ends = detours_of(roads, std::vector<int>{0, 0, 2, 2});
    EXPECT_EQ(ends.links, 2);
    EXPECT_DOUBLE_EQ(ends.all, 4);
    EXPECT_DOUBLE_EQ(ends.ring, 2);
}

TEST(Roads, the_lowest_number_is_taken_and_ways_are_not_longer_than_a_route) {
    Roads square = joined(4, {{0, 1}, {1, 3}, {0, 2}, {2, 3}});
    EXPECT_THAT(square.between(0, 3), ElementsAre(1));
    EXPECT_THAT(square.between(3, 0), ElementsAre(1));
    Roads chain = joined(6, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
    EXPECT_THAT(chain.between(0, 4), ElementsAre(1, 2, 3));
    EXPECT_THAT(chain.between(0, 5), IsEmpty());
}

TEST(Roads, lines_have_numbers) {
    Roads chain(3, {true, true, false, true, true, true, false, true, true},
                {0, 0, 0, 1, 0, 2, 0, 0, 0});
    EXPECT_EQ(chain.line(1, 0), 1);
    EXPECT_EQ(chain.line(1, 2), 2);
    EXPECT_EQ(chain.lines_most(), 3);
    EXPECT_EQ(joined(3, {{0, 1}, {1, 2}}).line(1, 2), 0);
}

TEST(Roads, of_a_mesh_of_cables_are_apart) {
    std::vector<bool> all(9, true);
    auto apart = [&](std::vector<int> lines, std::vector<int> machines = {0, 1, 2}) {
        return Roads(3, all, std::move(lines)).apart(machines);
    };
    EXPECT_TRUE(apart({0, 0, 1, 0, 0, 1, 0, 1, 0}));
    EXPECT_FALSE(apart({0, 0, 1, 0, 0, 1, 0, 0, 0}));   // 2 has one line
    EXPECT_FALSE(apart({0, 0, -1, 0, 0, 1, 0, 1, 0}));  // nobody knows by which 0 reaches 2
    EXPECT_FALSE(apart({0, 0, 1, 0, 0, 1, 0, 1, 0}, {0, 1}));
    EXPECT_FALSE(apart({0, 0, 1, 0, 0, 1, 0, 1, 0}, {0, 1, 3}));
    EXPECT_FALSE(apart({}));
    // A chain, whose ends have no path of their own.
    Roads chain(3, {true, true, false, true, true, true, false, true, true},
                {0, 0, 1, 0, 0, 1, 1, 0, 0});
    EXPECT_FALSE(chain.apart(std::vector<int>{0, 1, 2}));
    EXPECT_EQ(Roads(3, all, {0, 0, -1, 0, 0, 1, 0, 1, 0}).line(0, 2), 0);
}

// One that both use for no other of these machines.
TEST(Roads, lines_of_two_machines_alone) {
    std::vector<int> three{0, 1, 2};
    Roads chain(3, {true, true, false, true, true, true, false, true, true},
                {-1, 0, -1, 0, -1, 1, -1, 0, -1});
    EXPECT_TRUE(chain.own_line(0, 1, three));
    EXPECT_TRUE(chain.own_line(2, 1, three));
    EXPECT_FALSE(chain.own_line(0, 2, three));
    EXPECT_FALSE(chain.own_line(1, 1, three));
    EXPECT_FALSE(chain.own_line(1, 3, three));
    // Machine 1 has one line, which is the other's alone if nobody else of them is reached by it.
    Roads shared(3, {true, true, false, true, true, true, false, true, true},
                 {-1, 0, -1, 0, -1, 0, -1, 0, -1});
    EXPECT_FALSE(shared.own_line(0, 1, three));
    EXPECT_TRUE(shared.own_line(0, 1, std::vector<int>{0, 1}));
}

TEST(Roads, machines_that_nobody_joins_have_a_path_by_routers) {
    Roads roads = joined(4, {{0, 1}, {2, 3}});
    EXPECT_FALSE(roads.known());
}

}  // namespace
}  // namespace pomona
