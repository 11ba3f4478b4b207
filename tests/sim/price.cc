// tests/sim/price.cc: coll/price against the simulator, its errors, and its memory.
// Goal: one price: what the runs with faults take in a calm network is what coll/price says, on
// like and unlike links; and ranks that stand for others change nothing.
#include "btl/base/ports.h"
#include "coll/price.h"
#include "tests/sim/collective_time.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace pomona {
namespace {

using coll::Collective;

const coll::Machine kMachine = {{1, 1}, {200, 50, 0.05}, {5000, 800, 0.5}, 0.1, 0.3};

// The same by lines of 100 Mb/s, where long messages ask first.
coll::Machine slow_machine() {
    coll::Machine machine = kMachine;
    machine.far = {30000, 2500, 80};
    machine.asks_far = true;
    return machine;
}

coll::Shape shape_of(Collective collective, int p, size_t bytes, const std::vector<int>& nodes) {
    coll::Shape shape;
    shape.collective = collective;
    shape.size = p;
    shape.element = 8;
    shape.count = collective == Collective::barrier ? 0 : bytes / 8;
    shape.board = true;
    shape.nodes = nodes;
    return shape;
}

// Each link has numbers of its own, some pairs of hosts a cable.
LinkMap unlike(Random& random, std::vector<int> hosts) {
    LinkMap map = coll::links_of(kMachine, std::move(hosts));
    auto count = static_cast<size_t>(map.host_count());
    auto draw = [&] {
        return LinkCost{100 + 1e4 * random.unit(), 10 + 500 * random.unit(), 2 * random.unit()};
    };
    int cables = 0;
    map.between.resize(count * count);
    for (size_t a = 0; a < count; ++a) {
        map.within.push_back(map.near);  // boards have the machine's
        map.line_byte_ns.push_back(random.unit());
        for (size_t b = 0; b < a; ++b) {
            int cable = random.chance(0.3) ? cables++ : -1;
            map.between[a * count + b] = {draw(), cable};
            map.between[b * count + a] = {draw(), cable};
        }
    }
    return map;
}

double simulated(const coll::Algorithm& row, const coll::Shape& shape, const coll::Options& options,
                 const LinkMap& map) {
    return sim::collective_time(row, shape, options, kMachine, map);
}

double priced(const coll::ScheduleSet& set, const LinkMap& map, bool collapse, int* run = nullptr) {
    std::string problem;
    auto price = set.price({kMachine, map, {}}, problem, collapse);
    EXPECT_TRUE(price.ok()) << problem;
    if (!price.ok()) return -1;
    if (run) *run = price->simulated;
    return price->ns;
}

TEST(Price, is_what_the_simulator_takes) {
    Random random(20);
    int compared = 0, saved = 0;
    for (const coll::Algorithm& row : coll::catalog())
        for (int p : {2, 3, 4, 6, 8, 13, 16})
            for (size_t bytes : {64u, 40000u, 1u << 20})
                for (int per_node : {0, 1, 2, 4}) {
                    if (row.collective == Collective::neighbor) continue;
                    if (per_node && p % per_node) continue;
                    std::vector<int> nodes;
                    for (int r = 0; r < p && per_node; ++r) nodes.push_back(r / per_node);
                    coll::Options options{row.uses_segments && bytes > 30000 ? 4 : 1, 2};
                    coll::Shape shape = shape_of(row.collective, p, bytes, nodes);
                    if (!row.legal(coll::Facts(shape, kMachine, options))) continue;
                    auto set = coll::ScheduleSet::of(row, shape, options);
                    LinkMap like = coll::links_of(kMachine, nodes);
                    int run = 0;
                    double whole = priced(set, like, false), less = priced(set, like, true, &run);
                    std::string what = std::string(collective_name(row.collective)) + "/" +
                                       row.name + " p=" + std::to_string(p) + " of " +
                                       std::to_string(bytes) + ", " + std::to_string(per_node);
                    EXPECT_DOUBLE_EQ(whole, simulated(row, shape, options, like)) << what;
                    // Messages that meet at a port at one time may come in another order.
                    EXPECT_NEAR(less / std::max(whole, 1.0), 1, whole ? 0.02 : 1) << what;
                    LinkMap others = unlike(random, nodes);
                    EXPECT_DOUBLE_EQ(priced(set, others, false),
                                     simulated(row, shape, options, others))
                        << what << " on unlike links";
                    LinkMap slow = coll::links_of(slow_machine(), nodes);
                    EXPECT_DOUBLE_EQ(priced(set, slow, false), simulated(row, shape, options, slow))
                        << what << " on slow lines";
                    ++compared, saved += run < p;
                }
    std::printf("%d prices compared, %d of them by fewer ranks\n", compared, saved);
    EXPECT_GT(compared, 500);
    EXPECT_GT(saved, 200);
}

// Goal: ranks that share a line and post many messages at once take turns on it, and a rank that is
// busy with one message does not keep the line from others. Method: short messages of each to all
// others, whose time is the ranks' own: a line's 144 messages of a host take 25 us, each rank's 24
// take 64 us to send and as long to receive. One rank after the other would take 400 us.
TEST(Price, ranks_of_a_host_take_turns_on_its_line) {
    std::vector<int> hosts;
    for (int r = 0; r < 30; ++r) hosts.push_back(r % 5);
    coll::Links links;
    links.net = {25000, 2500, 0.08};
    coll::Machine machine = coll::Machine::among(links, true, hosts);
    for (Collective collective : {Collective::allgather, Collective::alltoall}) {
        coll::Shape shape = shape_of(collective, 30, 2184, hosts);
        const coll::Algorithm& row = *coll::find_algorithm(collective, "linear");
        auto set = coll::ScheduleSet::of(row, shape, {});
        std::string problem;
        auto price = set.price({machine, coll::links_of(machine, hosts), {}}, problem);
        ASSERT_TRUE(price.ok()) << problem;
        EXPECT_LT(price->ns, 64'000 + 64'000 + 30'000) << collective_name(collective);
        EXPECT_GT(price->ns, 64'000 + 25'000);
    }
}

// A ring among hosts of which one has a slow line takes about that line's time.
TEST(Price, sees_a_slow_line_and_a_slow_rank) {
    std::vector<int> hosts{0, 1, 2, 3};
    coll::Shape shape = shape_of(Collective::allreduce, 4, 8 << 20, hosts);
    const coll::Algorithm& ring = *coll::find_algorithm(Collective::allreduce, "ring");
    auto set = coll::ScheduleSet::of(ring, shape, {});
    LinkMap map = coll::links_of(kMachine, hosts);
    double even = priced(set, map, true);
    map.within.assign(4, map.near);
    map.between.assign(16, {map.far, -1});
    for (int other : {0, 1, 3}) map.between[2 * 4 + other] = {{5000, 800, 5}, -1};
    double slow = priced(set, map, true);
    EXPECT_GT(slow / even, 5);
    std::string problem;
    auto slower = set.price({kMachine, coll::links_of(kMachine, hosts), {1, 1, 8, 1}}, problem);
    ASSERT_TRUE(slower.ok());
    EXPECT_GT(slower->ns / even, 3);
    EXPECT_EQ(slower->messages, 24u);
    EXPECT_EQ(slower->bytes, 6u * (8 << 20));
}

// Two hosts whose way is slower than their lines, which others use: what goes by it in pieces goes
// one piece after the other.
TEST(Price, keeps_to_the_rate_of_a_way_slower_than_its_lines) {
    std::vector<int> hosts{0, 1, 2};
    LinkMap map = coll::links_of(kMachine, hosts);
    constexpr double kSlow = 80, kQuick = 0.8;  // ns a byte: 0.1 and 10 Gb/s
    map.within.assign(3, map.near);
    map.between.assign(9, {{5000, 800, kQuick}, -1});
    map.between[0 * 3 + 1] = map.between[1 * 3 + 0] = {{5000, 800, kSlow}, -1};
    map.line_byte_ns.assign(3, kQuick);
    map.port_byte_ns = 0.1;
    constexpr size_t kPiece = 64 << 10;
    constexpr int kPieces = 32;
    Ports ports(3, map);
    double now = 0, last = 0;
    for (int piece = 0; piece < kPieces; ++piece)
        last = ports.arrive(ports.depart(now, 0, 1, kPiece).head, 0, 1, kPiece);
    EXPECT_GT(last, kPieces * kPiece * kSlow);
    EXPECT_LT(last, 1.1 * kPieces * kPiece * kSlow);
    // The lines are free for others meanwhile.
    last = ports.arrive(ports.depart(now, 0, 2, kPiece).head, 0, 2, kPiece);
    EXPECT_LT(last, 2.0 * kPieces * kPiece * kQuick);
}

std::string problem_of(std::initializer_list<void (*)(coll::Builder&)> ranks) {
    coll::ScheduleSet set(static_cast<int>(ranks.size()));
    coll::Shape shape = shape_of(Collective::allreduce, static_cast<int>(ranks.size()), 64, {});
    for (auto build : ranks) {
        coll::Builder builder(shape);
        build(builder);
        set.add(builder.finish());
        ++shape.rank;
    }
    std::string problem;
    auto price = set.price({kMachine, coll::links_of(kMachine, {}), {}}, problem);
    EXPECT_FALSE(price.ok());
    return problem;
}

TEST(Price, names_what_does_not_fit) {
    EXPECT_EQ(
        problem_of({[](coll::Builder& s) { s.send(1, s.input(0, 8)); }, [](coll::Builder&) {}}),
        "Rank 0 sends 1 messages to rank 1, which receives 0");
    EXPECT_EQ(problem_of({[](coll::Builder& s) { s.send(1, s.input(0, 8)); },
                          [](coll::Builder& s) { s.recv(0, s.result(0, 16)); }}),
              "Rank 0 sends 8 bytes to rank 1, which expects 16 (slot 0)");
    auto waits_first = [](coll::Builder& s) {
        s.recv(1, s.result(0, 8));
        s.send(1, s.result(0, 8));
    };
    auto also = [](coll::Builder& s) {
        s.recv(0, s.result(0, 8));
        s.send(0, s.result(0, 8));
    };
    EXPECT_EQ(problem_of({waits_first, also}),
              "Deadlock: rank 0 waits for ever, 2 of its steps are not over");
}

struct Large {
    const char* name;
    Collective collective;
    int per_node;
    size_t bytes;
};

// In a child process, whose memory the system counts. Exit code 1: no price.
long child_kilobytes(const Large& each, int p, double* seconds) {
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        std::vector<int> nodes;
        for (int r = 0; r < p && each.per_node; ++r) nodes.push_back(r / each.per_node);
        coll::Shape shape = shape_of(each.collective, p, each.bytes, nodes);
        std::string problem;
        auto price = coll::price(*coll::find_algorithm(each.collective, each.name), shape, {},
                                 {kMachine, coll::links_of(kMachine, nodes), {}}, problem);
        _exit(price.ok() && price->ns > 0 ? 0 : 1);
    }
    auto begin = std::chrono::steady_clock::now();
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << each.name;
    return usage.ru_maxrss;
}

// Goal: 4,096 ranks stay under 1 GiB. Whole copies of a ring's schedules alone are more than 4.
TEST(Price, of_4096_ranks_within_a_gibibyte) {
    for (const Large& each : {Large{"ring", Collective::allreduce, 0, 8 << 20},
                              {"rabenseifner", Collective::allreduce, 0, 8 << 20},
                              {"recursive_doubling", Collective::allreduce, 8, 4096},
                              {"tree", Collective::bcast, 0, 1 << 20}}) {
        double seconds = 0;
        long kilobytes = child_kilobytes(each, 4096, &seconds);
        std::printf("%s/%s, %d a host: %.1f MiB, %.2f s\n", collective_name(each.collective),
                    each.name, each.per_node, static_cast<double>(kilobytes) / 1024, seconds);
        EXPECT_LT(kilobytes, 1 << 20) << each.name;
    }
}

}  // namespace
}  // namespace pomona
