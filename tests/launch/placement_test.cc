// tests/launch/placement_test.cc: which rank runs on which host, and the words between mpirun and
// agents.
#include "pmix/launch/agent_words.h"
#include "pmix/launch/placement.h"
#include "pmix/launch/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace pomona {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PlaceHost named(const char* name, int slots = 0, int max_slots = 0) {
    return {name, slots, max_slots, false, 4, 8};
}
PlaceHost in_file(const char* name, int slots = 0, int max_slots = 0) {
    return {name, slots, max_slots, true, 4, 8};
}

TEST(placement, hosts_without_slots_share_evenly) {
    EXPECT_THAT(place_ranks(2, {named("a"), named("b")}, {}).host_of, ElementsAre(0, 1));
    EXPECT_THAT(place_ranks(5, {named("a"), named("b")}, {}).host_of, ElementsAre(0, 0, 0, 1, 1));
    EXPECT_THAT(place_ranks(1, {named("a"), named("b")}, {}).host_of, ElementsAre(0));
}

TEST(placement, slots_are_filled_in_turn) {
    EXPECT_THAT(place_ranks(4, {named("a", 3), named("b", 2)}, {}).host_of,
                ElementsAre(0, 0, 0, 1));
    // One more than there are: the first host takes it, and ranks of a host stay together.
    EXPECT_THAT(place_ranks(6, {named("a", 3), named("b", 2)}, {}).host_of,
                ElementsAre(0, 0, 0, 0, 1, 1));
    EXPECT_THAT(place_ranks(10, {in_file("a"), in_file("b")}, {}).host_of,
                ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 1));
}

TEST(placement, by_node_goes_around) {
    PlaceWish wish;
    wish.map = MapBy::node;
    EXPECT_THAT(place_ranks(5, {named("a"), named("b")}, wish).host_of, ElementsAre(0, 1, 0, 1, 0));
    EXPECT_THAT(place_ranks(5, {named("a", 1), named("b", 3)}, wish).host_of,
                ElementsAre(0, 1, 1, 1, 0));
}

TEST(placement, so_many_on_each) {
    PlaceWish wish;
    wish.per_node = 2;
    EXPECT_EQ(default_count({named("a"), named("b")}, wish), 4);
    EXPECT_THAT(place_ranks(3, {named("a", 8), named("b", 8)}, wish).host_of, ElementsAre(0, 0, 1));
    EXPECT_THAT(place_ranks(5, {named("a"), named("b")}, wish).mistake, HasSubstr("need 3 hosts"));
}

