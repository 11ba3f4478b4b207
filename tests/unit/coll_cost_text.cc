// tests/unit/coll_cost_text.cc: costs of links as text, as the kept file and as a fitted line; what
// depends on them. Nothing is timed.
#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"
#include "btl/base/random.h"
#include "coll/select.h"
#include "mpi/tools/tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <unistd.h>

namespace pomona {
namespace {

using coll::Link;
using coll::Links;

Links parsed(std::string_view text) {
    std::string problem;
    auto links = coll::parse_links(text, problem);
    EXPECT_TRUE(links.ok()) << text << ": " << problem;
    return links.ok() ? *links : Links();
}

TEST(LinksText, names_what_it_changes) {
    Links built_in;
    EXPECT_EQ(parsed(""), built_in);
    EXPECT_EQ(parsed("built-in"), built_in);
    Links some = parsed("tcp=4000:900.5:0.25,copy=0.04");
    EXPECT_EQ(some.tcp, (Link{4000, 900.5, 0.25}));
    EXPECT_EQ(some.copy_ns, 0.04);
    EXPECT_EQ(some.shm, built_in.shm);
    EXPECT_EQ(some.net, built_in.net);
    EXPECT_EQ(some.reduce_ns, built_in.reduce_ns);
    EXPECT_EQ(parsed("net=0:0.5:0").net, (Link{0, 0.5, 0}));
}

TEST(LinksText, comes_back_as_it_was_written) {
    EXPECT_EQ(parsed(coll::links_text({})), Links());
    Random random(11);
    auto number = [&](double unit) { return static_cast<double>(random.below(1 << 26)) / unit; };
    for (int i = 0; i < 1000; ++i) {
        Links links;
        for (Link* link : {&links.shm, &links.tcp, &links.net})
            *link = {number(100), number(10) + 1, number(100000)};
        links.copy_ns = number(100000), links.reduce_ns = number(100000);
        links.switch_ns = number(10), links.crowd = number(100000);
        links.ask_ns = number(10), links.fresh_ns = number(100000);
        links.byte_far_ns = number(100000), links.byte_eager_ns = number(100000);
        links.copy_far_ns = number(100000), links.reduce_far_ns = number(100000);
        links.both = number(100000), links.both_far = number(100000);
        links.chunk = number(100000), links.chunk_far = number(100000), links.hand = number(100000);
        links.bcast_far = number(100000);
        for (int a = 0; a < 4; ++a)
            for (int b = a + 1; b < 5; ++b)
                if (random.chance(0.5))
                    links.pairs.push_back(
                        {a, b, {number(100), number(10) + 1, number(100000)}, random.chance(0.3)});
        EXPECT_EQ(parsed(coll::links_text(links)), links) << coll::links_text(links);
    }
}

TEST(LinksText, names_pairs_of_machines_in_any_order) {
    Links links = parsed("1-3=7:8:9,net=1:2:3,0-12=4:5:6");
    EXPECT_EQ(links.net, (Link{1, 2, 3}));
    ASSERT_EQ(links.pairs.size(), 2u);
    EXPECT_EQ(links.pairs[0], (coll::PairLink{0, 12, {4, 5, 6}}));
    EXPECT_EQ(links.pairs[1], (coll::PairLink{1, 3, {7, 8, 9}}));
    std::string problem;
    for (const char* wrong :
         {"1-1=1:2:3", "2-1=1:2:3", "0-64=1:2:3", "-1-2=1:2:3", "0-1=1:2", "0-1=1:2:3,0-1=1:2:3",
          "0-=1:2:3", "0-1x=1:2:3", "0-1=1:2:3:cables", "0-1=:cable", "net=1:2:3:cable"})
        EXPECT_FALSE(coll::parse_links(wrong, problem).ok()) << wrong;
}

TEST(LinksText, names_cables_of_pairs_which_are_a_mesh_where_each_two_have_one) {
    std::string text = "net=1:2:3,0-1=4:5:6:cable,0-2=4:5:6:cable,1-2=4:5:6:cable,0-3=4:5:6:cable";
    Links links = parsed(text);
    EXPECT_EQ(links.pairs[0], (coll::PairLink{0, 1, {4, 5, 6}, true}));
    auto apart = [&](std::vector<int> nodes) {
        return coll::Machine::among(links, true, nodes).apart;
    };
    EXPECT_TRUE(apart({0, 1, 2}));
    EXPECT_TRUE(apart({2, 1, 0, 0, 1}));
    EXPECT_FALSE(apart({0, 1, 2, 3}));
    coll::Cables some = coll::Machine::among(links, true, std::vector<int>{0, 1, 2, 3}).cables;
    EXPECT_TRUE(some.between(3, 0) && some.between(1, 2));
    EXPECT_FALSE(some.between(1, 3) || some.between(0, 0));
    EXPECT_FALSE(apart({0, 1}));
    links.pairs[1].cable = false;
    EXPECT_FALSE(apart({0, 1, 2}));
}

TEST(LinksText, says_what_is_wrong) {
    for (const char* text : {"shm",
                             "shm=",
                             "shm=1",
                             "shm=1:2",
                             "shm=1:2:3:4",
                             "shm=1:2:x",
                             "shm=-1:2:3",
                             "shm=1:2:.5",
                             "shm=1:2:3.",
                             "shm=1:2:3.4.5",
                             "shm=1e3:2:3",
                             "shm=nan:2:3",
                             "shm=inf:1:1",
                             "shm=0:0:1",
                             "shm=1:2:3,",
                             ",shm=1:2:3",
                             "shm=1:2:3,shm=1:2:3",
                             "shm=1:2:3 ,copy=1",
                             "SHM=1:2:3",
                             "copy=",
                             "copy=1:2",
                             "copy=0x1",
                             "reduce=99999999999",
                             "copy=1,reduce",
                             "colour=3",
                             "=",
                             "built-in,copy=1",
                             "reduce=1111111111111111111111111111111111111111"}) {
        std::string problem;
        auto links = coll::parse_links(text, problem);
        EXPECT_FALSE(links.ok()) << text;
        EXPECT_FALSE(problem.empty()) << text;
    }
}

TEST(LinksText, says_which_links_a_communicator_has) {
    Links links = parsed("shm=1:1:1,tcp=2:2:2,net=3:3:3,copy=4,reduce=5");
    coll::Machine one = coll::Machine::of(links, true, false);
    coll::Machine loopback = coll::Machine::of(links, false, false);
    coll::Machine many = coll::Machine::of(links, true, true);
    EXPECT_EQ(one.near, links.shm);
    EXPECT_EQ(one.far, links.shm);
    EXPECT_EQ(loopback.near, links.tcp);
    EXPECT_EQ(many.near, links.shm);
    EXPECT_EQ(many.far, links.net);
    EXPECT_EQ(one.copy_ns, 4);
    EXPECT_EQ(one.reduce_ns, 5);
}

// Two ranks a core: half the speed, and every message waits for a turn; links between machines
// stay.
TEST(LinksText, tells_of_crowded_cores) {
    Links links = parsed("shm=1:10:100,net=3:3:3,copy=4,reduce=5,switch=1000,crowd=2");
    coll::Machine crowded = coll::Machine::of(links, true, true);
    EXPECT_EQ(crowded.near, (Link{1001, 20, 200}));
    EXPECT_EQ(crowded.far, links.net);
    EXPECT_EQ(crowded.copy_ns, 8);
    EXPECT_EQ(crowded.reduce_ns, 10);
    links.crowd = 0.5;  // more cores than ranks speed nothing up
    EXPECT_EQ(coll::Machine::of(links, true, false).near, links.shm);
}

// Shared memory of one machine has its step and its bend; other links are lines.
TEST(LinksText, tells_of_large_messages) {
    Links links = parsed(
        "shm=0:50:0.5,copy=1,reduce=2,ask=8,fresh=3,byte_eager=0.75,byte_far=1,copy_far=4,reduce_far=1");
    coll::Machine one = coll::Machine::of(links, true, false);
    EXPECT_EQ(one.ask_ns, 14);  // ranks are busy meanwhile
    EXPECT_EQ(one.ask_times, 1);
    EXPECT_EQ(one.fresh_ns, 3);
    EXPECT_EQ(one.byte_far, 2);
    EXPECT_EQ(one.copy_far, 4);
    EXPECT_EQ(one.reduce_far, 1) << "memory is not quicker than the cache";
    EXPECT_FALSE(one.overlaps);
    coll::Machine loopback = coll::Machine::of(links, false, false);
    coll::Machine cluster = coll::Machine::of(links, true, true);
    for (const coll::Machine& line : {loopback, cluster}) {
        EXPECT_TRUE(line.overlaps);
        EXPECT_EQ(line.fresh_ns, 0);
        EXPECT_EQ(line.byte_far, 1);
        EXPECT_EQ(line.copy_far, 4) << "a core's memory is the same behind any link";
    }
    EXPECT_EQ(loopback.ask_ns, 4 * links.tcp.overhead_ns);
    EXPECT_EQ(loopback.both_far, links.both_far);
    EXPECT_EQ(cluster.ask_ns, 0);
    EXPECT_EQ(cluster.ask_overhead_ns, 4 * links.net.overhead_ns);
    EXPECT_EQ(cluster.both_far, 1) << "there and back are two lines";
    coll::Shape shape{.collective = coll::Collective::allreduce, .size = 2, .count = 8192};
    EXPECT_EQ(coll::Facts(shape, one, {}).a, 100);
    EXPECT_EQ(coll::Facts(shape, one, {}).b, 0.75);
    EXPECT_EQ(coll::Facts(shape, one, {}).f, 3);
    shape.count = 16384;
    EXPECT_EQ(coll::Facts(shape, one, {}).a, 114);
    EXPECT_EQ(coll::Facts(shape, one, {}).b, 0.5);
    shape.count = 8 << 20;
    EXPECT_EQ(coll::Facts(shape, one, {}).b, 1);
    EXPECT_EQ(coll::Facts(shape, one, {}).c, 4);
    EXPECT_EQ(coll::Facts(shape, one, {}).f, 0);
    // Where ranks share cores, who asks waits for turns, and copies are interrupted.
    links.crowd = 2, links.switch_ns = 100;
    coll::Machine crowded = coll::Machine::of(links, true, false);
    EXPECT_EQ(crowded.ask_ns, 28 + 400);
    EXPECT_EQ(crowded.ask_times, 1.75);
}

// Goal: the fitted step and bend give back what was measured.
TEST(SharedMemoryFit, meets_its_points) {
    LinkMeasurement measured;
    measured.gap_ns = 100, measured.fresh_ns = 0.05;
    for (size_t bytes : {8u, 64u, 256u, 1024u, 4096u}) measured.points.push_back({bytes, 300});
    measured.points.back().ns = 300 + 4096 * 0.2;
    auto large = [](double bytes) { return 1000 + bytes * 0.03; };
    for (size_t bytes : {16u << 10, 64u << 10, 256u << 10})
        measured.points.push_back({bytes, large(static_cast<double>(bytes))});
    measured.points.push_back({1 << 20, 60000});
    measured.points.push_back({4 << 20, 300000});
    measured.points.push_back({16 << 20, 1000 + 0.08 * (16 << 20)});
    measured.copy_near = 0.02, measured.copy_far = 0.07;
    measured.reduce_near = 0.03, measured.reduce_far = 0.06;
    measured.both_near = 1.5 * large(256 << 10),
    measured.both_far = 1.25 * measured.points.back().ns;
    Links links;
    fit_shared_memory(measured, links);
    EXPECT_NEAR(links.shm.message_ns(), 300, 1e-6);
    EXPECT_NEAR(links.shm.byte_ns, 0.03, 1e-6);
    EXPECT_NEAR(links.ask_ns, 700, 1e-6);
    EXPECT_NEAR(links.byte_far_ns, 0.08, 1e-6);
    EXPECT_NEAR(links.byte_eager_ns, 0.2, 1e-6);
    EXPECT_EQ(links.fresh_ns, 0.05);
    EXPECT_EQ(links.copy_ns, 0.02);
    EXPECT_EQ(links.copy_far_ns, 0.07);
    EXPECT_EQ(links.reduce_ns, 0.03);
    EXPECT_EQ(links.reduce_far_ns, 0.06);
    EXPECT_NEAR(links.both, 1.5, 1e-6);
    EXPECT_NEAR(links.both_far, 1.25, 1e-6);
    EXPECT_NEAR(shared_memory_ns(links, 64 << 10), large(64 << 10), 1e-3);
    EXPECT_NEAR(shared_memory_ns(links, 8), 300, 2);
    LinkMeasurement again;
    EXPECT_TRUE(parse_measurement(measurement_text(measured), again));
    EXPECT_EQ(again.fresh_ns, 0.05);
    // Nonsense measured on a busy machine makes no nonsense of costs.
    for (LinkPoint& point : measured.points) point.ns = 5000;
    measured.fresh_ns = -1, measured.both_near = 0, measured.both_far = 1e12;
    fit_shared_memory(measured, links);
    EXPECT_GT(links.shm.byte_ns, 0);
    EXPECT_GE(links.ask_ns, 0);
    EXPECT_EQ(links.fresh_ns, 0);
    EXPECT_GE(links.byte_far_ns, links.shm.byte_ns);
    EXPECT_EQ(links.both, 1);
    EXPECT_LE(links.both_far, 3);
}

// Goal: what the chunks' formula says with the fitted costs is what was measured. Method: costs are
// made up, the formula says what would be measured with them, and the fit has to find them again.
TEST(SharedMemoryFit, finds_what_chunks_take) {
    LinkMeasurement measured;
    measured.gap_ns = 50, measured.copy_near = 0.01, measured.copy_far = 0.06;
    measured.reduce_near = 0.02, measured.reduce_far = 0.07;
    for (size_t bytes = 8; bytes <= kTuneFar; bytes *= 2)
        measured.points.push_back({bytes, 200 + 0.03 * static_cast<double>(bytes)});
    Links made_up;
    fit_shared_memory(measured, made_up);
    made_up.hand = 0.4, made_up.chunk = 1.25, made_up.chunk_far = 0.6, made_up.bcast_far = 0.75;
    using coll::Collective;
    auto takes = [](const Links& links, size_t bytes, Collective what = Collective::allreduce) {
        coll::Shape shape{.collective = what,
                          .size = 2,
                          .count = bytes / 4,
                          .element = 4,
                          .in_place = what == Collective::allreduce,
                          .board = true};
        return coll::find_algorithm(shape.collective, "chunks")
            ->cost(coll::Facts(shape, coll::Machine::of(links, true, false), {}));
    };
    measured.chunks_short = takes(made_up, kTuneShort);
    measured.chunks_near = takes(made_up, kTuneNear);
    measured.chunks_far = takes(made_up, kTuneFar);
    measured.bcast_far = takes(made_up, kTuneFar, Collective::bcast);
    Links found;
    fit_shared_memory(measured, found);
    EXPECT_NEAR(found.hand, 0.4, 1e-6);
    EXPECT_NEAR(found.chunk, 1.25, 1e-6);
    EXPECT_NEAR(found.chunk_far, 0.6, 1e-6);
    EXPECT_NEAR(found.bcast_far, 0.75, 1e-6);
    // Nothing measured, or nonsense: a cost that can be reckoned with.
    for (double ns : {0.0, 1.0, 1e12}) {
        measured.chunks_short = ns, measured.chunks_near = 1,
        measured.chunks_far = measured.bcast_far = ns;
        fit_shared_memory(measured, found);
        for (double times : {found.hand, found.chunk, found.chunk_far, found.bcast_far})
            EXPECT_TRUE(times >= 0.1 && times <= 4) << times;
    }
}

// Goal: costs of chunks and of both ways decide. Method: the same call, one of them dear.
TEST(SharedMemoryFit, decides_between_chunks_and_messages) {
    coll::Shape shape{.collective = coll::Collective::allreduce,
                      .size = 2,
                      .count = 4 << 20,
                      .element = 4,
                      .in_place = true,
                      .board = true};
    auto chosen = [&](const char* text) {
        return std::string(
            coll::select(shape, coll::Machine::of(parsed(text), true, false)).algorithm->name);
    };
    EXPECT_EQ(chosen("chunk_far=0.3"), "chunks");
    EXPECT_NE(chosen("chunk_far=4"), "chunks");
    EXPECT_EQ(chosen("both_far=3,chunk_far=2"), "chunks");
    EXPECT_NE(chosen("both_far=1,chunk_far=2"), "chunks");
    shape.count = 4096;
    EXPECT_EQ(chosen("hand=0.1"), "chunks");
    EXPECT_NE(chosen("hand=4"), "chunks");
}

// Goal: measured costs decide. Method: the same call where latency is dear, and where bytes are.
TEST(LinksText, decides_which_algorithm_serves) {
    coll::Shape shape{
        .collective = coll::Collective::allreduce, .size = 16, .count = 16384, .element = 4};
    auto chosen = [&](const char* text) {
        return std::string(
            coll::select(shape, coll::Machine::of(parsed(text), true, false)).algorithm->name);
    };
    std::string dear_latency = chosen("shm=10000000:10000000:0.001");
    std::string dear_bytes = chosen("shm=1:1:1000");
    EXPECT_NE(dear_latency, dear_bytes);
}

// Goal: through TCP a ring's pieces hide sums, and stay long: short ones cost more to ask for than
// they hide.
TEST(LinksText, cuts_rings_through_tcp_in_long_pieces) {
    const int one[] = {0, 0}, two[] = {0, 1};
    for (bool several : {false, true})
        for (size_t mib : {1, 2, 4, 16, 64}) {
            coll::Shape shape{.collective = coll::Collective::allreduce,
                              .size = 2,
                              .count = mib << 20,
                              .nodes = several ? two : one};
            coll::Plan plan = coll::select(shape, coll::Machine::of({}, false, several));
            EXPECT_EQ(std::string(plan.algorithm->name), "ring") << mib;
            auto segments = static_cast<size_t>(plan.options.segments);
            EXPECT_TRUE(segments == 1 || (mib << 20) / 2 / segments >= 512 << 10) << mib;
            EXPECT_EQ(segments > 1, mib > 1) << mib;
        }
}

TEST(LinksFile, keeps_links_of_this_machine_only) {
    KeptLinks kept{links_machine(), "2026-01-31", coll::links_text({})};
    auto again = parse_links_file(links_file_text(kept));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->machine, kept.machine);
    EXPECT_EQ(again->date, kept.date);
    EXPECT_EQ(again->text, kept.text);

