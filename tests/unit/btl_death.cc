// tests/unit/btl_death.cc: rule 6 of btl/transport.h for every transport: a process that dies is
// told to be gone, once. Method: who has to die is a process of its own, joined to a rank of this
// one.
#include "tests/unit/transport_world.h"

namespace pomona {
namespace {

using Child = Mortal::Child;

class Death : public testing::TestWithParam<std::tuple<const char*, bool>> {};
class DeathBesideChild : public testing::TestWithParam<std::tuple<const char*, bool, Child>> {};
class DeathOfUnmet : public DeathBesideChild {};

bool by_tcp(const std::string& kind) { return kind.starts_with("tcp"); }

// A child made by clone(2) keeps its parent's sockets, so that its system answers for the dead one.
bool hidden(const std::string& kind, Child child) { return by_tcp(kind) && child == Child::cloned; }

// It stays so for as long as the child lives; then the end is told.
void expect_hidden_until_child_ends(World& world, Checker& sink, Mortal& mortal) {
    for (int polls = 0; polls < 200; ++polls) {
        world.nodes[0].transport->poll(sink, 16);
        usleep(1000);
    }
    EXPECT_EQ(sink.told[1], 0) << "more is known than docs/failures.md says";
    mortal.end_child();
}

// Goal: rule 6 for a process that is killed: what it had sent arrives, then its end is told once,
// to a rank that polls and to one that sleeps, also where a child of it goes on; then pushes say
// gone. Rank 0 makes no endpoint before: it only receives. Method: see Mortal.
TEST_P(DeathBesideChild, is_told_to_who_only_receives) {
    auto [kind, sleeps, child] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 5, child);
    Checker sink;
    mortal.await(world, sink, by_tcp(kind));
    mortal.die();
    if (hidden(kind, child)) expect_hidden_until_child_ends(world, sink, mortal);
    ASSERT_TRUE(told(world, sink, sleeps));
    EXPECT_EQ(sink.arrived, 5u);
    expect_gone(world, sink);
}

// Goal: the same for a rank that sends. Method: a frame goes back before the peer dies; there is
// room for many more.
TEST_P(Death, is_told_to_who_sends) {
    auto [kind, sleeps] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 1);
    Checker sink;
    mortal.await(world, sink, by_tcp(kind));
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

// Goal: a rank that connects only after the death is told, too: nobody listens there any more, and
// no child of the dead one does in its place.
TEST_P(DeathOfUnmet, is_told_to_who_connects_later) {
    auto [kind, sleeps, child] = GetParam();
    World world(kind, 2, false);
    Mortal mortal(world, 0, child);
    Checker sink;
    mortal.await(world, sink, false);
    mortal.die();
    auto& transport = *world.nodes[0].transport;
    EXPECT_NE((*transport.connect(1, mortal.address))->push(header_of(0, 0), {}), Push::gone);
    if (hidden(kind, child)) expect_hidden_until_child_ends(world, sink, mortal);
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

// Goal: a rank of this machine whose end nobody's connection tells of: it had sent nothing, and got
// nothing.
TEST_P(Death, is_told_of_the_silent) {
    auto [kind, sleeps] = GetParam();
    if (by_tcp(kind)) GTEST_SKIP() << "no connection, no knowledge";
    World world(kind, 2, false);
    Mortal mortal(world, 0);
    Checker sink;
    mortal.await(world, sink, false);
    mortal.die();
    ASSERT_TRUE(told(world, sink, sleeps));
    expect_gone(world, sink);
}

// Goal: who dies between its claim of a place in an inbox and its frame holds up nobody: what
// others send meanwhile arrives, the death is told, and the place serves again. Method: rank 1 is a
// process that claims by hand and is killed; rank 2 sends more than there are places, to a receiver
// that sleeps or not.
TEST(InboxDeath, of_a_claimant_holds_up_nobody) {
    for (bool sleeps : {false, true}) {
        World world("shm_many", 3, false);
        Mortal mortal(world, 0);
        Checker sink;
        mortal.await(world, sink, false);
        std::string name = "/pomona-" + world.tag + "-0";
        auto segment = Segment::open(name);
        ASSERT_TRUE(segment.ok());
        auto& inbox = *reinterpret_cast<InboxMemory*>(segment->data() + sizeof(SegmentHeader));
        InboxWriter claim(inbox, 1);
        ASSERT_NE(claim.reserve(), nullptr);
        world.make(2);
        Endpoint& endpoint = world.endpoint(2, 0);
        uint64_t sent = 0;
        for (; sent < 10; ++sent) ASSERT_TRUE(try_push(endpoint, sent, 8, false));
        for (int polls = 0; polls < 10; ++polls) world.nodes[0].transport->poll(sink, 16);
        EXPECT_EQ(sink.arrived, sent) << "held up by who lives";
        uint64_t claimed = inbox.slots[0].word.load();
        EXPECT_EQ(InboxMemory::owner_of(claimed), 1);
        mortal.die();
        ASSERT_TRUE(told(world, sink, sleeps));
        EXPECT_EQ(inbox.slots[0].word.load(), InboxMemory::free(1));
        expect_gone(world, sink);
        for (uint32_t i = 0; i + 10 < ManyRanks::earn_frames; ++i, ++sent)
            ASSERT_TRUE(try_push(endpoint, sent, 8, false));
        for (int polls = 0; polls < 10; ++polls) world.nodes[0].transport->poll(sink, 16);
        EXPECT_EQ(sink.arrived, sent);
    }
}

const auto kKinds = testing::Values("shm", "shm_bell", "shm_many", "shm_many_bell", "tcp",
                                    "tcp_sealed", "tcp_link", "tcp_link_of_two");
#ifdef __linux__
const auto kChildren = testing::Values(Child::none, Child::forked, Child::cloned);
#else
const auto kChildren = testing::Values(Child::none, Child::forked);
#endif

template <class Info> std::string name_of(const Info& info) {
    return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "_asleep" : "_awake");
}
template <class Info> std::string name_with_child(const Info& info) {
    Child child = std::get<2>(info.param);
    return name_of(info) + (child == Child::none     ? ""
                            : child == Child::forked ? "_forked"
                                                     : "_cloned");
}
INSTANTIATE_TEST_SUITE_P(Transports, Death, testing::Combine(kKinds, testing::Bool()),
                         [](const auto& info) { return name_of(info); });
INSTANTIATE_TEST_SUITE_P(Transports, DeathOfUnmet,
                         testing::Combine(testing::Values("tcp_link", "tcp_link_of_two"),
                                          testing::Bool(), kChildren),
                         [](const auto& info) { return name_with_child(info); });
INSTANTIATE_TEST_SUITE_P(Transports, DeathBesideChild,
                         testing::Combine(kKinds, testing::Bool(), kChildren),
                         [](const auto& info) { return name_with_child(info); });

}  // namespace
}  // namespace pomona
