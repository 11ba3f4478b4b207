// tests/verbs/agree_test.cc: how two ranks agree on a path by RDMA, or stay with TCP.
// Goal: whatever a device has, grants or refuses, both ends go by RDMA or neither does; what gets
// through is found out before it is used; and a person is told what stands in the way. Method:
// ranks in one process (rdma_world.h), and faults of the fake devices (fabric.h).
#include "btl/base/log.h"
#include "btl/rdma/neighbour.h"
#include "btl/rdma/plan.h"
#include "btl/rdma/survey.h"
#include "btl/rdma/wire.h"
#include "tests/verbs/rdma_world.h"

#include <netinet/in.h>
#include <ostream>
#include <sys/socket.h>

namespace pomona {
namespace {

// Goal: words of any bytes parse or do not, and those of ours come back. Method: changed and cut
// ones.
TEST(Agree, words_parse) {
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

// What a process may say that is not itself: of what it said once a field is another one, which
// parses.
std::vector<std::byte> wrong(std::vector<std::byte> said, Random& random) {
    auto words = rdma::parse_words(said);
    if (!words) return said;
    auto any = [&](uint64_t most) {
        return random.chance(0.5) ? random.below(most) : random.next();
    };
    switch (random.below(6)) {
    case 0: words->device = static_cast<uint8_t>(any(4)); break;
    case 1: words->attempt += static_cast<uint32_t>(random.below(3)) - 1; break;
    case 2:
        for (uint64_t& each : words->frames) each = any(4096);
        break;
    case 3:
        for (auto& each : words->end.pairs)
            (random.chance(0.5) ? each.number : each.first_packet) = static_cast<uint32_t>(any(64));
        break;
    case 4:
        for (auto& each : words->end.pairs)
            each.slots = 1 + static_cast<uint32_t>(random.below(each.slots));
        break;
    default:
        for (auto& each : words->devices) each.gid[15] = static_cast<uint8_t>(random.next());
        break;
    }
    return words->pack();
}

// Goal: whatever words a process says, no message is lost or doubled, nobody hangs, and RDMA is
// used again when it has come to its senses. Method: words that came once, of every kind alike
// often, come again between messages that are checked, most of them wrong in a field.
TEST(Agree, wrong_words_lose_nothing) {
    fabric().calm();
    Ranks world(2);
    std::map<std::byte, std::vector<std::byte>> heard[2];
    for (size_t rank : {0, 1})
        world.ranks[rank].rdma->hears = [&heard, rank](ConstBytes words) {
            heard[rank][words[0]].assign(words.begin(), words.end());
        };
    world.exchange(200);
    ASSERT_TRUE(world.goes_by_rdma());
    int said = 0;
    world.exchange(4000, [&](uint64_t turn) {
        if (turn % 2 != 0) return;
        ++said;
        size_t to = world.random.below(2);
        auto some = std::next(heard[to].begin(),
                              static_cast<ptrdiff_t>(world.random.below(heard[to].size())));
        world.ranks[to].rdma->below->hear(static_cast<int>(1 - to),
                                          wrong(some->second, world.random));
    });
    EXPECT_GT(said, 50);
    // Whom lies kept from it rests before it tries again.
    EXPECT_TRUE(world.goes_by_rdma(90));
}

// Goal: a device's queue pairs suffice for all that are given, none is left without need, and lanes
// come first.
TEST(Agree, queue_pairs_are_shared_out) {
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
    EXPECT_TRUE(world.goes_by_rdma()) << "a path that stands goes on";
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
    uint64_t before = world.by_rdma();
    world.exchange(300);
    EXPECT_EQ(world.by_rdma(), before);
    EXPECT_EQ(near.ups + far.ups, ups);
    fabric().say(GetParam().mend);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_TRUE(world.goes_by_rdma());
}
INSTANTIATE_TEST_SUITE_P(
    All, RdmaObstacles,
    testing::Values(Obstacle{"regions * * off", "regions * * on", "does not register memory"},
                    Obstacle{"regions 1 * off", "regions 1 * on", "does not register memory"},
                    Obstacle{"gids * * off", "gids * * on", "has no address yet"},
                    Obstacle{"gids 1 * off", "gids 1 * on", "has no address yet"},
                    Obstacle{"granted * * 2", "granted * * 4095", "too little room"},
                    Obstacle{"reliable 0 * on", "reliable 0 * off", "gives no queue pair"}));

// Goal: devices that have reliable connections alone are used by these; where only one end's has
// them, TCP is.
TEST(Agree, takes_the_type_of_queue_pair_that_there_is) {
    fabric().calm();
    Ranks world(2);
    fabric().say("reliable * * on");
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    EXPECT_TRUE(world.goes_by_rdma());
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

TEST(Agree, finds_the_longest_message_that_gets_through) {
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
TEST(Agree, finds_the_longest_message_that_does_not_fail) {
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
        EXPECT_TRUE(world.goes_by_rdma());
    }
    fabric().calm();
}

// Goal: where a device carries one long message and stalls at several, shorter ones are used, and
// nothing stalls when it is used. Method: long ones stall from the fourth on.
TEST(Agree, finds_messages_of_which_a_queue_full_gets_through) {
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
TEST(Agree, a_device_that_does_not_open_keeps_nobody_waiting) {
    for (const char* which : {"hang 0 * ibv_open_device", "hang 1 * ibv_open_device"}) {
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
TEST(Agree, devices_are_opened_when_the_peer_is_reached) {
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
TEST(Agree, a_device_grants_less_than_was_asked_for) {
    for (int frames : {60, 20, 8}) {
        fabric().calm();
        Ranks world(2);
        fabric().say("granted 1 * " + std::to_string(frames));
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); })) << frames;
        std::string text = world.ranks[0].rdma->describe(1).text;
        EXPECT_EQ(text.find("messages of") != text.npos, frames >= 17) << frames << ": " << text;
        EXPECT_TRUE(world.goes_by_rdma()) << frames;
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

// Goal: that a cable is there and RDMA is not used is a warning, once, with what stands in the way
// of that cable; where no address tells of one it is none. Method: memory that is not registered;
// addresses that tell nothing.
TEST(Agree, that_a_cable_is_not_used_is_said) {
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
TEST(Agree, devices_and_what_stands_in_their_way) {
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
TEST(Agree, comes_when_the_device_is_ready) {
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

// Goal: the system looks for who has an address. Method: a datagram comes to one of this machine,
// of either kind.
TEST(Agree, neighbours_are_looked_for) {
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

}  // namespace
}  // namespace pomona