    char folder[] = "/tmp/pomona-links-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    std::string path = std::string(folder) + "/a/links";
    EXPECT_EQ(load_links(path).error().code, Code::not_found);
    ASSERT_TRUE(write_kept(path, links_file_text(kept)).ok());
    EXPECT_TRUE(load_links(path).ok());
    kept.machine += " of somebody else";
    ASSERT_TRUE(write_kept(path, links_file_text(kept)).ok());
    EXPECT_EQ(load_links(path).error().code, Code::not_found);
    ASSERT_TRUE(write_kept(path, "pomona-links 2\n").ok());
    EXPECT_EQ(load_links(path).error().code, Code::malformed);
    EXPECT_FALSE(write_kept("/dev/null/links", "x").ok());
    unlink(path.c_str());
    rmdir((std::string(folder) + "/a").c_str());
    rmdir(folder);
}

TEST(LinksFile, refuses_what_is_none) {
    for (const char* text :
         {"", "pomona-links 1", "pomona-links 1\n", "pomona-links 1\nmachine x\n",
          "pomona-links 1\nmachine x\ndate y\n", "pomona-links 1\nmachine \ndate y\nz\n",
          "pomona-links 1\ndate y\nmachine x\nz\n", "pomona-links 1\nmachine x\ndate y\nz\nmore\n",
          "pomona-links 1\nmachine x\ndate y\nz\r\n", "pomona-links 1\nmachine x\ndate y\nz\x7f\n"})
        EXPECT_FALSE(parse_links_file(text).ok()) << text;
    EXPECT_FALSE(
        parse_links_file("pomona-links 1\nmachine x\ndate y\n" + std::string(600, 'z') + "\n")
            .ok());
}

TEST(LinksFit, finds_the_line_behind_its_points) {
    std::vector<LinkPoint> points;
    for (size_t bytes = 8; bytes <= (4 << 20); bytes *= 4)
        points.push_back({bytes, 250 + 0.125 * static_cast<double>(bytes)});
    Link link = fit_link(points, 40);
    EXPECT_NEAR(link.overhead_ns, 40, 1e-6);
    EXPECT_NEAR(link.message_ns(), 250, 1e-6);
    EXPECT_NEAR(link.byte_ns, 0.125, 1e-9);
    // A stream that is slower than a single message: L does not go below 0, the line stays.
    link = fit_link(points, 1000);
    EXPECT_NEAR(link.overhead_ns, 125, 1e-6);
    EXPECT_NEAR(link.latency_ns, 0, 1e-6);
    EXPECT_NEAR(link.byte_ns, 0.125, 1e-9);
}

// Goal: both ends count. Method: points off the line by the same factor in both directions; the fit
// by least squares of times alone would leave the short ones to chance.
TEST(LinksFit, weighs_short_messages_like_long_ones) {
    std::vector<LinkPoint> points;
    double sign = 1;
    for (size_t bytes = 8; bytes <= (4 << 20); bytes *= 2, sign = -sign)
        points.push_back({bytes, (1 + 0.1 * sign) * (500 + 0.2 * static_cast<double>(bytes))});
    Link link = fit_link(points, 100);
    EXPECT_NEAR(link.message_ns(), 500, 50);
    EXPECT_NEAR(link.byte_ns, 0.2, 0.02);
}

TEST(LinksFit, makes_sense_of_any_points) {
    for (std::vector<LinkPoint> points : {std::vector<LinkPoint>{},
                                          {{8, 100}},
                                          {{8, 100}, {8, 100}},
                                          {{8, 5000}, {1 << 20, 100}},
                                          {{8, 0}, {64, 0}},
                                          {{64, 1}, {1 << 20, 9e9}}}) {
        Link link = fit_link(points, 70);
        EXPECT_GT(link.message_ns(), 0);
        EXPECT_GE(link.latency_ns, 0);
        EXPECT_GE(link.byte_ns, 0);
        EXPECT_TRUE(std::isfinite(link.message_ns() + link.byte_ns));
    }
}

TEST(LinksFit, reads_what_a_rank_found) {
    LinkMeasurement measured{{{8, 100.5}, {4096, 900}},
                             33.25,
                             0.06,
                             0.04,
                             0.1,
                             0.05,
                             0.2,
                             7,
                             800,
                             500,
                             9000,
                             12000.5,
                             11000},
        again;
    std::string text = measurement_text(measured);
    ASSERT_TRUE(parse_measurement(text, again));
    ASSERT_EQ(again.points.size(), 2u);
    EXPECT_EQ(again.points[1].bytes, 4096u);
    EXPECT_EQ(again.points[0].ns, 100.5);
    EXPECT_EQ(again.gap_ns, 33.25);
    EXPECT_EQ(again.fresh_ns, 0.06);
    EXPECT_EQ(again.reduce_far, 0.2);
    EXPECT_EQ(again.both_far, 800);
    EXPECT_EQ(again.chunks_short, 500);
    EXPECT_EQ(again.chunks_far, 12000.5);
    EXPECT_EQ(again.bcast_far, 11000);
    for (const std::string& bad : {std::string(), std::string("end\n"), text + "end\n",
                                   "warning\n" + text, text.substr(0, text.size() - 4)}) {
        LinkMeasurement none;
        EXPECT_FALSE(parse_measurement(bad, none)) << bad;
    }
}

}  // namespace
}  // namespace pomona
