// tests/sim/communicator_costs.cc: the costs that a communicator's algorithms are chosen by.
// Goal: what counts is where the members are, not where the job's other ranks are. Method:
// simulated ranks on two machines, of which communicators are made; every member must come to the
// same costs.
#include "mpi/object/hints.h"
#include "mpi/runtime/collective_state.h"
#include "tests/sim/program_world.h"

#include <gtest/gtest.h>

#include <mutex>

namespace pomona {
namespace {

coll::Machine machine_among(std::vector<int> members) {
    int own = current_process->job().rank;
    Ref<Group> group(new Group(std::move(members), own));
    Ref<Communicator> made(new Communicator(*current_process, 0x1000, group, {}));
    return collective_state(*made).machine;
}

TEST(CommunicatorCosts, are_those_of_the_members_machines) {
    coll::Machine one = coll::Machine::of({}, true, false),
                  both = coll::Machine::of({}, true, true);
    ASSERT_FALSE(one == both);
    sim::FabricOptions fabric;
    fabric.ranks = 5;
    fabric.nodes = {0, 0, 1, 1, 1};
    std::mutex mutex;
    run(1, {.fabric = fabric}, [&](int rank) {
        std::lock_guard guard(mutex);
        EXPECT_EQ(collective_state(*current_process->world()).machine, both);
        EXPECT_EQ(collective_state(*current_process->self()).machine, one);
        bool first = rank < 2;
        EXPECT_EQ(machine_among(first ? std::vector<int>{0, 1} : std::vector<int>{2, 3, 4}), one);
        if (rank == 0 || rank == 4) { EXPECT_EQ(machine_among({0, 4}), both); }
    });
}

// Goal: pairs of machines count for those communicators alone whose members they join, and rings go
// by them.
// Method: three machines with cables and a fourth whose link to one of them is slow.
TEST(CommunicatorCosts, are_those_of_the_members_pairs) {
    sim::FabricOptions fabric;
    fabric.ranks = 4;
    fabric.nodes = {0, 1, 2, 3};
    coll::Links links;
    links.net = {15000, 2500, 0.25};
    links.pairs = {{1, 2, {40000, 2500, 9}}};
    std::vector<int> cables{0, 1, 3}, slow{1, 2}, nodes{0, 1, 2, 3};
    std::mutex mutex;
    run(1, {.fabric = fabric}, [&](int rank) {
        std::lock_guard guard(mutex);
        current_process->policy->links = links;
        Ref<Group> group(new Group({0, 1, 2, 3}, rank));
        Ref<Communicator> all(new Communicator(*current_process, 0x2000, group, {}));
        coll::Machine own = collective_state(*all).machine;
        coll::Machine same = coll::Machine::among(links, true, nodes);
        // Each has trees of its own, which are alike.
        ASSERT_TRUE(own.by_speed && same.by_speed);
        EXPECT_EQ(*own.by_speed, *same.by_speed);
        own.by_speed = same.by_speed;
        ASSERT_EQ(own.by_island != nullptr, same.by_island != nullptr);
        if (own.by_island) { EXPECT_EQ(*own.by_island, *same.by_island); }
        own.by_island = same.by_island;
        EXPECT_EQ(own, same);
        EXPECT_EQ(collective_state(*all).places, (std::vector<int>{0, 1, 2, 3, 0, 1, 3, 2}));
        if (rank != 2) { EXPECT_EQ(machine_among(cables).far, links.net); }
        if (rank == 1 || rank == 2) { EXPECT_EQ(machine_among(slow).far, links.pairs[0].link); }
    });
}

std::string taken_by(Communicator& comm, size_t bytes) {
    coll::Shape shape{.collective = coll::Collective::allreduce,
                      .rank = comm.rank(),
                      .size = comm.size(),
                      .count = bytes};
    return collective_state(comm).schedule(shape)->algorithm();
}

// Goal: a communicator's hint chooses for it alone, by size, and a changed hint counts from then
// on.
TEST(CommunicatorChoices, are_those_of_its_hint) {
    sim::FabricOptions fabric;
    fabric.ranks = 3;
    std::mutex mutex;
    run(1, {.fabric = fabric}, [&](int rank) {
        std::lock_guard guard(mutex);
        Ref<Group> group(new Group({0, 1, 2}, rank));
        Ref<Communicator> made(new Communicator(*current_process, 0x1000, group, {}));
        made->info = Ref(new Info);
        made->info->set(kChoicesHint, "allreduce: 0..4K rabenseifner, 4K.. tree");
        EXPECT_EQ(taken_by(*made, 8), "rabenseifner");
        EXPECT_EQ(taken_by(*made, 8192), "tree");
        EXPECT_NE(taken_by(*current_process->world(), 8), "rabenseifner");
        made->info->set(kChoicesHint, "allreduce: ring");
        collective_state(*made).hints_changed();
        EXPECT_EQ(taken_by(*made, 8), "ring");
    });
}

}  // namespace
}  // namespace pomona
