// tests/verbs/rdma_test.cc: paths by RDMA, as a link uses them.
// Goal: two ranks agree on queue pairs or stay with TCP, never half; every fault moves what was
// under way to TCP and, when it is over, back; the limits of devices are kept. Method: ranks in one
// process (rdma_world.h); numbered payloads of random lengths, which the sinks check.
#include "btl/base/log.h"
#include "btl/rdma/crc32c.h"
#include "btl/rdma/neighbour.h"
#include "btl/rdma/plan.h"
#include "btl/rdma/survey.h"
#include "btl/rdma/wire.h"
#include "tests/verbs/rdma_world.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <netinet/in.h>
#include <ostream>
#include <sys/socket.h>
#include <thread>

namespace pomona {
namespace {

TEST(Rdma, checksums) {
    // RFC 3720, B.4: 32 bytes of zeros, and of ones.
    std::vector<std::byte> bytes(32);
    EXPECT_EQ(rdma::crc32c(bytes), 0x8a9136aau);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    EXPECT_EQ(rdma::crc32c(bytes), 0x62a8ab43u);
    Random random(seed());
    for (size_t i = 0; i < 400; ++i) {
        std::vector<std::byte> any(i < 100 ? i : random.below(20000));
        for (auto& each : any) each = static_cast<std::byte>(random.next());
        EXPECT_EQ(rdma::crc32c(any), rdma::crc32c_plain(any)) << any.size() << " bytes";
        // Copied as well, to anywhere, and nothing beside it is touched.
        size_t before = random.below(70);
        std::vector<std::byte> wanted(before + any.size() + 70, std::byte{0xa5}), copy = wanted;
        std::copy(any.begin(), any.end(), wanted.begin() + static_cast<ptrdiff_t>(before));
        EXPECT_EQ(rdma::crc32c_copied(copy.data() + before, any), rdma::crc32c_plain(any));
        EXPECT_EQ(copy, wanted) << any.size() << " bytes behind " << before;
    }
}

// Goal: words of any bytes parse or do not, and those of ours come back. Method: changed and cut
// ones.
TEST(Rdma, words_parse) {
    rdma::Words known{rdma::Word::devices, 0};
    known.devices = {{"rdma_en2", {1, 2, 3}}, {"rdma_en3", {}}};
    auto known_back = rdma::parse_words(known.pack());
    ASSERT_TRUE(known_back);
    ASSERT_EQ(known_back->devices.size(), 2u);
    EXPECT_EQ(known_back->devices[0].gid, known.devices[0].gid);
    EXPECT_EQ(known_back->devices[1].name, "rdma_en3");
    rdma::Words words{rdma::Word::accept, 7};
    words.end = {
        "rdma_en2", {1, 2, 3}, 5, 4, true, verbs::kRc, {{77, 1, 4096, 64}, {78, 2, 131072, 16}}};
    auto bytes = words.pack();
    auto back = rdma::parse_words(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->end.device, "rdma_en2");
    EXPECT_EQ(back->end.pairs[1].stride, 131072u);
    EXPECT_EQ(back->end.type, verbs::kRc);
    Random random(seed());
    for (size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_FALSE(rdma::parse_words(ConstBytes(bytes).first(cut)));
    for (int i = 0; i < 2000; ++i) {
        auto changed = bytes;
        changed[random.below(changed.size())] = static_cast<std::byte>(random.next());
        (void)rdma::parse_words(changed);
        changed = known.pack();
        changed[random.below(changed.size())] = static_cast<std::byte>(random.next());
        (void)rdma::parse_words(changed);
    }
}

// Goal: a device's queue pairs suffice for all that are given, none is left without need, and lanes
// come first.
TEST(Rdma, queue_pairs_are_shared_out) {
    using rdma::queue_pairs_of;
    for (int here = 1; here <= 20; ++here)
        for (int there = 1; there <= 20; ++there) {
            int sum = 0, most = rdma::kLimits.queue_pairs;
            for (int i = 0; i < here; ++i)
                for (int j = 0; j < there; ++j) {
                    int given = queue_pairs_of({i, here}, {j, there});
                    EXPECT_GE(given, i == j && i < most ? 1 : 0) << here << " " << there;
                    EXPECT_LE(given, 2);
                    sum += given;
                }
            EXPECT_LE(sum, most) << here << " and " << there;
            EXPECT_GE(sum, std::min(here * there, most)) << here << " and " << there;
        }
    EXPECT_EQ(queue_pairs_of({0, 1}, {0, 1}), 2);
    EXPECT_EQ(queue_pairs_of({1, 2}, {0, 2}), 2);
    EXPECT_EQ(queue_pairs_of({7, 8}, {0, 8}), 1) << "the end of a ring";
    EXPECT_EQ(queue_pairs_of({0, 8}, {7, 8}), 1) << "the end of a ring";
    EXPECT_EQ(queue_pairs_of({2, 8}, {3, 8}), 0);
    EXPECT_EQ(queue_pairs_of({99, 100}, {99, 100}), 0);
    EXPECT_EQ(queue_pairs_of({0, 8}, {0, 8}, true), 2) << "what owners use for others";
    EXPECT_EQ(queue_pairs_of({0, 3}, {0, 3}, true), 2);
    EXPECT_EQ(queue_pairs_of({7, 8}, {7, 8}, true), 1);
}

TEST(Rdma, is_agreed_on_and_preferred) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    uint64_t before = world.by_rdma();
    auto by_tcp = [&] { return world.ranks[0].tcp->frames + world.ranks[1].tcp->frames; };
    uint64_t before_by_tcp = by_tcp();
    world.exchange(2000);
    // Where the machine is busy some may take the other way.
    EXPECT_GT(world.by_rdma() - before, 2 * (by_tcp() - before_by_tcp));
}

// Goal: each fault, in the middle of messages, costs none; and RDMA is used again when it is over.
class RdmaFaults : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(RdmaFaults, move_messages_to_TCP_and_back) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(2000, [&](uint64_t turn) {
        if (turn == 20) fabric().say(GetParam().first);
        if (turn == 100) fabric().say("drop * * 0");
    });
    world.exchange(300);
    fabric().say(GetParam().second);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    // A path that was silent is used when it has answered.
    uint64_t before = world.by_rdma();
    EXPECT_TRUE(world.until([&] {
        world.exchange(50);
        return world.by_rdma() > before + 100;
    }));
}
INSTANTIATE_TEST_SUITE_P(All, RdmaFaults,
                         testing::Values(std::pair{"pull 0 *", "plug 0 *"},
                                         std::pair{"port 1 * down", "port 1 * up"},
                                         std::pair{"lose 0 *", "find 0 *"},
                                         std::pair{"lose 1 *", "find 1 *"},
                                         std::pair{"stall * * on", "stall * * off"},
                                         std::pair{"stall 0 * on", "stall 0 * off"},
                                         std::pair{"drop * * 1000", "drop * * 0"},
                                         std::pair{"drop 1 * 1000", "drop 1 * 0"},
                                         std::pair{"corrupt * * 1000", "corrupt * * 0"}));

// Goal: where a path cannot be made anew in mid-job, messages stay with TCP, the reason is told,
// and RDMA comes back when what was in the way has gone. Method: faults of making a path, which a
// path that stands does not feel; then its cable is pulled and plugged in among messages.
struct Obstacle {
    const char *fault, *mend, *words;
    friend void PrintTo(const Obstacle& each, std::ostream* out) { *out << each.fault; }
};
class RdmaObstacles : public testing::TestWithParam<Obstacle> {};
TEST_P(RdmaObstacles, keep_messages_with_TCP) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    Counting &near = *world.ranks[0].rdma, &far = *world.ranks[1].rdma;
    fabric().say(GetParam().fault);
    uint64_t before = world.by_rdma();
    EXPECT_TRUE(world.until([&] {
        world.exchange(50);
        return world.by_rdma() > before + 100;
    })) << "a path that stands goes on";
    int ups = near.ups + far.ups;
    world.exchange(2000, [&](uint64_t turn) {
        if (turn == 20) fabric().say("pull * *");
        if (turn == 100) fabric().say("plug * *");
    });
    auto told = [&](Counting& rdma, int peer) {
        return rdma.describe(peer).text.find(GetParam().words) != std::string::npos;
    };
    EXPECT_TRUE(world.until([&] { return told(near, 1) || told(far, 0); }))
        << near.describe(1).text << "; " << far.describe(0).text;
    before = world.by_rdma();
    world.exchange(300);
    EXPECT_EQ(world.by_rdma(), before);
    EXPECT_EQ(near.ups + far.ups, ups);
    fabric().say(GetParam().mend);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_TRUE(world.until([&] {
        world.exchange(50);
        return world.by_rdma() > before + 100;
    }));
}
INSTANTIATE_TEST_SUITE_P(
    All, RdmaObstacles,
    testing::Values(Obstacle{"regions * * off", "regions * * on", "does not register memory"},
                    Obstacle{"regions 1 * off", "regions 1 * on", "does not register memory"},
                    Obstacle{"gids * * off", "gids * * on", "has no address yet"},
                    Obstacle{"gids 1 * off", "gids 1 * on", "has no address yet"},
                    Obstacle{"granted * * 2", "granted * * 4095", "too little room"},
                    Obstacle{"reliable 0 * on", "reliable 0 * off", "gives no queue pair"}));

