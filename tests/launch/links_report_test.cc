// tests/launch/links_report_test.cc: what `pomona links` makes of what ranks say and of earlier
// days.
#include "mpi/tools/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace pomona {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const char* const kHosts =
    "{\"links_host\":0,\"name\":\"a\",\"interfaces\":[{\"name\":\"en5\",\"address\":\"10.0.0.1/24\","
    "\"kind\":\"thunderbolt\",\"mtu\":1500,\"taken\":true,\"why\":\"\"},{\"name\":\"utun0\","
    "\"address\":\"100.1.1.1/32\",\"kind\":\"vpn\",\"mtu\":1280,\"taken\":false,\"why\":\"not it\"}]}\n"
    "{\"links_host\":1,\"name\":\"b\",\"interfaces\":[],\"devices\":[{\"name\":\"rdma_en2\",\"state\":"
    "\"down\",\"address\":\"\",\"mtu\":0,\"why\":\"the port of rdma_en2 is down\",\"mend\":\"look at its "
    "cable\"},{\"name\":\"\",\"why\":\"no library\",\"mend\":\"\"}]}\n";

std::string pair_line(double gigabits, const std::string& by = "tcp 1 en5") {
    return "{\"links_pair\":[0,1],\"latency_us\":30,\"gigabits\":" + std::to_string(gigabits) +
           ",\"by\":\"connected\",\"paths\":[{\"name\":\"tcp\",\"state\":\"up\",\"first\":true,\"kind\":"
           "\"thunderbolt\",\"round_trip_us\":61,\"gigabits\":9,\"text\":\"" +
           by +
           "\",\"why\":\"\"},{\"name\":\"tcp\",\"state\":\"down\",\"first\":false,\"kind\":\"wired\","
           "\"round_trip_us\":0,\"gigabits\":0,\"text\":\"tcp 2\",\"why\":\"refused\"}]}\n";
}

TEST(links_report, is_read_and_printed) {
    LinkReport report = read_link_report("mpirun: a remark\n" + (kHosts + pair_line(8)));
    EXPECT_EQ(report.failure, "");
    std::string text = link_report_text(report, {}, "2026-01-02");
    EXPECT_THAT(text, HasSubstr("a - b: 30.0 us, 8 Gb/s, connected"));
    EXPECT_THAT(text, HasSubstr("not used: not it"));
    EXPECT_THAT(text, HasSubstr("not used: the port of rdma_en2 is down; look at its cable"));
    EXPECT_THAT(text, HasSubstr("RDMA not used: no library\n"));
    EXPECT_THAT(text, HasSubstr("down: tcp 2 (wired): refused"));
    EXPECT_THAT(link_report_json(report, {}, "2026-01-02"), HasSubstr("\"gigabits\": 8.0"));
}

