// tests/launch/host_probe_test.cc: whether another host's system is there (HostProbe).
// Goal: which of its addresses are asked, whose silence counts, and that an answer ends the asking.
// Whole hosts that vanish are in test_hosts.py.
#include "pmix/launch/host_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <event2/event.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {
namespace {
using testing::ElementsAre;

std::vector<std::string> texts_of(const std::vector<ProbeWay>& ways) {
    std::vector<std::string> out;
    for (const ProbeWay& way : ways)
        out.push_back(way.ip.text() + ":" + std::to_string(way.port) +
                      (way.own ? " from " + way.own->ip.text() + " by " + way.own->interface : ""));
    return out;
}

TEST(ways_to, the_address_of_ssh_and_those_of_networks_of_both) {
    HostFacts there, here;
    there.own_address = "192.168.1.9";
    there.own_port = 2222;
    there.addresses = {"10.0.0.9/24", "10.7.0.9/24", "192.168.1.9/24"};
    there.unsteady = {"192.168.1.9"};  // Wi-Fi counts like cables
    here.addresses = {"10.0.0.1/24", "192.168.1.1/24"};
    EXPECT_THAT(texts_of(ways_to(there, here)), ElementsAre("192.168.1.9:2222", "10.0.0.9:2222"));
}

TEST(ways_to, link_local_ones_by_each_interface_that_has_one) {
    HostFacts there, here;
    there.link_local = {"169.254.3.9 en5", "fe80::9 en5"};
    here.link_local = {"169.254.3.1 en1", "169.254.4.1 en2", "fe80::1 en1"};
    EXPECT_THAT(texts_of(ways_to(there, here)),
                ElementsAre("169.254.3.9:22 from 169.254.3.1 by en1",
                            "169.254.3.9:22 from 169.254.4.1 by en2",
                            "fe80::9:22 from fe80::1 by en1"));
}

TEST(ways_to, none_to_this_host_itself_and_not_too_many) {
    HostFacts there, here;
    there.own_address = "127.0.0.1";
    EXPECT_TRUE(ways_to(there, here).empty());
    for (int i = 0; i < 8; ++i) {
        there.link_local.push_back("169.254.3." + std::to_string(i) + " en1");
        here.link_local.push_back("169.254.4." + std::to_string(i) + " en1");
    }
    EXPECT_EQ(ways_to(there, here).size(), kProbeWaysMost);
}

// A port of this machine. With `room` the system takes connections that nobody accepts; without it
// one, and then it does not answer; after close() it refuses.
struct Port {
    explicit Port(bool room) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto* name = reinterpret_cast<sockaddr*>(&address);
        listener = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT_EQ(bind(listener, name, length), 0);
        EXPECT_EQ(getsockname(listener, name, &length), 0);
        EXPECT_EQ(listen(listener, room ? 64 : 0), 0);
        way = {tcp::Ip::parse("127.0.0.1").value(), ntohs(address.sin_port), {}, 0};
    }
    ~Port() { close(); }
    void close() {
        if (listener >= 0) ::close(listener);
        listener = -1;
    }
    int listener = -1;
    ProbeWay way;
};

struct Probed {
    Probed(std::vector<ProbeWay> ways, std::vector<std::string> unsteady_here) {
        probe = std::make_unique<HostProbe>(base.get(), std::move(ways), std::move(unsteady_here));
        for (int i = 0; i < 5 && !probe->tells(); ++i) run(0.5);
    }
    void run(double seconds) {
        timeval time{static_cast<time_t>(seconds), 500000};
        event_base_loopexit(base.get(), &time);
        event_base_dispatch(base.get());
    }
    // Is it gone, asked for longer than that takes?
    bool asked() {
        bool gone = false;
        for (int i = 0; i < 6 && !gone; ++i) {  // as with each beat
            probe->ask([&] { gone = true; });
            run(0.5);
        }
        return gone;
    }
    std::unique_ptr<event_base, decltype(&event_base_free)> base{event_base_new(), event_base_free};
    std::unique_ptr<HostProbe> probe;
};

TEST(host_probe, a_refusal_is_an_answer) {
    Port port(true);
    port.close();
    Probed probed({port.way}, {});
    EXPECT_TRUE(probed.probe->tells());
    EXPECT_EQ(probed.probe->places(), "127.0.0.1");
    EXPECT_FALSE(probed.asked());
}

#if defined(__linux__)  // what the system does with more connections than it was told to take
TEST(host_probe, silence_where_it_answered) {
    Port port(false);
    Probed probed({port.way}, {});
    ASSERT_TRUE(probed.probe->tells());
    EXPECT_FALSE(probed.probe->only_unsteady());
    EXPECT_TRUE(probed.asked());
}

TEST(host_probe, silence_where_it_answered_by_wifi_or_a_tunnel) {
    Port port(false);
    Probed probed({port.way}, {"127.0.0.1"});
    ASSERT_TRUE(probed.probe->tells());
    EXPECT_TRUE(probed.probe->only_unsteady());
    EXPECT_TRUE(probed.asked());
}

TEST(host_probe, a_system_that_answers_by_wifi_is_there) {
    Port port(true);
    Probed probed({port.way}, {"127.0.0.1"});
    EXPECT_TRUE(probed.probe->tells());
    EXPECT_FALSE(probed.asked());
}

// Loopback's addresses: one counts as Wi-Fi's, the other as a cable's.
TEST(host_probe, a_cable_that_answered_beside_wifi) {
    Port wifi(false), cable(false);
    cable.way.own = tcp::End{tcp::Ip::parse("127.0.0.2").value(), "lo", true};
    Probed probed({wifi.way, cable.way}, {"127.0.0.1"});
    ASSERT_TRUE(probed.probe->tells());
    EXPECT_FALSE(probed.probe->only_unsteady());
}

TEST(host_probe, one_way_that_answers_is_enough) {
    Port silent(false), taking(true);
    Probed probed({silent.way, taking.way}, {});
    EXPECT_FALSE(probed.asked());
}

TEST(host_probe, it_is_heard_meanwhile) {
    Port port(false);
    Probed probed({port.way}, {});
    bool gone = false;
    probed.probe->ask([&] { gone = true; });
    probed.run(0.5);
    probed.probe->stop();
    probed.run(2.5);
    EXPECT_FALSE(gone);
}

TEST(host_probe, the_port_of_ssh_where_nothing_gets_to_another) {
    Port dropped(false), ssh(true);
    Probed fill({dropped.way}, {});
    ProbeWay way = ssh.way;
    way.quiet_port = dropped.way.port;
    Probed probed({way}, {});
    EXPECT_TRUE(probed.probe->tells());
    EXPECT_FALSE(probed.asked());
}

TEST(host_probe, the_quiet_port_is_enough_where_it_answers) {
    Port quiet(false), ssh(false);
    quiet.close();
    Probed fill({ssh.way}, {});  // nothing gets there
    ProbeWay way = ssh.way;
    way.quiet_port = quiet.way.port;
    Probed probed({way}, {});
    EXPECT_TRUE(probed.probe->tells());
    EXPECT_FALSE(probed.asked());
}

TEST(host_probe, an_address_that_never_answered_says_nothing) {
    Port port(false);
    Probed first({port.way}, {});  // takes the only place
    Probed probed({port.way}, {});
    EXPECT_FALSE(probed.probe->tells());
    EXPECT_FALSE(probed.asked());
}
#endif

}  // namespace
}  // namespace pomona