class RdmaLosses : public testing::TestWithParam<const char*> {};
TEST_P(RdmaLosses, are_repaired) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    fabric().say(GetParam());
    world.exchange(1500);
    fabric().calm();
    EXPECT_GT(world.by_rdma(), 500u);
}
INSTANTIATE_TEST_SUITE_P(All, RdmaLosses,
                         testing::Values("drop * * 50", "duplicate * * 50", "reorder * * 100",
                                         "corrupt * * 50", "hold * * on"));

// The other cable, when the first one's port is down.
TEST(Rdma, takes_another_cable) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    std::string first = world.ranks[0].rdma->describe(1).text;
    const char* name = first.find("rdma_en2") != std::string::npos ? "rdma_en2" : "rdma_en3";
    int ups = world.ranks[0].rdma->ups;
    fabric().say(std::string("pull 0 ") + name);
    ASSERT_TRUE(world.until([&] { return world.ranks[0].rdma->ups > ups && world.joined(0, 1); }));
    EXPECT_EQ(world.ranks[0].rdma->describe(1).text.find(name), std::string::npos);
    world.exchange(200);
}

// Goal: devices that have reliable connections alone are used by these; where only one end's has
// them, TCP is.
TEST(Rdma, takes_the_type_of_queue_pair_that_there_is) {
    fabric().calm();
    Ranks world(2);
    fabric().say("reliable * * on");
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    uint64_t before = world.by_rdma();
    EXPECT_TRUE(world.until([&] {
        world.exchange(50);
        return world.by_rdma() > before + 100;
    }));
    EXPECT_NE(world.ranks[0].rdma->describe(1).text.find("reliable"), std::string::npos);
    fabric().say("pull * *");
    ASSERT_TRUE(world.until([&] { return !world.joined(0, 1); }));
    fabric().say("reliable 0 * off");
    fabric().say("plug * *");
    EXPECT_TRUE(world.until([&] {
        world.exchange(10);
        return world.ranks[1].rdma->describe(0).text.find("rdma_queue_pairs") != std::string::npos;
    }));
    EXPECT_FALSE(world.joined(0, 1));
    fabric().calm();
}