// Goal: cables are told as jobs tell them, by addresses: a pair has one of its own where neither
// host uses that interface for another. Method: a on a cable to b, b on one to c, all on a switch
// or not; and addresses that tell nothing.
TEST(links_report, cables_that_addresses_tell_of) {
    using Addresses = std::vector<std::pair<const char*, const char*>>;
    auto cables = [](const std::vector<Addresses>& hosts, const char* kind = "thunderbolt") {
        std::string text;
        for (size_t i = 0; i < hosts.size(); ++i) {
            json all = json::array();
            for (const auto& [name, address] : hosts[i])
                all.push_back({{"name", name},
                               {"address", address},
                               {"kind", name == std::string("en0") ? "wired" : kind},
                               {"mtu", 1500},
                               {"taken", name != std::string("off0")},
                               {"why", ""}});
            text += json{{"links_host", i},
                         {"name", std::string(1, static_cast<char>('a' + i))},
                         {"interfaces", all}}
                        .dump() +
                    "\n";
        }
        for (size_t i = 0; i < hosts.size(); ++i)
            for (size_t k = i + 1; k < hosts.size(); ++k)
                text += json{{"links_pair", {i, k}},
                             {"latency_us", 30},
                             {"gigabits", 8},
                             {"by", "connected"},
                             {"paths", json::array()}}
                            .dump() +
                        "\n";
        std::string out;
        json report = json::parse(link_report_json(read_link_report(text), {}, "2026-01-02"));
        for (const json& pair : report.at("pairs"))
            if (pair.at("cable").get<bool>())
                out += pair.at("hosts").at(0).get<std::string>() +
                       pair.at("hosts").at(1).get<std::string>() + " ";
        return out;
    };
    std::vector<Addresses> chain = {{{"en1", "10.0.12.1/24"}},
                                    {{"en1", "10.0.12.2/24"}, {"en2", "10.0.23.2/24"}},
                                    {{"en1", "10.0.23.3/24"}}};
    EXPECT_EQ(cables(chain), "ab bc ");
    EXPECT_EQ(cables(chain, "wired"), "ab bc ");
    for (size_t i = 0; i < chain.size(); ++i)
        chain[i].push_back({"en0", i == 0   ? "10.1.0.1/24"
                                   : i == 1 ? "10.1.0.2/24"
                                            : "10.1.0.3/24"});
    // The switch has the ends to itself, as jobs see it, until somebody else needs it.
    EXPECT_EQ(cables(chain), "ab ac bc ");
    chain.push_back({{"en0", "10.1.0.4/24"}});
    EXPECT_EQ(cables(chain), "ab bc ");
    // One interface, one bridge, and addresses that systems give themselves.
    EXPECT_EQ(
        cables({{{"en0", "10.1.0.1/24"}}, {{"en0", "10.1.0.2/24"}}, {{"en0", "10.1.0.3/24"}}}), "");
    EXPECT_EQ(cables({{{"en1", "169.254.1.1/16"}},
                      {{"en1", "169.254.1.2/16"}, {"en2", "169.254.1.3/16"}},
                      {{"en1", "169.254.1.4/16"}}}),
              "");
    // What no job uses tells nothing.
    EXPECT_EQ(cables({{{"off0", "10.0.12.1/24"}, {"en0", "10.1.0.1/24"}},
                      {{"off0", "10.0.12.2/24"}, {"en0", "10.1.0.2/24"}},
                      {{"en0", "10.1.0.3/24"}}}),
              "");
}

// Goal: nothing is said of paths that never were tried, since the two have no interfaces for so
// many; of one that failed before it had any its name is, and of a way through others that there is
// no other. Method: paths as ranks tell them, "-" for what they do not know.
TEST(links_report, paths_that_were_never_tried) {
    auto line = [](const std::string& by, bool first, const std::vector<std::string>& whys) {
        json paths = json::array();
        auto add = [&](const char* state, bool used, const char* text, const std::string& why) {
            paths.push_back({{"name", "tcp"},
                             {"state", state},
                             {"first", used},
                             {"kind", "-"},
                             {"round_trip_us", 0},
                             {"gigabits", 0},
                             {"text", text},
                             {"why", why}});
        };
        add("up", true, first ? "tcp 1 en5" : "through rank 2", "");
        for (const std::string& why : whys) add("down", false, "-", why);
        return json{{"links_pair", {0, 1}},
                    {"latency_us", 30},
                    {"gigabits", 8},
                    {"by", by},
                    {"paths", paths}}
                   .dump() +
               "\n";
    };
    auto said = [&](const std::string& text) {
        std::string out = link_report_text(read_link_report(kHosts + text), {}, "2026-01-02");
        return out.substr(out.find("a - b"));
    };
    EXPECT_EQ(said(line("connected", true, {"", ""})),
              "a - b: 30.0 us, 8 Gb/s, connected\n  up: tcp 1 en5 (messages take it), 8 Gb/s\n"
              "  not between them: rdma_en2 of b: the port of rdma_en2 is down\n");
    EXPECT_THAT(said(line("connected", true, {"no address"})),
                HasSubstr("  down: tcp: no address\n"));
    EXPECT_THAT(said(line("through rank 1", false, {""})),
                HasSubstr("  no connection of their own, nobody knows yet why\n"));
    EXPECT_THAT(said(line("through rank 1", false, {"refused"})),
                HasSubstr("  no connection of their own: tcp: refused\n"));
    json all = json::parse(link_report_json(
        read_link_report(kHosts + line("connected", true, {"", "no address"})), {}, "2026-01-02"));
    ASSERT_EQ(all.at("pairs").at(0).at("paths").size(), 2u);
    EXPECT_EQ(all.at("pairs").at(0).at("paths").at(1).at("by"), "");
}

// Goal: a path that has carried all alone has the rate that was measured.
TEST(links_report, rate_of_the_only_path) {
    std::string line = pair_line(8);
    line.replace(line.find("\"gigabits\":9"), 12, "\"gigabits\":0");
    EXPECT_EQ(read_link_report(kHosts + line).pairs.at(0).paths.at(0).gigabits, 8);
    EXPECT_EQ(read_link_report(kHosts + line).pairs.at(0).paths.at(1).gigabits, 0);
    EXPECT_EQ(read_link_report(kHosts + pair_line(8)).pairs.at(0).paths.at(0).gigabits, 9);
}