TEST(placement, programs_on_hosts_of_their_own) {
    auto place = [](const std::vector<std::vector<HostSlots>>& own, const PlaceWish& wish = {}) {
        PlaceHost a = named("a"), b = named("b", 2);
        a.also = {"a"};
        b.also = {"me@b"};
        return place_programs({1, 3}, own, {a, b}, wish);
    };
    EXPECT_THAT(place({{{"a"}}, {{"b", 2}}}).host_of, ElementsAre(0, 1, 1, 1));
    EXPECT_THAT(place({{{"b"}}, {{"a"}}}).host_of, ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(place({{{"b"}}, {}}).host_of, ElementsAre(1, 0, 1, 1));  // all of the job's
    EXPECT_THAT(place({{{"a"}}, {{"a", 1}, {"b", 2}}}).host_of, ElementsAre(0, 0, 1, 1));
    PlaceWish wish;
    wish.rank_hosts = {{0, "b"}};
    EXPECT_THAT(place({{{"a"}}, {{"b", 2}}}, wish).host_of, ElementsAre(1, 1, 1, 1));
    wish.refuse_oversubscribe = true;
    EXPECT_THAT(place({{{"a"}}, {{"b", 2}}}, wish).mistake, HasSubstr("2 slots"));
}

TEST(placement, limits) {
    EXPECT_THAT(place_ranks(4, {in_file("a", 1, 2), in_file("b", 1, 2)}, {}).host_of,
                ElementsAre(0, 0, 1, 1));
    EXPECT_THAT(place_ranks(5, {in_file("a", 1, 2), in_file("b", 1, 2)}, {}).mistake,
                HasSubstr("max_slots"));
    PlaceWish wish;
    wish.map = MapBy::node;
    EXPECT_THAT(place_ranks(5, {in_file("a", 1, 2), in_file("b", 1, 2)}, wish).mistake,
                HasSubstr("max_slots"));
    wish.refuse_oversubscribe = true;
    EXPECT_THAT(place_ranks(3, {named("a", 1), named("b", 1)}, wish).mistake, HasSubstr("2 slots"));
}

TEST(placement, how_many_when_nothing_is_said) {
    EXPECT_EQ(default_count({named("a"), named("b")}, {}), 2);  // as --host a,b elsewhere
    EXPECT_EQ(default_count({named("a", 3), named("b")}, {}), 4);
    EXPECT_EQ(default_count({in_file("a"), in_file("b", 2)}, {}), 6);  // cores, and slots
    EXPECT_EQ(default_count({named("a")}, {}), 8);
}

TEST(placement, a_rankfile_names_hosts) {
    PlaceWish wish;
    wish.rank_hosts = {{0, "b"}, {1, "a"}, {2, "b"}};
    EXPECT_EQ(default_count({in_file("a"), in_file("b")}, wish), 3);
    EXPECT_THAT(place_ranks(3, {in_file("a"), in_file("b")}, wish).host_of, ElementsAre(1, 0, 1));
}

TEST(placement, limits_hold_however_ranks_are_placed) {
    PlaceWish wish;
    wish.per_node = 3;
    std::vector<PlaceHost> hosts = {in_file("a", 1, 2), in_file("b", 5)};
    EXPECT_EQ(default_count(hosts, wish), 5);
    EXPECT_THAT(place_ranks(5, hosts, wish).host_of, ElementsAre(0, 0, 1, 1, 1));
    EXPECT_THAT(place_ranks(6, hosts, wish).mistake, HasSubstr("max_slots"));
    wish.map = MapBy::node;
    EXPECT_THAT(place_ranks(5, hosts, wish).host_of, ElementsAre(0, 1, 1, 1, 0));
    wish.per_node = 2;
    EXPECT_THAT(place_ranks(4, {named("a", 1), named("b", 3)}, wish).host_of,
                ElementsAre(0, 1, 1, 0));
    // Of fewer than slots, max_slots counts.
    EXPECT_EQ(default_count({in_file("a", 4, 2), in_file("b", 1)}, {}), 3);
    // Where the job has slots enough, but one host has not.
    PlaceWish careful;
    careful.refuse_oversubscribe = true;
    careful.per_node = 3;
    EXPECT_THAT(place_ranks(6, {named("a", 1), named("b", 5)}, careful).mistake,
                HasSubstr("on host a, which has 1 slots"));
    PlaceWish by_file;
    by_file.rank_hosts = {{0, "a"}, {1, "a"}, {2, "a"}};
    EXPECT_THAT(place_ranks(3, hosts, by_file).mistake, HasSubstr("max_slots there is 2"));
    for (PlaceHost& host : hosts) host.also = {host.name};
    EXPECT_THAT(place_programs({2, 2}, {{{"a"}}, {{"a"}, {"b"}}}, hosts, {}).mistake,
                HasSubstr("max_slots there is 2"));
}

TEST(placement, where_rank_0_is_reached) {
    HostFacts first, second, third;
    first.addresses = {"10.1.0.1/24", "10.2.0.1/24"};
    second.addresses = {"10.2.0.2/24"};
    third.addresses = {"10.2.0.3/24", "10.1.0.3/24"};
    EXPECT_EQ(address_for(first, {&second, &third}, ""), "10.2.0.1");
    EXPECT_EQ(address_for(first, {&third}, ""), "10.1.0.1");
    EXPECT_EQ(address_for(first, {&third}, "10.2.0.1"), "10.2.0.1");
    // Behind a router there is no common network: as ssh does, or the first.
    second.addresses = {"192.168.0.2/24"};
    EXPECT_EQ(address_for(first, {&second}, "10.2.0.1"), "10.2.0.1");
    EXPECT_EQ(address_for(first, {&second}, ""), "10.1.0.1");
    EXPECT_EQ(address_for(second, {}, ""), "192.168.0.2");
    EXPECT_EQ(address_for(HostFacts(), {&second}, ""), "");
}

// Goal: of a host's interfaces those are taken that its ranks take, whatever its system, and an
// address that two hosts have leads nowhere.
TEST(placement, where_rank_0_is_reached_by_what_a_job_uses) {
    HostFacts linux_host, mac;
    linux_host.system = "Linux x86_64";
    linux_host.all_addresses = {"10.1.0.1/24 eth0 wired", "10.2.0.1/24 wlan0 wifi",
                                "100.64.0.1/10 tailscale0 vpn", "172.17.0.1/16 docker0 virtual"};
    mac.system = "Darwin arm64";
    mac.all_addresses = {"10.3.0.1/24 bridge0 thunderbolt", "10.1.0.2/24 en0 wired"};
    auto used = [](const HostFacts& facts, const char* include, const char* exclude,
                   const char* gloo = "") {
        return addresses_used(
            facts, tcp::network_choice(include, exclude, gloo, "", interfaces_of(facts)));
    };
    EXPECT_THAT(used(linux_host, "", ""), ElementsAre("10.1.0.1/24", "10.2.0.1/24"));
    EXPECT_THAT(used(linux_host, "vpn", ""), ElementsAre("100.64.0.1/10"));
    EXPECT_THAT(used(linux_host, "docker0", ""), ElementsAre("172.17.0.1/16"));
    EXPECT_THAT(used(linux_host, "", "wired"), ElementsAre("10.2.0.1/24"));
    EXPECT_THAT(used(linux_host, "", "", "wlan0"), ElementsAre("10.2.0.1/24"));
    EXPECT_THAT(used(mac, "", "10.1.0.0/16"), ElementsAre("10.3.0.1/24"));
    EXPECT_THAT(used(mac, "wired", ""), ElementsAre("10.1.0.2/24"));
    HostFacts first, second;
    first.addresses = {"10.9.9.9/24", "10.1.0.1/24"};
    second.addresses = {"10.9.9.9/24", "10.1.0.2/24"};
    second.all_addresses = {"10.9.9.9/24 eth1 wired", "10.1.0.2/24 eth0 wired"};
    EXPECT_EQ(address_for(first, {&second}, ""), "10.1.0.1");
    first.addresses = {"10.9.9.9/24"};
    EXPECT_EQ(address_for(first, {&second}, "10.5.0.1"), "10.5.0.1");
    EXPECT_EQ(address_for(first, {&second}, ""), "10.9.9.9");  // one machine, perhaps
}

// The words of both sides survive their way; damaged ones are refused and read nothing else.
StartOrder some_start() {
    StartOrder out;
    out.rank = 7;
    out.place = 3;
    out.command = {"a", "", "b c"};
    out.program = "/bin/a";
    out.directory = "/tmp";
    out.environment = {"A=1", "B="};
    out.parameters = 2;
    out.input = StartOrder::Input::pipe;
    out.merge_stderr = true;
    return out;
}

HostFacts some_facts() {
    HostFacts out;
    out.version = "0.1";
    out.system = "Linux x86_64";
    out.name = "a";
    out.identity = "id";
    out.processors = 8;
    out.cores = 4;
    out.fast = 2;
    out.free_port = 21000;
    out.own_address = "10.0.0.1";
    out.caller_address = "10.0.0.2";
    out.own_port = 22;
    out.addresses = {"10.0.0.1/24", "fd00::1/64"};
    out.all_addresses = {"10.0.0.1/24 eth0 wired"};
    out.link_local = {"fe80::1 en5"};
    out.unsteady = {"10.9.0.1"};
    return out;
}

JobOrders some_orders() {
    JobOrders out;
    out.tag = "abcd1234";
    out.host = "mac2";
    out.node = 1;
    out.ranks = 4;
    out.directory = "/home/me";
    out.environment = {"X=y"};
    out.parameters = {{std::byte{1}, std::byte{0}}, {}};
    out.bind = BindTo::core;
    out.map = MapBy::node;
    out.cpu_set = {0, 2};
    out.rank_cores = {{1, {3, 4}}};
    out.silence_seconds = 32;
    out.caller = some_facts();
    return out;
}

template <class Write, class Read, class T>
std::vector<std::byte> words_of_both(Write write, Read read, const T& value) {
    Writer once;
    write(once, value);
    Reader reader(once.bytes());
    auto back = read(reader);
    EXPECT_TRUE(back.has_value());
    EXPECT_EQ(reader.left(), 0u);
    Writer twice;
    if (back) write(twice, *back);
    EXPECT_EQ(once.bytes(), twice.bytes());
    return once.bytes();
}

template <class Read> void damage(std::vector<std::byte> bytes, Read read) {
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
        Reader reader(ConstBytes(bytes).subspan(0, cut));
        EXPECT_FALSE(read(reader).has_value()) << cut;
    }
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        std::vector<std::byte> other = bytes;
        for (int k = 0; k < 3; ++k) other[random() % other.size()] = std::byte(random() & 255);
        Reader reader(other);
        (void)read(reader);  // under a sanitizer in the slow tier
    }
}