TEST(Rdma, finds_the_longest_message_that_gets_through) {
    fabric().calm();
    Ranks world(2);
    fabric().say("message_most * * 16384");
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_NE(world.ranks[0].rdma->describe(1).text.find("messages of 16384"), std::string::npos);
    world.exchange(300);
    fabric().say("message_most * * 4096");
    fabric().say("pull * *");
    ASSERT_TRUE(world.until([&] { return !world.joined(0, 1); }));
    fabric().say("plug * *");
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_EQ(world.ranks[0].rdma->describe(1).text.find("messages of"), std::string::npos);
    world.exchange(300);
}

// Goal: where a device ends what is too long for it with an error, shorter messages are tried as
// well.
TEST(Rdma, finds_the_longest_message_that_does_not_fail) {
    for (const char* most : {"16384", "4096"}) {
        fabric().calm();
        Ranks world(2);
        fabric().say("too_long * * failed");
        fabric().say(std::string("message_most * * ") + most);
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); })) << most;
        std::string text = world.ranks[0].rdma->describe(1).text;
        if (most == std::string("4096")) EXPECT_EQ(text.find("messages of"), text.npos) << text;
        else EXPECT_NE(text.find("messages of 16384"), text.npos) << text;
        uint64_t before = world.by_rdma();
        EXPECT_TRUE(world.until([&] {
            world.exchange(50);
            return world.by_rdma() > before + 100;
        }));
    }
    fabric().calm();
}

// Goal: where a device carries one long message and stalls at several, shorter ones are used, and
// nothing stalls when it is used. Method: long ones stall from the fourth on.
TEST(Rdma, finds_messages_of_which_a_queue_full_gets_through) {
    fabric().calm();
    Params params;
    params.rdma_message = 16384;
    Ranks world(2, -1, 1, nullptr, params);
    fabric().say("deep * * 3");
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    std::string text = world.ranks[0].rdma->describe(1).text;
    EXPECT_EQ(text.find("messages of"), text.npos) << text;
    int losses = world.ranks[0].rdma->losses;
    uint64_t before = world.by_rdma();
    world.exchange(1000);
    EXPECT_GT(world.by_rdma() - before, 500u);
    EXPECT_EQ(world.ranks[0].rdma->losses, losses);
    fabric().calm();
}

