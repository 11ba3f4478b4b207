// tests/unit/btl_death.cc: rule 6 of btl/transport.h for every transport: a process that dies is told
// to be gone, once. Method: who has to die is a process of its own, joined to a rank of this one.
#include "tests/unit/transport_world.h"

namespace pomona {
namespace {

class Death : public testing::TestWithParam<std::tuple<const char*, bool>> {};

// Goal: rule 6 for a process that is killed: what it had sent arrives, then its end is told once, to a
// rank that polls and to one that sleeps; then pushes say gone. Rank 0 makes no endpoint before: it only
// receives. Method: see Mortal.
TEST_P(Death, is_told_to_who_only_receives) {
    auto [kind, sleeps] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 5);
    Checker sink;
    mortal.await(world, sink, world.kind.starts_with("tcp"));
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    EXPECT_EQ(sink.arrived, 5u);
    expect_gone(world, sink);
}

// Goal: the same for a rank that sends. Method: a frame goes back before the peer dies; there is room for
// many more.
TEST_P(Death, is_told_to_who_sends) {
    auto [kind, sleeps] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 1);
    Checker sink;
    mortal.await(world, sink, world.kind.starts_with("tcp"));
    for (int turns = 0; sink.arrived == 0 && turns < 50'000'000; ++turns)
        world.nodes[0].transport->poll(sink, 16);
    ASSERT_EQ(sink.arrived, 1u);
    auto& transport = *world.nodes[0].transport;
    Endpoint& endpoint = **transport.connect(1, mortal.address);
    while (!try_push(endpoint, 0, 50, false)) transport.poll(sink, 16);
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

// Goal: a rank of this machine whose end nobody's connection tells of: it had sent nothing, and got nothing.
TEST_P(Death, is_told_of_the_silent) {
    auto [kind, sleeps] = GetParam();
    if (std::string(kind).starts_with("tcp")) GTEST_SKIP() << "no connection, no knowledge";
    World world(kind, 2, false);
    Mortal mortal(world, 0);
    Checker sink;
    mortal.await(world, sink, false);
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

INSTANTIATE_TEST_SUITE_P(Transports, Death,
                         testing::Combine(testing::Values("shm", "shm_bell", "tcp", "tcp_sealed",
                                                          "tcp_link", "tcp_link_of_two"),
                                          testing::Bool()),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param)) +
                                    (std::get<1>(info.param) ? "_asleep" : "_awake");
                         });

}  // namespace
}  // namespace pomona