TEST(agent_words, start) {
    damage(words_of_both(write_start, read_start, some_start()), read_start);
}
TEST(agent_words, orders) {
    damage(words_of_both(write_orders, read_orders, some_orders()), read_orders);
    JobOrders orders = some_orders();
    orders.tag = "../x";  // it becomes part of a path
    Writer out;
    write_orders(out, orders);
    Reader reader(out.bytes());
    EXPECT_FALSE(read_orders(reader).has_value());
}
TEST(agent_words, facts) {
    damage(words_of_both(write_facts, read_facts, some_facts()), read_facts);
}

TEST(placement, more_processes_take_free_slots_and_then_share) {
    std::vector<PlaceHost> hosts = {named("a", 3), named("b", 2)};
    EXPECT_THAT(place_more(3, hosts, {2, 0}, {}).host_of, ElementsAre(0, 1, 1));
    // Nothing is free: in proportion to the slots.
    EXPECT_THAT(place_more(5, hosts, {3, 2}, {}).host_of, ElementsAre(0, 1, 0, 1, 0));
    EXPECT_THAT(place_more(2, hosts, {0, 0}, {false, true}).host_of, ElementsAre(1, 1));
    EXPECT_THAT(place_more(4, {named("a", 1, 2), named("b", 1, 3)}, {1, 1}, {}).mistake,
                HasSubstr("3 more is all that max_slots allows"));
}