// Goal: a driver that does not answer keeps nobody waiting, and its device is used when it has.
TEST(Rdma, a_device_that_does_not_open_keeps_nobody_waiting) {
    for (const char* which : {"hang 0 * on", "hang 1 * on"}) {
        fabric().calm();
        fabric().say(which);
        Ranks world(2);
        fabric().say(which);
        world.exchange(300);
        EXPECT_EQ(world.ranks[0].rdma->ups, 0);
        fabric().say("hang * * off");
        EXPECT_TRUE(world.until([&] { return world.joined(0, 1); })) << which;
        world.exchange(100);
    }
    fabric().calm();
}

// Goal: no device is opened before the two processes are joined by TCP.
TEST(Rdma, devices_are_opened_when_the_peer_is_reached) {
    fabric().calm();
    EXPECT_EQ(fabric().open_devices(), 0);
    Ranks world(2);
    EXPECT_EQ(fabric().open_devices(), 0);
    world.exchange(50);
    EXPECT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_GT(fabric().open_devices(), 0);
}

// Goal: a queue pair with less room than was asked for is never given more; one without room for a
// message is left out, and without a first one there is no path.
TEST(Rdma, a_device_grants_less_than_was_asked_for) {
    for (int frames : {60, 20, 8}) {
        fabric().calm();
        Ranks world(2);
        fabric().say("granted 1 * " + std::to_string(frames));
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); })) << frames;
        std::string text = world.ranks[0].rdma->describe(1).text;
        EXPECT_EQ(text.find("messages of") != text.npos, frames >= 17) << frames << ": " << text;
        uint64_t before = world.by_rdma();
        EXPECT_TRUE(world.until([&] {
            world.exchange(50);
            return world.by_rdma() > before + 100;
        })) << frames;
    }
    fabric().calm();
    Ranks world(2);
    fabric().say("granted 1 * 2");
    EXPECT_TRUE(world.until([&] {
        world.exchange(10);
        return world.ranks[0].rdma->describe(1).text.find("too little room") != std::string::npos ||
               world.ranks[1].rdma->describe(0).text.find("too little room") != std::string::npos;
    }));
    EXPECT_FALSE(world.joined(0, 1));
    fabric().calm();
}

// Goal: a device that takes nothing back costs no message, is asked for nothing in a wrong order,
// and a person is told; what it can still write to stays. Method: such a device, whose cable
// is pulled, or which vanishes.
TEST(Rdma, a_device_takes_nothing_back) {
    for (auto [fault, mend] :
         {std::pair{"pull * *", "plug * *"}, std::pair{"lose 0 *", "find 0 *"}}) {
        Ranks world(2);
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        int ups = world.ranks[0].rdma->ups, before = fabric().held_by(getpid());
        long warnings = log_warning_count();
        fabric().say("stuck 0 * on");
        fabric().say(fault);
        ASSERT_TRUE(world.until([&] { return !world.joined(0, 1) && !world.joined(1, 0); }));
        world.exchange(300);
        EXPECT_GT(log_warning_count(), warnings);
        int kept = fabric().held_by(getpid()) - world.held;
        EXPECT_EQ(2 * kept, before - world.held) << "what one of the two ends had";
        world.held += kept;
        fabric().say("stuck * * off");
        fabric().say(mend);
        EXPECT_TRUE(
            world.until([&] { return world.ranks[0].rdma->ups > ups && world.joined(0, 1); }));
        world.exchange(300);
    }
}

// Goal: that a cable is there and RDMA is not used is a warning, once, with what stands in the way
// of that cable; where no address tells of one it is none. Method: memory that is not registered;
// addresses that tell nothing.
TEST(Rdma, that_a_cable_is_not_used_is_said) {
    for (const char* gids : {"gids * * on", "gids * * self"}) {
        fabric().calm();
        fabric().say("regions * * off");
        fabric().say(gids);
        Ranks world(2);
        fabric().say("regions * * off");
        fabric().say(gids);
        long before = log_warning_count();
        testing::internal::CaptureStderr();
        world.exchange(50);
        auto rounds = [&] { return world.ranks[0].rdma->losses; };
        EXPECT_TRUE(world.until([&] { return rounds() >= 4; }));
        std::string said = testing::internal::GetCapturedStderr();
        bool told = gids == std::string("gids * * on");
        EXPECT_EQ(log_warning_count() - before, told ? 1 : 0) << said;
        EXPECT_EQ(said.find("0.rdma_en2 does not register memory") != said.npos, told) << said;
    }
    fabric().calm();
}

