// tests/unit/tcp_pairs.cc: from which address to which a path is tried, in what order.
// Goal: the k-th paths of both sides begin with the same pair of interfaces and no two with one
// interface, whatever the addresses; every pair that might work is tried, none twice, and those
// that cannot work are not. Method: lists of places by hand and by seed, seen from both sides.
#include "btl/base/random.h"
#include "btl/tcp/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace pomona::tcp {
namespace {

Place at(const char* interface, const char* ip, int prefix,
         InterfaceKind kind = InterfaceKind::wired) {
    return {interface, kind, Ip::parse(ip).value(), prefix, 4000};
}

// "a0 10.0.0.1 > 10.0.0.2"; "" as interface where the system chooses.
std::string text_of(const std::vector<Place>& own, const std::vector<Place>& peer,
                    const Attempt& attempt) {
    const Place* from = attempt.own < 0 ? nullptr : &own[static_cast<size_t>(attempt.own)];
    return (from ? from->interface + " " + from->ip.text() : "") + " > " +
           peer[attempt.peer].ip.text();
}

std::vector<std::string> plan(const std::vector<Place>& own, const std::vector<Place>& peer,
                              AttemptsAsked asked) {
    std::vector<std::string> out;
    for (const Attempt& each : attempts_for(own, peer, asked))
        out.push_back(text_of(own, peer, each));
    return out;
}

using Plan = std::vector<std::string>;

TEST(Pairs, one_network_comes_before_others) {
    std::vector<Place> a = {at("a0", "10.1.0.1", 24), at("a1", "10.2.0.1", 24)};
    std::vector<Place> b = {at("b0", "10.2.0.2", 24), at("b1", "10.1.0.2", 24)};
    EXPECT_EQ(plan(a, b, {true, 0}),
              (Plan{"a0 10.1.0.1 > 10.1.0.2", "a0 10.1.0.1 > 10.2.0.2", "a1 10.2.0.1 > 10.1.0.2",
                    "a1 10.2.0.1 > 10.2.0.2", " > 10.2.0.2", " > 10.1.0.2"}));
    EXPECT_EQ(plan(a, b, {true, 1}).front(), "a1 10.2.0.1 > 10.2.0.2");
    EXPECT_EQ(plan(b, a, {false, 0}).front(), "b1 10.1.0.2 > 10.1.0.1");
    EXPECT_EQ(plan(b, a, {false, 1}).front(), "b0 10.2.0.2 > 10.2.0.1");
}

// Two cables without any configuration: all addresses look alike, and which leads where is found
// out.
TEST(Pairs, link_local_addresses_are_tried_crosswise) {
    std::vector<Place> a = {at("a0", "169.254.1.1", 16), at("a1", "169.254.2.1", 16)};
    std::vector<Place> b = {at("b0", "169.254.1.2", 16), at("b1", "169.254.2.2", 16)};
    EXPECT_EQ(plan(a, b, {true, 0}),
              (Plan{"a0 169.254.1.1 > 169.254.1.2", "a0 169.254.1.1 > 169.254.2.2",
                    "a1 169.254.2.1 > 169.254.1.2", "a1 169.254.2.1 > 169.254.2.2",
                    " > 169.254.1.2", " > 169.254.2.2"}));
    EXPECT_EQ(plan(a, b, {true, 1}).front(), "a1 169.254.2.1 > 169.254.2.2");
}

TEST(Pairs, thunderbolt_first_then_one_network_then_kinds) {
    using Kind = InterfaceKind;
    std::vector<Place> a = {at("tb", "169.254.1.1", 16, Kind::thunderbolt),
                            at("wi", "192.168.1.1", 24, Kind::wifi)};
    std::vector<Place> b = {at("tb", "169.254.1.2", 16, Kind::thunderbolt),
                            at("et", "192.168.1.2", 24, Kind::wired)};
    EXPECT_EQ(plan(a, b, {true, 0}).front(), "tb 169.254.1.1 > 169.254.1.2");
    EXPECT_EQ(plan(a, b, {true, 1}).front(), "wi 192.168.1.1 > 192.168.1.2");
    EXPECT_EQ(reach(a[0], b[0]), Reach::cable);
    EXPECT_EQ(reach(a[1], b[1]), Reach::other_kind);
    EXPECT_EQ(reach(a[0], b[1]), Reach::never);
    EXPECT_EQ(reach(a[1], at("x", "10.0.0.1", 8, Kind::wifi)), Reach::routed);
    EXPECT_EQ(reach(a[1], at("x", "fd00::1", 64, Kind::wifi)), Reach::never);
}

// The ends of two cables each, as in a ring of Macs whose ports are in no bridge: a network that
// both have is tried before what may lead to others.
TEST(Pairs, several_cables_that_do_not_tell_come_after_a_network) {
    using Kind = InterfaceKind;
    std::vector<Place> a = {at("en2", "169.254.1.1", 16, Kind::thunderbolt),
                            at("en3", "169.254.2.1", 16, Kind::thunderbolt),
                            at("en0", "192.168.1.1", 24, Kind::wifi)};
    std::vector<Place> b = {at("en2", "169.254.3.2", 16, Kind::thunderbolt),
                            at("en3", "169.254.4.2", 16, Kind::thunderbolt),
                            at("en0", "192.168.1.2", 24, Kind::wifi)};
    EXPECT_EQ(plan(a, b, {true, 0}).front(), "en0 192.168.1.1 > 192.168.1.2");
    EXPECT_EQ(plan(a, b, {true, 1}).front(), "en2 169.254.1.1 > 169.254.3.2");
    EXPECT_EQ(plan(b, a, {false, 2}).front(), "en3 169.254.4.2 > 169.254.2.1");
    a[0] = at("en2", "10.0.1.1", 24, Kind::thunderbolt);
    b[1] = at("en3", "10.0.1.2", 24, Kind::thunderbolt);
    EXPECT_EQ(plan(a, b, {true, 0}).front(), "en2 10.0.1.1 > 10.0.1.2");
}

TEST(Pairs, link_local_ipv6_goes_by_an_interface_only) {
    std::vector<Place> a = {at("a0", "fe80::1", 64)}, b = {at("b0", "fe80::2", 64)};
    EXPECT_EQ(plan(a, b, {true, 0}), Plan{"a0 fe80::1 > fe80::2"});
}

// docker0 alike at both ends: nothing is tried before all else, and never from it as a pair.
TEST(Pairs, addresses_that_both_have_come_last) {
    std::vector<Place> a = {at("docker0", "172.17.0.1", 16), at("a1", "10.2.0.1", 24)};
    std::vector<Place> b = {at("docker0", "172.17.0.1", 16), at("b1", "10.2.0.2", 24)};
    for (size_t path : {0, 1})
        EXPECT_EQ(plan(a, b, {true, path}).front(), "a1 10.2.0.1 > 10.2.0.2");
    Plan all = plan(a, b, {true, 0});
    EXPECT_EQ(std::count(all.begin(), all.end(), "docker0 172.17.0.1 > 172.17.0.1"), 0);
    EXPECT_EQ(std::count(all.begin(), all.end(), " > 172.17.0.1"), 1);
}

// Two ranks of one machine: no interface carries their packets.
TEST(Pairs, ranks_of_one_machine_leave_it_to_the_system) {
    std::vector<Place> a = {at("e0", "10.1.0.1", 24), at("e1", "10.2.0.1", 24)};
    EXPECT_EQ(plan(a, a, {true, 0}), (Plan{" > 10.1.0.1", " > 10.2.0.1"}));
    std::vector<Place> lo = {at("lo", "127.0.0.1", 8, InterfaceKind::loopback)};
    EXPECT_EQ(plan(lo, lo, {true, 0}), Plan{" > 127.0.0.1"});
    EXPECT_EQ(plan(a, lo, {true, 0}), Plan{});
}

// Nor is anything asked of a network, by which one knows them: an address that both have proves
// nothing alone. A link-local one of IPv6 goes by its own interface, of several with that address
// by that which the peer names.
TEST(Pairs, ranks_of_one_machine_are_known) {
    std::vector<Place> a = {at("e0", "10.1.0.1", 24), at("v0", "fe80::1", 64),
                            at("v1", "fe80::1", 64)};
    std::vector<Place> b = {at("v1", "fe80::1", 64), at("e0", "10.1.0.1", 24)};
    std::vector<Place> c = {at("v0", "fe80::1", 64), at("e0", "10.1.0.2", 24)};
    EXPECT_TRUE(same_machine(a, a));
    EXPECT_TRUE(same_machine(a, b));
    EXPECT_FALSE(same_machine(a, c));
    EXPECT_FALSE(same_machine(a, {}));
    EXPECT_EQ(own_place_of(a, b[0]), &a[2]);
    EXPECT_EQ(own_place_of(a, c[0]), &a[1]);
    EXPECT_EQ(own_place_of(a, at("x", "fe80::1", 64)), &a[1]);
    EXPECT_EQ(own_place_of(a, c[1]), nullptr);
    Plan all = plan(a, c, {true, 0});
    EXPECT_EQ(std::count(all.begin(), all.end(), " > fe80::1"), 1);
}

// A chain: the one in the middle joins the others. Networks that all have join nobody.
TEST(Pairs, who_stands_between) {
    std::vector<Place> a = {at("e0", "10.1.0.1", 24), at("br0", "172.17.0.1", 16)};
    std::vector<Place> b = {at("e0", "10.1.0.2", 24), at("e1", "10.2.0.2", 24),
                            at("br0", "172.17.0.1", 16)};
    std::vector<Place> c = {at("e0", "10.2.0.3", 24), at("br0", "172.17.0.1", 16)};
    EXPECT_TRUE(share_network(a, b));
    EXPECT_FALSE(share_network(a, c));
    EXPECT_TRUE(stands_between(b, {a, c}));
    EXPECT_FALSE(stands_between(a, {b, c}));
    EXPECT_FALSE(stands_between(b, {a, a}));
    EXPECT_FALSE(stands_between(b, {b, a}));
    // Two ranks of one host are one.
    std::vector<Place> other_rank = a;
    for (Place& each : other_rank) each.port = 4001;
    EXPECT_TRUE(share_network(a, other_rank));
}

// Addresses that do not tell: whoever has too few cables for all others needs one between.
TEST(Pairs, who_stands_between_where_addresses_do_not_tell) {
    auto host = [](int number, size_t cables) {
        std::vector<Place> out;
        for (size_t i = 0; i < cables; ++i)
            out.push_back(
                at(("e" + std::to_string(i)).c_str(),
                   ("169.254." + std::to_string(i) + "." + std::to_string(number)).c_str(), 16));
        return out;
    };
    // A chain of three.
    EXPECT_TRUE(stands_between(host(2, 2), {host(1, 1), host(3, 1)}));
    EXPECT_FALSE(stands_between(host(1, 1), {host(2, 2), host(3, 1)}));
    // Each joined to each; a ring of four.
    EXPECT_FALSE(stands_between(host(1, 2), {host(2, 2), host(3, 2)}));
    EXPECT_TRUE(stands_between(host(1, 2), {host(2, 2), host(3, 2), host(4, 2)}));
    // One switch.
    EXPECT_FALSE(stands_between(host(1, 1), {host(2, 1), host(3, 1)}));
    // Beside the cables all share a network, or routers join theirs.
    auto with = [&](int number, size_t cables, const char* ip) {
        std::vector<Place> out = host(number, cables);
        out.push_back(at("w0", ip, 24));
        return out;
    };
    EXPECT_FALSE(
        stands_between(with(2, 2, "10.1.0.2"), {with(1, 1, "10.1.0.1"), with(3, 1, "10.1.0.3")}));
    EXPECT_FALSE(
        stands_between(with(2, 2, "10.2.0.2"), {with(1, 1, "10.1.0.1"), with(3, 1, "10.3.0.3")}));
}

std::vector<Place> random_places(Random& random, int side) {
    std::vector<Place> out;
    size_t interfaces = 1 + random.below(4);
    for (size_t i = 0; i < interfaces; ++i)
        for (size_t n = 0; n <= random.below(3); ++n) {
            Place place{"if" + std::to_string(i),
                        static_cast<InterfaceKind>(random.below(4)),
                        {},
                        24,
                        1000};
            auto net = static_cast<uint8_t>(random.below(3));
            auto host = static_cast<uint8_t>(1 + side + 2 * out.size());
            place.ip.six = random.chance(0.4);
            if (place.ip.six) place.ip.bytes = {uint8_t(random.chance(0.5) ? 0xfe : 0xfd), 0x80};
            else place.ip.bytes = {10, 0, net};
            place.ip.bytes[place.ip.six ? 15 : 3] = host;
            out.push_back(place);
        }
    return out;
}

TEST(Pairs, both_sides_begin_alike_and_try_everything_once) {
    Random random(20261122);
    for (int round = 0; round < 2000; ++round) {
        std::vector<Place> a = random_places(random, 0), b = random_places(random, 1);
        std::set<std::string> owns, peers;
        for (size_t path = 0; path < 4; ++path) {
            auto here = attempts_for(a, b, {true, path}), there = attempts_for(b, a, {false, path});
            if (here.empty() || there.empty()) continue;
            ASSERT_EQ(here[0].own < 0, there[0].own < 0);
            if (here[0].own < 0) continue;
            const std::string &mine = a[static_cast<size_t>(here[0].own)].interface,
                              &theirs = b[here[0].peer].interface;
            EXPECT_EQ(mine, a[there[0].peer].interface) << "round " << round;
            EXPECT_EQ(theirs, b[static_cast<size_t>(there[0].own)].interface);
            // The next path begins with other interfaces, until there are none.
            if (path > 0 && owns.count(mine) + peers.count(theirs) != 0) break;
            owns.insert(mine);
            peers.insert(theirs);
            std::set<std::pair<int, size_t>> tried;
            for (const Attempt& each : here)
                EXPECT_TRUE(tried.insert({each.own, each.peer}).second) << "twice";
            for (size_t i = 0; i < a.size() && here.size() < kAttemptsMost; ++i)
                for (size_t j = 0; j < b.size(); ++j)
                    EXPECT_EQ(tried.count({static_cast<int>(i), j}),
                              reach(a[i], b[j]) != Reach::never ? 1u : 0u);
        }
    }
}

}  // namespace
}  // namespace pomona::tcp
