// tests/unit/machine_links.cc: what joins the machines of a job, as ranks compute it from what is
// published (mpi/runtime/machine_links.h).
// Goal: kinds and speeds of lines give unlike costs where they are unlike and none where they are
// not; measured figures come first; and all ranks come to the same. Method: a wire-up that answers
// from a table.
#include "btl/link/state.h"
#include "coll/ring_order.h"
#include "mpi/runtime/machine_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <unistd.h>

namespace pomona {
namespace {

using coll::Link;
using tcp::InterfaceKind;
using tcp::Place;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Place at(const char* interface, const char* ip, InterfaceKind kind, uint32_t megabits = 0) {
    return {interface, kind, tcp::Ip::parse(ip).value(), 24, 4000, megabits};
}

constexpr auto kCable = InterfaceKind::thunderbolt, kWired = InterfaceKind::wired,
               kWifi = InterfaceKind::wifi;

// Two Macs on a cable and on the switch, one on Wi-Fi, a Linux box; all in the switch's network.
MachinePlaces people_have() {
    return {{at("en5", "10.9.0.1", kCable), at("en0", "10.1.0.1", kWired)},
            {at("en5", "10.9.0.2", kCable), at("en0", "10.1.0.2", kWired)},
            {at("en1", "10.1.0.3", kWifi)},
            {at("eth0", "10.1.0.4", kWired, 10000)}};
}

// What a job has published, seen by one rank.
class Table final : public Wireup {
public:
    using Published = std::map<std::pair<int, std::string>, std::vector<std::byte>>;
    Table(Published& published, int rank, int ranks, Origin origin = Origin::pmix)
        : published_(published) {
        job_.origin = origin;
        job_.rank = rank, job_.size = ranks;
        for (int r = 0; r < ranks; ++r) job_.node_of.push_back(r);
        job_.host = "h" + std::to_string(rank);
    }
    const Job& job() const override { return job_; }
    Status publish(std::string_view key, ConstBytes value) override {
        published_[{job_.rank, std::string(key)}].assign(value.begin(), value.end());
        return {};
    }
    Status fence() override { return {}; }
    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        auto found = published_.find({rank, std::string(key)});
        if (found == published_.end()) return Error{Code::not_found, "Nothing", rank, 0};
        return found->second;
    }
    [[noreturn]] void abort(int code, std::string_view) override { _exit(code); }
    void on_peer_death(std::function<void(int)>) override {}
    Status finalize() override { return {}; }

private:
    Published& published_;
    Job job_;
};

TEST(MachineLinks, of_alike_lines_are_left_to_the_built_in_costs) {
    MachinePlaces places = {{at("eth0", "10.1.0.1", kWired, 10000)},
                            {at("eth0", "10.1.0.2", kWired, 10000)},
                            {at("eth0", "10.1.0.3", kWired)}};
    EXPECT_THAT(estimated_pairs(places, roads_between(places), {}), IsEmpty());
    // A slower line is another one, also where all have it.
    for (auto& each : places) each[0].megabits = 1000;
    auto pairs = estimated_pairs(places, roads_between(places), {});
    ASSERT_THAT(pairs, SizeIs(3));
    EXPECT_DOUBLE_EQ(pairs[0].link.byte_ns, 10 * coll::Links().net.byte_ns);
    // Nobody knows of other networks.
    EXPECT_THAT(estimated_pairs({{at("eth0", "10.1.0.1", kWired)}, {}}, {}, {}), IsEmpty());
}

TEST(MachineLinks, of_the_cluster_that_people_have) {
    MachinePlaces places = people_have();
    Roads roads = roads_between(places);
    EXPECT_FALSE(roads.known());
    coll::Links links;
    links.pairs = estimated_pairs(places, roads, links);
    ASSERT_THAT(links.pairs, SizeIs(6));
    auto byte = [&](size_t pair) { return links.pairs[pair].link.byte_ns; };
    EXPECT_LT(byte(0), byte(2));         // 0-1 by the cable, 0-3 by the switch
    EXPECT_GT(byte(1), 10 * byte(2));    // 0-2 by Wi-Fi
    EXPECT_DOUBLE_EQ(byte(1), byte(5));  // 2-3 as well
    std::vector<int> nodes{0, 1, 2, 3}, macs{0, 1};
    EXPECT_TRUE(coll::Machine::among(links, true, nodes).unlike());
    coll::Machine two = coll::Machine::among(links, true, macs);
    EXPECT_FALSE(two.unlike());
    EXPECT_EQ(two.far.byte_ns, byte(0));
    // What was measured is not estimated.
    coll::Links measured;
    measured.pairs = {{0, 2, Link{1, 2, 3}}};
    EXPECT_THAT(estimated_pairs(places, roads, measured), SizeIs(5));
}

// Goal: a job that has sent along a ring has seen the lines of all machines; the pairs that it has
// left out are not taken for quicker ones.
TEST(MachineLinks, are_not_quicker_to_those_that_nobody_has_seen) {
    MachinePlaces places = people_have();
    Roads roads = roads_between(places);
    coll::Links seen;
    seen.pairs = {{0, 3, Link{1, 2, 80}}, {1, 3, Link{1, 2, 100}}};
    auto pairs = estimated_pairs(places, roads, seen);
    ASSERT_THAT(pairs, SizeIs(4));
    EXPECT_LT(pairs[0].link.byte_ns, 1);    // 0-1 have a cable of their own
    EXPECT_EQ(pairs[1].link.byte_ns, 80);   // 0-2 by the switch, as 0-3
    EXPECT_EQ(pairs[2].link.byte_ns, 100);  // 1-2
    EXPECT_EQ(pairs[3].link.byte_ns, 80);   // 2-3: the best that 3 has shown
    // What is slower by itself stays so.
    seen.pairs = {{0, 3, Link{1, 2, 0.8}}};
    pairs = estimated_pairs(places, roads, seen);
    EXPECT_EQ(pairs[1].link.byte_ns, estimated_pairs(places, roads, {})[1].link.byte_ns);
}

TEST(MachineLinks, of_a_chain_add_up_and_have_lines_of_their_own) {
    MachinePlaces places = {{at("en5", "10.9.0.1", kCable)},
                            {at("en5", "10.9.0.2", kCable), at("eth0", "10.8.0.2", kWired, 1000)},
                            {at("eth0", "10.8.0.3", kWired, 1000)}};
    Roads roads = roads_between(places);
    EXPECT_THAT(roads.between(0, 2), ElementsAre(1));
    EXPECT_NE(roads.line(1, 0), roads.line(1, 2));
    auto pairs = estimated_pairs(places, roads, {});
    ASSERT_THAT(pairs, SizeIs(3));
    EXPECT_DOUBLE_EQ(pairs[1].link.byte_ns, pairs[2].link.byte_ns);  // of 0-2 the slower part
    EXPECT_GT(pairs[1].link.latency_ns, pairs[0].link.latency_ns + pairs[2].link.latency_ns);
}

TEST(MachineLinks, of_a_mesh_are_apart_and_those_of_a_switch_are_not) {
    auto apart = [](const MachinePlaces& places) {
        return coll::Machine::among({}, true, std::vector<int>{0, 1, 2}, roads_between(places))
            .apart;
    };
    MachinePlaces mesh = {{at("en2", "10.1.0.1", kCable), at("en3", "10.2.0.1", kCable)},
                          {at("en2", "10.1.0.2", kCable), at("en3", "10.3.0.2", kCable)},
                          {at("en2", "10.2.0.3", kCable), at("en3", "10.3.0.3", kCable)}};
    EXPECT_TRUE(apart(mesh));
    // The ports of a bridge, and networks of one line, are one.
    MachinePlaces bridged = mesh, tagged = mesh;
    for (Place& place : bridged[1]) place.interface = "bridge0";
    EXPECT_FALSE(apart(bridged));
    tagged[2][0].interface = "eth0.7", tagged[2][1].interface = "eth0.8";
    EXPECT_FALSE(apart(tagged));
    // A switch beside the cables changes nothing; by itself it is one line.
    MachinePlaces both = mesh, one(3);
    for (size_t i = 0; i < 3; ++i) {
        one[i].push_back(at("eth0", ("10.9.0." + std::to_string(i + 1)).c_str(), kWired, 1000));
        both[i].push_back(one[i][0]);
    }
    EXPECT_TRUE(apart(both));
    EXPECT_FALSE(apart(one));
    // Where addresses of all cables look alike, nobody knows which is which.
    MachinePlaces alike = mesh;
    int number = 1;
    for (auto& places : alike)
        for (Place& place : places)
            place.ip = tcp::Ip::parse("169.254.0." + std::to_string(number++)).value();
    EXPECT_FALSE(apart(alike));
}

struct Learnt {
    coll::Links links;
    Roads roads;
    bool operator==(const Learnt&) const = default;
};

// Every rank publishes, then every rank learns.
std::vector<Learnt> learn(const MachinePlaces& places, const std::string& history,
                          const std::string& said, Origin origin = Origin::pmix) {
    Table::Published published;
    auto ranks = static_cast<int>(places.size());
    for (int rank = 0; rank < ranks; ++rank) {
        Table wireup(published, rank, ranks, origin);
        // The others' histories are other ones, and count for nothing.
        EXPECT_TRUE(publish_machine_links(wireup, rank ? "/nowhere" : history));
        tcp::Address address{places[static_cast<size_t>(rank)]};
        EXPECT_TRUE(
            wireup.publish("tcp", link::write_addresses({{"tcp", tcp::write_address(address)}})));
    }
    std::vector<Learnt> out;
    for (int rank = 0; rank < ranks; ++rank) {
        Table wireup(published, rank, ranks, origin);
        Learnt& each = out.emplace_back();
        std::string problem;
        auto links = coll::parse_links(said, problem);
        EXPECT_TRUE(links.ok()) << problem;
        each.links = *links;
        learn_machine_links(wireup, said, each.links, each.roads);
    }
    return out;
}

TEST(MachineLinks, are_the_same_at_all_ranks_and_measured_figures_come_first) {
    std::string history = "/tmp/pomona-history-" + std::to_string(getpid());
    std::ofstream(history) << "v1 h0 h1 2026-01-01 20 1 tcp"
                           << "\n"
                           << "v1 h0 h1 2026-01-02 20 36 tcp"
                           << "\n"
                           << "v1 h0 h3 2026-01-02 50 9 tcp"
                           << "\n";
    auto learnt = learn(people_have(), history, "");
    for (const Learnt& each : learnt) EXPECT_EQ(each, learnt[0]);
    ASSERT_THAT(learnt[0].links.pairs, SizeIs(6));
    EXPECT_EQ(learnt[0].links.pairs[0].link.byte_ns, 0.33);  // 8 / 36, rounded up
    EXPECT_GT(learnt[0].links.pairs[1].link.byte_ns, 10);    // 0-2 is an estimate
    // mpirun has handed out what counts, and so has who names `net`.
    auto handed = learn(people_have(), history, "0-1=1:2:3", Origin::mpirun);
    EXPECT_EQ(handed[3], handed[0]);
    EXPECT_EQ(handed[0].links.pairs[0].link, (Link{1, 2, 3}));
    EXPECT_THAT(handed[0].links.pairs, SizeIs(6));
    for (const char* said : {"net=1:2:3", "copy=1,net=1:2:3", "built-in"})
        EXPECT_THAT(learn(people_have(), history, said)[2].links.pairs, IsEmpty()) << said;
    unlink(history.c_str());
}

}  // namespace
}  // namespace pomona