// Goal: a person is told what stands in the way of each device, and the mend.
TEST(Rdma, devices_and_what_stands_in_their_way) {
    fabric().calm();
    auto seen = [](const std::string& name) {
        for (const rdma::DeviceSeen& each : rdma::survey().devices)
            if (each.name == name) return each;
        return rdma::DeviceSeen{};
    };
    EXPECT_EQ(seen("1.rdma_en2").state, "active");
    EXPECT_EQ(seen("1.rdma_en2").why, "");
    EXPECT_EQ(seen("1.rdma_en2").address, "10.77.0.2");
    EXPECT_EQ(seen("1.rdma_en2").addresses.size(), 2u);
    struct {
        const char *fault, *state, *words;
    } const kFaults[] = {
        {"port 1 rdma_en2 down", "down", "the port of 1.rdma_en2 is down; look at its cable"},
        {"gids 1 rdma_en2 off", "active", "no address yet; take its interface out"},
        {"lose 1 rdma_en2", "", ""}};
    for (const auto& each : kFaults) {
        fabric().say(each.fault);
        auto device = seen("1.rdma_en2");
        EXPECT_EQ(device.state, each.state);
        EXPECT_NE((device.why + "; " + device.mend).find(each.words), std::string::npos)
            << device.why << "; " << device.mend;
        EXPECT_EQ(seen("0.rdma_en2").why, "") << each.fault;
        fabric().calm();
    }
}

// Without an address, or a port, at first.
TEST(Rdma, comes_when_the_device_is_ready) {
    for (const char* fault : {"gids 1 * off", "port 0 * down", "regions 1 * off"}) {
        fabric().calm();
        fabric().say(fault);
        Ranks world(2);
        fabric().say(fault);
        world.exchange(200);
        EXPECT_TRUE(world.until([&] {
            return world.ranks[0].rdma->describe(1).text.find("rdma_en") != std::string::npos;
        })) << "the reason names the device";
        EXPECT_EQ(world.ranks[0].rdma->ups, 0);
        fabric().calm();
        EXPECT_TRUE(world.until([&] { return world.joined(0, 1); })) << fault;
        world.exchange(100);
    }
}

// Goal: while TCP's connection is made anew messages go by RDMA. Method: it is ended again and
// again.
TEST(Rdma, goes_on_while_TCP_breaks) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    int losses = world.ranks[0].rdma->losses;
    world.exchange(2000, [&](uint64_t turn) {
        if (turn % 100 != 50) return;
        if (Endpoint* path = world.ranks[0].tcp->path(1))
            path->abandon({Code::peer_gone, "It is ended by the test", 1});
    });
    EXPECT_GT(world.ranks[0].tcp->losses, 2);
    EXPECT_EQ(world.ranks[0].rdma->losses, losses);
}

// Where a rank is a process of its own.
void tell_address(int end, const std::vector<std::byte>& address) {
    uint32_t length = static_cast<uint32_t>(address.size());
    (void)!write(end, &length, sizeof length);
    (void)!write(end, address.data(), length);
}
std::vector<std::byte> hear_address(int end) {
    uint32_t length = 0;
    (void)!read(end, &length, sizeof length);
    std::vector<std::byte> address(length);
    (void)!read(end, address.data(), length);
    return address;
}

// Goal: a process that is killed is gone, though RDMA says nothing. Method: a rank as a process.
TEST(Rdma, a_killed_process_is_gone) {
    int to_child[2], to_parent[2];
    ASSERT_EQ(pipe(to_child), 0);
    ASSERT_EQ(pipe(to_parent), 0);
    fabric().calm();
    pid_t child = fork();
    if (child == 0) {
        Ranks world(2, 1);
        tell_address(to_parent[1], world.ranks[1].address);
        world.ranks[0].address = hear_address(to_child[0]);
        for (uint64_t number = 0;; world.poll())
            if (number < 100 && try_push(world.endpoint(1, 0), number, 100, false)) ++number;
    }
    Ranks world(2, 0);
    tell_address(to_child[1], world.ranks[0].address);
    world.ranks[1].address = hear_address(to_parent[0]);
    auto& own = world.ranks[0];
    EXPECT_TRUE(world.until([&] { return own.rdma->up_now[1] && own.sink.arrived == 100; }));
    kill(child, SIGKILL);
    siginfo_t dead;
    waitid(P_PID, static_cast<id_t>(child), &dead, WEXITED | WNOWAIT);
    EXPECT_TRUE(world.until([&] { return own.sink.told[1] == 1; }, 5));
    waitpid(child, nullptr, 0);
    for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
}