// Goal: each cable is a path with its device at both ends, and each other device says why it is not
// used there. Method: three hosts; two cables join a and b, one b and c, and a device of a is down.
TEST(links_report, rdma_devices_of_each_cable) {
    auto device = [](const char* name, const char* address, const char* why) {
        return json{{"name", name},       {"state", *why ? "down" : "active"},
                    {"address", address}, {"addresses", {"fe80::1", address}},
                    {"mtu", 4096},        {"why", why}};
    };
    auto host = [](int number, const char* name, json devices) {
        return json{{"links_host", number},
                    {"name", name},
                    {"interfaces", json::array()},
                    {"devices", std::move(devices)}}
                   .dump() +
               "\n";
    };
    auto path = [](const char* text, const char* state, double rate) {
        return json{{"name", "rdma"}, {"state", state},       {"kind", "thunderbolt"},
                    {"text", text},   {"round_trip_us", 9.0}, {"gigabits", rate},
                    {"why", ""}};
    };
    auto pair = [](int from, int to, json paths, const char* what) {
        json out{{what, {from, to}}, {"latency_us", 5}, {"gigabits", 70}, {"by", "connected"}};
        out["paths"] = std::move(paths);
        return out.dump() + "\n";
    };
    std::string text =
        host(0, "a",
             {device("rdma_en2", "10.0.1.1", ""), device("rdma_en3", "10.0.2.1", ""),
              device("rdma_en4", "", "the port of rdma_en4 is down")}) +
        host(1, "b",
             {device("rdma_en2", "10.0.1.2", ""), device("rdma_en3", "10.0.2.2", ""),
              device("rdma_en4", "10.0.3.2", "")}) +
        host(2, "c", {device("rdma_en2", "10.0.3.3", ""), device("rdma_en9", "10.0.9.3", "")}) +
        // The cables are crossed, and the end is told before the beginning.
        pair(0, 1,
             {path("rdma rdma_en3 10.0.1.2", "up", 0), path("rdma rdma_en2 10.0.2.2", "up", 0)},
             "links_pair_end") +
        pair(0, 1,
             {path("rdma rdma_en2 10.0.1.1, messages of 69632", "up", 71.5),
              path("rdma rdma_en3 10.0.2.1", "up", 0)},
             "links_pair") +
        pair(1, 2,
             {path("rdma rdma_en4 10.0.3.2", "up", 70),
              path("rdma: there is no further cable to the other process", "down", 0)},
             "links_pair") +
        pair(1, 2, {path("rdma rdma_en2 10.0.3.3", "up", 70)}, "links_pair_end") +
        pair(0, 2, {path("rdma: no device reaches it", "down", 0)}, "links_pair") +
        pair(0, 2, {path("rdma: no device reaches it", "down", 0)}, "links_pair_end");
    LinkReport report = read_link_report(text);
    EXPECT_EQ(report.failure, "");
    std::string said = link_report_text(report, {}, "2026-01-02");
    EXPECT_THAT(said, HasSubstr("  up: rdma rdma_en2 10.0.1.1, messages of 69632, to rdma_en3 of b "
                                "(thunderbolt), round trip 9 us, 71.5 Gb/s\n"));
    EXPECT_THAT(said, HasSubstr("  up: rdma rdma_en3 10.0.2.1, to rdma_en2 of b"));
    EXPECT_THAT(said, HasSubstr("  up: rdma rdma_en4 10.0.3.2, to rdma_en2 of c"));
    EXPECT_THAT(said, HasSubstr("MTU 4096   used with b\n             and fe80::1\n"));
    EXPECT_THAT(said, HasSubstr("not used: the port of rdma_en4 is down\n"));
    auto idle = [&](size_t which) {
        std::string out;
        for (const DeviceIdle& each : idle_devices(report, report.pairs.at(which)))
            out += each.device + " of " + each.host + ": " + each.why + "; ";
        return out;
    };
    EXPECT_EQ(idle(0),
              "rdma_en4 of a: the port of rdma_en4 is down; rdma_en4 of b: its cable leads to c; ");
    EXPECT_EQ(
        idle(1),
        "rdma_en2 of b: its cable leads to a; rdma_en3 of b: its cable leads to a; "
        "rdma_en9 of c: no path by it has come up: there is no further cable to the other process; ");
    EXPECT_THAT(said, HasSubstr("  not between them: rdma_en4 of b: its cable leads to c\n"));
    json all = json::parse(link_report_json(report, {}, "2026-01-02"));
    EXPECT_EQ(all["hosts"][0]["devices"][0]["addresses"], (json{"fe80::1", "10.0.1.1"}));
    EXPECT_EQ(all["pairs"][0]["paths"][0]["device"], "rdma_en2");
    EXPECT_EQ(all["pairs"][0]["paths"][1]["gigabits"], 0.0);
    EXPECT_EQ(all["pairs"][0]["paths"][0]["peer_device"], "rdma_en3");
    EXPECT_EQ(all["pairs"][0]["devices_not_used"][1]["why_not"], "its cable leads to c");
}