TEST(ssh, what_it_prints_is_explained) {
    auto said = [](const char* printed, int code = 255) {
        return explain_shell("ssh", "mac2", code << 8, printed);
    };
    EXPECT_THAT(said("Host key verification failed.\r\n"), HasSubstr("ssh mac2 true"));
    // ping knows no users.
    EXPECT_THAT(explain_shell("ssh", "me@mac2", 255 << 8, "ssh: connect: No route to host\n"),
                testing::EndsWith("ping mac2"));
    EXPECT_THAT(said("me@mac2: Permission denied (publickey).\n"), HasSubstr("ssh-copy-id mac2"));
    EXPECT_THAT(said("ssh: connect to host mac2 port 22: Connection refused\n"),
                HasSubstr("Remote Login"));
    EXPECT_THAT(said("pomona: no mpirun\n", 127), HasSubstr("--prefix"));
    EXPECT_THAT(said("one\ntwo\nsomething new\n", 3), HasSubstr("ended with code 3: one"));
    EXPECT_EQ(said("", 1), "ssh ended with code 1");
}

TEST(ssh, command_lines) {
    EXPECT_THAT(shell_words_for("rsh -q", "a", "x y"), ElementsAre("rsh", "-q", "a", "x y"));
    auto words = shell_words_for("/usr/bin/ssh -p 2222", "me@a", "x");
    EXPECT_THAT(words, testing::Contains("BatchMode=yes"));
    EXPECT_EQ(words.back(), "x");
    // A quote in a path could end the word in another shell.
    EXPECT_THAT(agent_command("/o'dd 5%/mpirun", ""),
                HasSubstr("for m in \"$(printf \"/o\\047dd 5\\045/mpirun\")\" \"/opt"));
    EXPECT_THAT(agent_command("/a/mpirun", "/opt/p"), testing::Not(HasSubstr("/a/mpirun")));
}

}  // namespace
}  // namespace pomona