// Goal: a process that is asked to end by a signal ends by that one, and soon, and has given its
// queue pairs and regions back. Method: a rank as a process, which polls, or is busy; the devices
// say whose they are.
TEST(Rdma, a_process_that_is_asked_to_end_leaves_nothing_in_its_devices) {
    struct Case {
        int number;
        bool busy;
    };
    for (auto [number, busy] :
         {Case{SIGTERM, false}, Case{SIGTERM, true}, Case{SIGINT, false}, Case{SIGHUP, false}}) {
        fabric().calm();
        int to_child[2], to_parent[2];
        ASSERT_EQ(pipe(to_child), 0);
        ASSERT_EQ(pipe(to_parent), 0);
        pid_t child = fork();
        if (child == 0) {
            std::signal(number, SIG_DFL);  // a background process may have it ignored
            Ranks world(2, 1);
            tell_address(to_parent[1], world.ranks[1].address);
            world.ranks[0].address = hear_address(to_child[0]);
            while (!world.ranks[1].rdma->up_now[0] || world.ranks[1].sink.arrived < 10)
                world.poll();
            (void)!write(to_parent[1], "", 1);
            while (true)
                if (!busy) world.poll();
        }
        Ranks world(2, 0);
        tell_address(to_child[1], world.ranks[0].address);
        world.ranks[1].address = hear_address(to_parent[0]);
        fcntl(to_parent[0], F_SETFL, O_NONBLOCK);
        char byte;
        bool ready = false, ended = false;
        EXPECT_TRUE(world.until([&] {
            if (world.sent[0] < 20 && try_push(world.endpoint(0, 1), world.sent[0], 100, false))
                ++world.sent[0];
            ready = ready || read(to_parent[0], &byte, 1) == 1;
            return ready;
        }));
        EXPECT_GT(fabric().held_by(child), 0);
        Nanoseconds begin = world.clock.now();
        kill(child, number);
        int status = 0;
        EXPECT_TRUE(world.until(
            [&] { return ended || (ended = waitpid(child, &status, WNOHANG) == child); }));
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
        EXPECT_LT(world.clock.now() - begin, 10'000'000'000);
        EXPECT_EQ(fabric().held_by(child), 0) << (busy ? "busy" : "in MPI");
        for (int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(end);
    }
}

// Goal: who asks for room is promised none that messages on their way will take, which would be
// lost. Method: rank 1 hears the question by TCP while it does not look at what came by RDMA.
TEST(Rdma, room_is_not_promised_twice) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(50);
    Ranks::Rank& far = world.ranks[1];
    uint64_t lost = fabric().without_receive(), goal = far.sink.arrived, begun = world.sent[0];
    far.rdma->unread = true;
    Nanoseconds end = world.clock.now() + 300'000'000;
    while (world.clock.now() < end) {
        if (world.sent[0] < begun + 2000 &&
            try_push(world.endpoint(0, 1), world.sent[0], 3000, false))
            ++world.sent[0];
        world.poll();
    }
    goal += world.sent[0] - begun;
    far.rdma->unread = false;
    EXPECT_TRUE(world.until([&] { return far.sink.arrived >= goal; }));
    EXPECT_EQ(fabric().without_receive(), lost);
}

// Goal: a rank that sleeps for long is woken by a message, and by credit. Method: both ends poll
// until rank 1 may sleep for long; it then sleeps, for 20 s at the most, and is not polled before.
TEST(Rdma, a_sleeper_is_woken) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    world.exchange(50);
    auto falls_asleep = [&](Ranks::Rank& rank) {
        return world.until([&] {
            bool armed = rank.transport->arm();
            bool deep = armed && rank.rdma->sleep_max() >= 100'000'000;
            if (armed && !deep) rank.transport->disarm();
            return deep;
        });
    };
    auto sleep = [&](Ranks::Rank& rank) {
        Nanoseconds begin = world.clock.now();
        rank.sleeper->sleep(20'000'000'000);
        EXPECT_LT(world.clock.now() - begin, 19'000'000'000);
        rank.transport->disarm();
    };
    Ranks::Rank &near = world.ranks[0], &far = world.ranks[1];
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(falls_asleep(far));
        uint64_t before = far.rdma->frames, arrived = far.sink.arrived;
        ASSERT_TRUE(try_push(world.endpoint(0, 1), world.sent[0], 100, false));
        ++world.sent[0];
        sleep(far);
        EXPECT_TRUE(world.until([&] { return far.sink.arrived > arrived; }));
        EXPECT_GT(far.rdma->frames, before);
    }
    // A sender that has no credit left.
    uint64_t goal = far.sink.arrived, begun = world.sent[0];
    while (try_push(world.endpoint(0, 1), world.sent[0], 3000, false)) ++world.sent[0];
    goal += world.sent[0] - begun;
    Nanoseconds end = world.clock.now() + 20'000'000'000;
    while (far.sink.arrived < goal && world.clock.now() < end) {
        near.transport->poll(near.sink, 16);
        if (near.transport->arm()) {
            if (near.rdma->sleep_max() >= 100'000'000) {
                // It is told of credit when the other one takes messages in.
                for (int i = 0; i < 100; ++i) far.transport->poll(far.sink, 16);
                near.sleeper->sleep(100'000'000);
            }
            near.transport->disarm();
        }
        far.transport->poll(far.sink, 1);
    }
    EXPECT_EQ(far.sink.arrived, goal);
}

// Goal: the system looks for who has an address. Method: a datagram comes to one of this machine,
// of either kind.
TEST(Rdma, neighbours_are_looked_for) {
    auto is_found = [](int family, const rdma::GidBytes& gid) {
        int file = socket(family, SOCK_DGRAM, 0);
        sockaddr_storage own{};
        own.ss_family = static_cast<sa_family_t>(family);
        socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        if (bind(file, reinterpret_cast<sockaddr*>(&own), length) != 0) return close(file), true;
        getsockname(file, reinterpret_cast<sockaddr*>(&own), &length);
        uint16_t port = family == AF_INET ? reinterpret_cast<sockaddr_in&>(own).sin_port
                                          : reinterpret_cast<sockaddr_in6&>(own).sin6_port;
        rdma::look_for_neighbour("rdma_lo", gid, ntohs(port));
        char byte;
        bool came = recv(file, &byte, 1, MSG_DONTWAIT) == 0;
        close(file);
        return came;
    };
    rdma::GidBytes loopback{};
    loopback[15] = 1;
    EXPECT_TRUE(is_found(AF_INET6, loopback));
    rdma::GidBytes mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    EXPECT_TRUE(is_found(AF_INET, mapped));
}

// Goal: a rank that mostly sleeps leaves a pulled cable at the first wakings after it looks at
// ports again, and not after so many of them, since each sleep is longer than the last. Method:
// wakings are counted.
TEST(Rdma, who_sleeps_sees_that_a_cable_was_pulled) {
    Ranks world(2);
    world.exchange(50);
    for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
        fabric().say("pull * *");
        for (auto& each : world.ranks) {
            int losses = each.rdma->losses;
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
            for (int waking = 0; waking < 3; ++waking) {
                if (each.transport->arm()) each.transport->disarm();
                each.transport->poll(each.sink, 16);
            }
            EXPECT_GT(each.rdma->losses, losses) << "round " << round;
        }
        fabric().say("plug * *");
    }
}