TEST(links_report, what_cards_have_counted) {
    std::string hosts = kHosts;
    hosts.insert(hosts.find("\"taken\":true"), "\"damaged\":3,\"dropped\":0,");
    LinkReport report = read_link_report(hosts + pair_line(8));
    EXPECT_THAT(link_report_text(report, {}, ""), HasSubstr("used, 3 damaged packets\n"));
    std::string text = link_report_json(report, {}, "");
    EXPECT_THAT(text, HasSubstr("\"damaged_packets\": 3"));
    EXPECT_THAT(text, HasSubstr("\"dropped_packets\": 0"));
    EXPECT_THAT(text, HasSubstr("\"dropped_packets\": null"));  // of the other one nobody knows
}

TEST(links_report, packets_that_were_made_shorter) {
    const char* mend = "longer packets vanish between them: give both cards and the switch one MTU";
    LinkReport report = read_link_report(kHosts + pair_line(8));
    EXPECT_THAT(link_report_text(report, {}, ""), testing::Not(HasSubstr(mend)));
    report = read_link_report(kHosts + pair_line(8, "tcp 1 en5, packets of 1188 bytes at most"));
    EXPECT_THAT(link_report_text(report, {}, ""), HasSubstr(mend));
    EXPECT_THAT(link_report_json(report, {}, ""), HasSubstr(mend));
}

// Goal: what is missing or damaged is said, and nothing of it is believed.
TEST(links_report, that_is_not_whole) {
    EXPECT_THAT(read_link_report("mpirun: host b cannot be used\n").failure,
                HasSubstr("cannot be"));
    EXPECT_THAT(read_link_report(kHosts).failure, HasSubstr("not measured all pairs"));
    for (const char* line : {"{\"links_pair\":[0]}",
                             "{\"links_pair\":[0,9],\"latency_us\":1,"
                             "\"gigabits\":1,\"paths\":[]}",
                             "{\"links_host\":-1}", "{\"links_host\"",
                             "{\"links_host\":99999999,\"name\":\"x\",\"interfaces\":[]}"}) {
        LinkReport report = read_link_report(std::string(kHosts) + line + "\n");
        EXPECT_NE(report.failure, "") << line;
        EXPECT_THAT(report.pairs, IsEmpty()) << line;
    }
}

// Goal: a pair that cannot connect has its line, whoever of the two says it, and the others are
// still measured, one after the other.
TEST(links_report, of_a_pair_that_cannot_connect) {
    const std::string third = "{\"links_host\":2,\"name\":\"c\",\"interfaces\":[]}\n";
    const std::string blind =
        "{\"links_reached\":2,\"not\":[{\"rank\":1,\"why\":\"tcp 1: silent\"}]}";
    std::string far = pair_line(8);
    far.replace(far.find("[0,1]"), 5, "[0,2]");
    std::string text = "a remark\n" + (kHosts + third) + blind + "\n" + pair_line(8) + far;
    LinkReport report = read_link_report(text);
    EXPECT_EQ(report.failure, "b - c cannot connect: tcp 1: silent\n");
    EXPECT_EQ(report.pairs.size(), 2u);
    EXPECT_THAT(link_report_text(report, {}, ""),
                HasSubstr("b - c: no connection: tcp 1: silent\n  -> is there a firewall"));
    EXPECT_THAT(link_report_json(report, {}, ""), HasSubstr("\"why\": \"tcp 1: silent\""));
    LinksDirector director(3);
    EXPECT_EQ(director.heard("a remark"), "");
    EXPECT_EQ(director.heard("{\"links_reached\":0,\"not\":[]}"), "");
    EXPECT_EQ(director.heard(blind), "");
    EXPECT_EQ(director.heard("{\"links_reached\":1,\"not\":[]}"), "0 1\n");
    EXPECT_EQ(director.heard(pair_line(8)), "0 2\n");
    EXPECT_EQ(director.heard(far), "end\n");
    LinksDirector calm(2);
    EXPECT_EQ(calm.heard("{\"links_reached\":0,\"not\":[]}"), "");
    EXPECT_EQ(calm.heard("{\"links_reached\":1,\"not\":[]}"), "all\n");
    EXPECT_EQ(calm.heard(pair_line(8)), "");
}

// Goal: a firewall is looked for where two hosts share a network, and not between the ends of a
// chain.
TEST(links_report, of_a_pair_that_goes_through_another_host) {
    auto host = [](int number, const char* name, const char* addresses) {
        json out{{"links_host", number}, {"name", name}, {"interfaces", json::array()}};
        std::istringstream words(addresses);
        for (std::string each; words >> each;)
            out["interfaces"].push_back({{"name", "en"}, {"address", each}, {"taken", true}});
        return out.dump() + "\n";
    };
    std::string pair = pair_line(8);
    pair.replace(pair.find("\"connected\""), 11, "\"through rank 2\"");
    auto text = [&](const char* first, const char* second) {
        LinkReport report = read_link_report(host(0, "a", first) + host(1, "b", second) +
                                             host(2, "m", "10.0.12.2/24 10.0.23.2/24") + pair);
        EXPECT_EQ(report.pairs.size(), 1u) << pair;
        return link_report_text(report, {}, "");
    };
    for (const char* second : {"10.0.23.3/24", "10.0.23.3/24 fd00:1::2/64"}) {
        std::string said = text("10.0.12.1/24", second);
        EXPECT_THAT(said, HasSubstr("-> a and b have no network in common"));
        EXPECT_THAT(said, Not(HasSubstr("firewall")));
    }
    EXPECT_THAT(text("10.0.12.1/24", "10.0.12.9/24 10.0.23.3/24"), HasSubstr("firewall"));
    EXPECT_THAT(text("169.254.1.1/16", "169.254.2.1/16"), HasSubstr("firewall"));
    EXPECT_THAT(text("", "10.0.23.3/24"), HasSubstr("firewall")) << "nothing is known";
}

// Goal: what was measured between hosts is what their jobs reckon with: one number where pairs are
// about alike, else each pair's; of each pair the latest figure.
TEST(links_report, gives_the_costs_between_hosts) {
    std::vector<LinkMemory> memory{{"mac1 mac2.local", "2026-01-02", 20, 1, "tcp"},
                                   {"mac1 mac2.local", "2026-01-03", 20, 40, "tcp"},
                                   {"box mac1", "2026-01-02", 60, 10, "tcp"},
                                   {"box mac2.local", "2026-01-02", 0, 10, "tcp"}};
    std::string missing;
    EXPECT_EQ(net_costs(memory, {"mac1", "me@mac2"}, missing), "net=15000:2500:0.20000");
    EXPECT_EQ(missing, "");
    // Pairs that were never measured are left to estimates.
    EXPECT_EQ(net_costs(memory, {"mac1", "mac2", "box"}, missing),
              "0-1=63000:2500:0.22000,0-2=63000:2500:1.00000");
    EXPECT_EQ(missing, "mac2 and box");
    memory.push_back({"box mac2", "2026-01-04", 4, 10, "tcp"});
    EXPECT_EQ(net_costs(memory, {"mac1", "mac2", "box"}, missing),
              "net=55000:2500:0.80000,0-1=17000:2500:0.22000,0-2=63000:2500:1.00000,"
              "1-2=2350:1175:1.00000");
    EXPECT_EQ(net_costs(memory, {"mac2", "box"}, missing), "net=2000:1000:0.80000");
    memory.push_back({"box mac1", "2026-01-05", 22, 35, "tcp"});
    memory.push_back({"box mac2", "2026-01-05", 25, 38, "tcp"});
    EXPECT_EQ(net_costs(memory, {"mac1", "mac2", "box"}, missing), "net=20000:2500:0.22857");
    EXPECT_EQ(net_costs(memory, {"10.0.0.1", "10.0.0.2"}, missing), "");
    EXPECT_EQ(missing, "10.0.0.1 and 10.0.0.2");
}