// Only looking at it and sleeping take time.
struct SteppedClock final : Clock {
    Nanoseconds now() override { return time += 100; }
    Nanoseconds time = 1'000'000'000;
};

// Two ranks that sleep when a poll has found nothing, as long as they may, or until TCP brings
// something.
struct Sleepers {
    explicit Sleepers(Ranks& world, SteppedClock& clock) : world(world), clock(clock) {}
    // The one whose time has come looks.
    void step() {
        size_t which = wake_at[1] < wake_at[0];
        Ranks::Rank& own = world.ranks[which];
        clock.time = std::max(clock.time, wake_at[which]);
        if (std::exchange(armed[which], false)) own.transport->disarm();
        bool found = own.transport->poll(own.sink, 16) > 0;
        armed[which] = !found && own.transport->arm();
        Nanoseconds sleep = armed[which] ? own.transport->sleep_max() : 0;
        wake_at[which] = clock.time + std::clamp<Nanoseconds>(sleep, 1'000, 1'000'000'000);
        size_t other = 1 - which;
        if (!armed[other]) return;
        world.ranks[other].transport->disarm();
        armed[other] = world.ranks[other].transport->arm();
        if (!armed[other]) wake_at[other] = clock.time;
    }
    // Outside MPI for so long.
    void compute(size_t which, Nanoseconds time) {
        if (std::exchange(armed[which], false)) world.ranks[which].transport->disarm();
        wake_at[which] = clock.time + time;
    }
    // A message from one to the other: how long it takes.
    Nanoseconds send(int from) {
        auto& to = world.ranks[static_cast<size_t>(1 - from)].sink;
        uint64_t goal = to.arrived + 1;
        Nanoseconds begin = clock.time;
        EXPECT_TRUE(try_push(world.endpoint(from, 1 - from), world.sent[from]++, 8, false));
        while (to.arrived < goal && clock.time < begin + 10'000'000'000) step();
        EXPECT_EQ(to.arrived, goal);
        return clock.time - begin;
    }
    Ranks& world;
    SteppedClock& clock;
    Nanoseconds wake_at[2] = {0, 0};
    bool armed[2] = {false, false};
};

// Goal: what is sent when a cable was pulled arrives by TCP within 50 ms. Method: cuts at any time
// among messages and pauses, by a clock that no other process's work moves.
TEST(Rdma, a_pulled_cable_is_left_within_50_ms) {
    SteppedClock clock;
    Ranks world(2, -1, 1, &clock);
    Sleepers both(world, clock);
    Random random(seed());
    world.exchange(50);
    std::vector<Nanoseconds> gaps;
    for (int cut = 0; cut < 100; ++cut) {
        Nanoseconds end = clock.time + 20'000'000'000;
        for (; !world.joined(0, 1) && clock.time < end; clock.time += 20'000) world.poll();
        ASSERT_TRUE(world.joined(0, 1));
        both.wake_at[0] = both.wake_at[1] = clock.time;
        for (uint64_t n = random.below(200) + 20; n > 0; --n) {
            both.send(static_cast<int>(n % 2));
            Nanoseconds pause = clock.time + static_cast<Nanoseconds>(random.below(400'000));
            while (random.chance(0.1) && clock.time < pause) both.step();
            // One of them computes: what is measured of the path gets bad.
            if (n > 4 && random.chance(0.2))
                both.compute(n % 2, static_cast<Nanoseconds>(random.below(60'000'000)));
        }
        fabric().say("pull * *");
        gaps.push_back(both.send(cut % 2));
        fabric().say("plug * *");
    }
    std::sort(gaps.begin(), gaps.end());
    std::printf("from the cut to the first message by TCP: median %.1f ms, at most %.1f ms\n",
                static_cast<double>(gaps[gaps.size() / 2]) / 1e6,
                static_cast<double>(gaps.back()) / 1e6);
    EXPECT_LT(gaps.back(), 50'000'000);
    fabric().calm();
}

// Goal: a short message costs no look at the clock, which would take a good part of its time.
// Method: looks are counted while two ranks send in turns; some belong to what is done from time
// to time.
TEST(Rdma, short_messages_hardly_look_at_the_clock) {
    SteppedClock clock;
    Ranks world(2, -1, 1, &clock);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(1, 0); }));
    constexpr int kMessages = 2000;
    Endpoint* endpoints[2] = {&world.endpoint(0, 1), &world.endpoint(1, 0)};
    uint64_t by_rdma = world.ranks[0].rdma->frames + world.ranks[1].rdma->frames;
    Nanoseconds begin = clock.time;
    for (int n = 0; n < kMessages; ++n) {
        Ranks::Rank& to = world.ranks[static_cast<size_t>(1 - n % 2)];
        uint64_t goal = to.sink.arrived + 1;
        ASSERT_TRUE(try_push(*endpoints[n % 2], world.sent[n % 2]++, 8, false));
        for (int turn = 0; turn < 1000 && to.sink.arrived < goal; ++turn)
            to.transport->poll(to.sink, 16);
        ASSERT_EQ(to.sink.arrived, goal);
    }
    by_rdma = world.ranks[0].rdma->frames + world.ranks[1].rdma->frames - by_rdma;
    EXPECT_GE(by_rdma, kMessages);
    double looks = static_cast<double>((clock.time - begin) / 100) / kMessages;
    std::printf("%.2f looks at the clock for a message\n", looks);
    EXPECT_LT(looks, 0.5);
}

TEST(Rdma, the_end_of_a_process_is_told) {
    Ranks world(3);
    world.exchange(50);
    world.endpoint(0, 2);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1) && world.joined(0, 2); }));
    world.ranks[1].transport.reset();
    EXPECT_TRUE(world.until([&] { return world.ranks[0].sink.told[1] == 1; }));
    EXPECT_EQ(world.ranks[0].sink.told[2], 0);
}

}  // namespace
}  // namespace pomona