// Goal: a link that has become slow is told, with what it gave and by what it went.
TEST(links_report, slower_than_before) {
    LinkReport report = read_link_report(kHosts + pair_line(8));
    LinkMemory now = memory_of(report, report.pairs[0], "2026-01-09");
    EXPECT_EQ(now.hosts, "a b");
    std::vector<LinkMemory> before{{"a b", "2026-01-02", 20, 38, "tcp 1 en5"},
                                   {"a c", "2026-01-02", 20, 90, "tcp 1 en5"}};
    EXPECT_THAT(compared_with_before(now, before),
                HasSubstr("gives 8 Gb/s today, 38 on 2026-01-02: is the cable"));
    before[0].by = "tcp 1 en6";
    EXPECT_THAT(compared_with_before(now, before),
                HasSubstr("by tcp 1 en5 now, by tcp 1 en6 then"));
    before[0].gigabits = 9;
    EXPECT_EQ(compared_with_before(now, before), "");
    EXPECT_EQ(compared_with_before(now, {}), "");
}

// Goal: who reads the report knows what jobs have seen, and that a doubt counts for nothing.
TEST(links_report, what_jobs_have_seen_is_told) {
    LinkReport report = read_link_report(kHosts + pair_line(8));
    LinkMemory now = memory_of(report, report.pairs[0], "2026-01-09");
    using Source = LinkMemory::Source;
    std::vector<LinkMemory> before{{"a b", "2026-01-01", 20, 8, "tcp 1 en5"},
                                   {"a b", "2026-01-02", 20, 38, "tcp 1 en5", Source::job, 7},
                                   {"a c", "2026-01-03", 20, 90, "tcp 1 en5", Source::job, 8}};
    EXPECT_EQ(seen_by_jobs(now, before), "38 Gb/s in a job on 2026-01-02");
    EXPECT_THAT(compared_with_before(now, before), HasSubstr("38 in a job on 2026-01-02"));
    EXPECT_THAT(link_report_text(report, before, "2026-01-09"),
                HasSubstr("\n  before: 38 Gb/s in a job on 2026-01-02\n"));
    before.push_back({"a b", "2026-01-04", 20, 400, "tcp 1 en5", Source::doubt, 9});
    EXPECT_EQ(seen_by_jobs(now, before),
              "38 Gb/s in a job on 2026-01-02, then 400 Gb/s in a job "
              "on 2026-01-04, which another one has to see as well");
    EXPECT_THAT(compared_with_before(now, before), Not(HasSubstr("400")));
    EXPECT_THAT(link_report_json(report, before, "2026-01-09"), HasSubstr("\"source\": \"doubt\""));
    before.push_back({"a b", "2026-01-05", 20, 8, "tcp 1 en5"});
    EXPECT_EQ(seen_by_jobs(now, before), "");
}

TEST(links_report, memory_is_kept_and_bounded) {
    std::vector<LinkMemory> memory{{"a c", "2026-01-01", 1, 1, "x"}};
    for (int day = 0; day < 100; ++day)
        remember(memory, {"a b", "2026-01-02", 1, static_cast<double>(day), "\"quoted\""});
    EXPECT_EQ(memory.size(), 17u);
    std::vector<LinkMemory> again = read_link_memory(
        "garbage\n{\"hosts\":\"a b\",\"date\":\"x\"}\nv1 a b x 1\nv1 a b x 1 y z\n"
        "v2 a b x 1 2 z\nv3 a b x 1 2 job 1 z\n" +
        link_memory_text(memory) + "v1\n");
    ASSERT_EQ(again.size(), 17u);
    EXPECT_EQ(again.back().gigabits, 99);
    EXPECT_EQ(again.back().by, "\"quoted\"");
}

// Else the job of these hosts would reckon with other numbers than `pomona tune` has shown.
TEST(links_report, what_is_remembered_is_what_is_kept) {
    for (int i = 0; i < 1000; ++i) {
        std::vector<LinkMemory> memory;
        remember(memory, {"a b", "2026-01-02", 9 + i * 0.00037, 20 + i * 0.0123456789, "x"});
        std::vector<LinkMemory> again = read_link_memory(link_memory_text(memory));
        std::string missing;
        ASSERT_EQ(net_costs(memory, {"a", "b"}, missing), net_costs(again, {"a", "b"}, missing))
            << i;
    }
}

}  // namespace
}  // namespace pomona
