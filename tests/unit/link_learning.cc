// tests/unit/link_learning.cc: what ways have carried while they were full (LineSeen), what ranks
// tell of it, and how a job mends the history of links (link_learning.h).
#include "btl/base/intake.h"
#include "btl/base/kept_file.h"
#include "pmix/link_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {
namespace {

using What = Learnt::What;
using Source = LinkMemory::Source;
using ::testing::IsEmpty;

constexpr Nanoseconds kMs = 1'000'000;
constexpr double k100Mb = 0.0125;  // bytes a nanosecond

FullTime full(Nanoseconds begin, Nanoseconds end, double rate) {
    return {begin, end, static_cast<uint64_t>(rate * static_cast<double>(end - begin))};
}

// ---- what a way has carried

TEST(LineSeen, a_full_way_is_seen_and_one_that_is_not_full_is_not) {
    Intake intake;
    LineSeen seen;
    Nanoseconds now = 1;
    for (int i = 0; i < 64; ++i) intake.took(64 << 10, false, now += kMs, 0, &seen);
    EXPECT_THAT(seen.times(), IsEmpty());
    for (int i = 0; i < 64; ++i) intake.took(128 << 10, true, now += 10 * kMs, 0, &seen);
    std::vector<FullTime> times = seen.times();
    ASSERT_GT(times.size(), 5u);
    for (const FullTime& each : times)
        EXPECT_NEAR(static_cast<double>(each.bytes) / static_cast<double>(each.end - each.begin),
                    (128 << 10) / 10e6, 1e-6);
    EXPECT_EQ(times.back().end, now);
}

TEST(LineSeen, pauses_are_in_no_time_and_what_is_short_is_forgotten) {
    LineSeen seen;
    Nanoseconds now = 0;
    for (int i = 0; i < 100; ++i, now += 500 * kMs) seen.carried(now, now + kMs, 1 << 20);
    EXPECT_THAT(seen.times(), IsEmpty());  // each too short
    for (int i = 0; i < 100; ++i, now += 500 * kMs) seen.carried(now, now + 8 * kMs, 1 << 20);
    EXPECT_EQ(seen.times().size(), 33u);  // the last ones
    for (const FullTime& each : seen.times()) EXPECT_EQ(each.end - each.begin, 8 * kMs);
    for (size_t i = 1; i < 33; ++i) EXPECT_GT(seen.times()[i].begin, seen.times()[i - 1].begin);
}

// ---- the rate of a line

TEST(LinkLearning, the_best_stretch_counts_if_it_is_long_enough) {
    EXPECT_EQ(best_rate({}), 0);
    EXPECT_EQ(best_rate({full(0, 84 * kMs, k100Mb)}), 0);  // a mebibyte
    std::vector<FullTime> times;
    for (int i = 0; i < 8; ++i) times.push_back(full(i * 84 * kMs, (i + 1) * 84 * kMs, k100Mb));
    EXPECT_NEAR(best_rate(times), k100Mb, 1e-4);
    // For a while the receiver did not read.
    for (int i = 8; i < 30; ++i)
        times.push_back(full(i * 84 * kMs, (i + 1) * 84 * kMs, k100Mb / 9));
    EXPECT_NEAR(best_rate(times), k100Mb, 1e-4);
    // One burst is no line.
    times.push_back(full(99'000 * kMs, 99'001 * kMs, 10));
    EXPECT_NEAR(best_rate(times), k100Mb, 1e-4);
    EXPECT_EQ(best_rate({full(0, kMs, 10)}), 0);  // 10 MB, in too short a time
}

TEST(LinkLearning, ranks_that_share_a_line_are_added_up_where_they_sent_at_once) {
    std::vector<FullTime> together, apart;
    for (int rank = 0; rank < 8; ++rank) {
        together.push_back(full(rank, 1000 * kMs + rank, k100Mb / 8));
        apart.push_back(full(rank * 1000 * kMs, (rank + 1) * 1000 * kMs, k100Mb));
    }
    EXPECT_NEAR(best_rate(together), k100Mb, 1e-4);
    EXPECT_NEAR(best_rate(apart), k100Mb, 1e-4);
}

LinesSeen seen_between(int from, int to, double rate, Nanoseconds trip = 0) {
    LinesSeen out;
    LineTold told{9, trip, 20'000, "tcp", {full(0, 1000 * kMs, rate)}};
    out.add(from, to, told);
    return out;
}

TEST(LinkLearning, a_pair_has_the_better_direction_and_the_shortest_trip) {
    LinesSeen lines = seen_between(1, 0, k100Mb, 400'000);
    lines.add(0, 1, {9, 200'000, 20'000, "tcp back", {full(0, 1000 * kMs, 2 * k100Mb)}});
    lines.add(1, 1, {9, 1, 1, "no line", {full(0, 1000 * kMs, 1)}});
    lines.add(0, 7, {9, 1, 1, "no host", {full(0, 1000 * kMs, 1)}});
    lines.add(0, 2, {9, 0, 20'000, "one name", {full(0, 1000 * kMs, 1)}});
    std::vector<LinkMemory> pairs = lines.pairs({"mac2", "mac1", "a b"}, "2026-11-27");
    ASSERT_EQ(pairs.size(), 1u);
    EXPECT_EQ(pairs[0].hosts, "mac1 mac2");
    EXPECT_NEAR(pairs[0].gigabits, 0.2, 1e-3);
    EXPECT_EQ(pairs[0].latency_us, 100);
    EXPECT_EQ(pairs[0].by, "tcp back");
    // Without an answer: as the job reckoned.
    EXPECT_EQ(seen_between(0, 1, 1).pairs({"a", "b"}, "d").at(0).latency_us, 20);
}

// ---- the rules

LinkMemory saw(double gigabits, double latency_us = 30) {
    return {"a b", "2026-11-27", latency_us, gigabits, "tcp"};
}
const LinkMemory kMeasured{"a b", "2026-11-01", 20, 1.2, "tcp"};

TEST(LinkLearning, who_has_no_figures_gets_them_at_once) {
    std::vector<LinkMemory> memory{{"a c", "2026-11-01", 20, 1.2, "tcp"}};
    Learnt learnt = learn(memory, saw(0.095), 10, 20);
    EXPECT_EQ(learnt.what, What::first);
    ASSERT_EQ(memory.size(), 2u);
    EXPECT_EQ(memory[1].source, Source::job);
    std::string missing;
    EXPECT_EQ(net_costs(memory, {"b", "a"}, missing), "net=25000:2500:84.21053");
    EXPECT_TRUE(learnt.changed);
    // Without any latency nothing can be reckoned.
    memory.clear();
    EXPECT_EQ(learn(memory, saw(1, 0), 10, 20).what, What::nothing);
    EXPECT_THAT(memory, IsEmpty());
}

TEST(LinkLearning, what_no_line_does_is_not_believed) {
    std::vector<LinkMemory> memory{kMeasured};
    for (const LinkMemory& seen : {saw(1e14), saw(0), saw(-1), saw(9, 2e9), saw(9, -1)})
        EXPECT_FALSE(learn(memory, seen, 10, 20).changed);
    EXPECT_EQ(link_memory_text(memory), link_memory_text({kMeasured}));
    // Whatever stands in the file, jobs can read what they get of it.
    std::string missing;
    EXPECT_EQ(net_costs({saw(8, 0.001)}, {"a", "b"}, missing), "net=50:25:1.00000");
}

TEST(LinkLearning, about_the_same_changes_nothing) {
    for (double rate : {0.81, 1.0, 1.2, 1.79}) {
        std::vector<LinkMemory> memory{kMeasured};
        Learnt learnt = learn(memory, saw(rate), 10, 20);
        EXPECT_EQ(learnt.what, What::nothing) << rate;
        EXPECT_FALSE(learnt.changed) << rate;
        EXPECT_EQ(memory.size(), 1u) << rate;
    }
}

TEST(LinkLearning, more_counts_at_once) {
    std::vector<LinkMemory> memory{kMeasured};
    Learnt learnt = learn(memory, saw(9.4), 10, 20);
    EXPECT_EQ(learnt.what, What::mended);
    EXPECT_EQ(learnt.before, 1.2);
    EXPECT_EQ(learnt.now, 9.4);
    EXPECT_EQ(latest_of(memory, "a", "b")->gigabits, 9.4);
    // The latency is what was measured, unless it is quite another one.
    EXPECT_EQ(latest_of(memory, "a", "b")->latency_us, 20);
    learn(memory, saw(90, 2), 30, 40);
    EXPECT_EQ(latest_of(memory, "a", "b")->latency_us, 2);
}

TEST(LinkLearning, less_counts_when_a_later_job_has_seen_it_too) {
    std::vector<LinkMemory> memory{kMeasured};
    EXPECT_EQ(learn(memory, saw(0.09), 10, 20).what, What::doubted);
    EXPECT_EQ(latest_of(memory, "a", "b")->gigabits, 1.2);
    EXPECT_EQ(latest_of_each(memory).size(), 1u);
    // Two jobs at once may have shared the line.
    EXPECT_EQ(learn(memory, saw(0.11), 19, 25).what, What::doubted);
    EXPECT_EQ(learn(memory, saw(0.05), 19, 26).what, What::nothing);
    EXPECT_EQ(memory.size(), 2u);
    // Kept in between, as it is. The higher one of the two counts.
    memory = read_link_memory(link_memory_text(memory));
    Learnt learnt = learn(memory, saw(0.1), 20, 30);
    EXPECT_EQ(learnt.what, What::mended);
    EXPECT_EQ(learnt.before, 1.2);
    EXPECT_EQ(learnt.now, 0.11);
    EXPECT_EQ(latest_of(memory, "a", "b")->gigabits, 0.11);
    EXPECT_EQ(memory.size(), 2u);  // no doubt is left
    EXPECT_EQ(learn(memory, saw(0.1), 40, 50).what, What::nothing);
}

TEST(LinkLearning, who_does_as_well_or_measures_ends_the_doubt) {
    std::vector<LinkMemory> memory{kMeasured};
    learn(memory, saw(0.09), 10, 20);
    Learnt learnt = learn(memory, saw(1.1), 30, 40);
    EXPECT_EQ(learnt.what, What::nothing);
    EXPECT_TRUE(learnt.changed);
    EXPECT_EQ(memory.size(), 1u);
    EXPECT_EQ(learn(memory, saw(0.09), 50, 60).what, What::doubted);
    remember(memory, {"a b", "2026-11-28", 20, 1.2, "tcp"});
    EXPECT_EQ(memory.size(), 2u);
    EXPECT_EQ(learn(memory, saw(0.09), 70, 80).what, What::doubted);
    // Of other pairs nothing is touched.
    remember(memory, {"a c", "2026-11-28", 20, 1.2, "tcp"});
    EXPECT_EQ(learn(memory, saw(0.09), 90, 99).what, What::mended);
}

TEST(LinkLearning, hosts_are_known_by_all_their_names) {
    std::vector<LinkMemory> memory{{"mac1 mac2.local", "2026-11-01", 20, 1, "tcp"}};
    LinkMemory seen = saw(9);
    seen.hosts = "mac1.local mac2.fritz.box";
    EXPECT_EQ(learn(memory, seen, 1, 2).what, What::mended);
    EXPECT_EQ(memory[1].hosts, "mac1 mac2.local");
}

TEST(LinkLearning, a_job_of_many_hosts_learns_all_its_pairs_in_little_time) {
    constexpr int kHosts = 128;
    std::vector<LinkMemory> pairs, memory{{"box.local me", "2026-11-01", 20, 1.2, "tcp"}};
    std::vector<std::string> hosts;
    for (int a = 0; a < kHosts; ++a) {
        hosts.push_back("h" + std::to_string(a));
        for (int b = 0; b < a; ++b) {
            pairs.push_back(saw(0.1));
            pairs.back().hosts = "h" + std::to_string(b) + " h" + std::to_string(a) + ".local";
        }
    }
    auto begin = std::clock();
    for (int job = 0; job < 2; ++job)
        for (const Learnt& each : learn_all(memory, pairs, 10 * job, 10 * job + 5))
            ASSERT_EQ(each.what, job == 0 ? What::first : What::nothing);
    std::string missing;
    EXPECT_EQ(net_costs(memory, hosts, missing), "net=25000:2500:80.00000");
    // Pair by pair through all of the history it were a minute.
    EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
    EXPECT_EQ(memory.size(), pairs.size() + 1);
    EXPECT_EQ(memory[0].hosts, "box.local me");
}

TEST(LinkLearning, many_jobs_leave_a_few_lines) {
    std::vector<LinkMemory> memory;
    for (int job = 0; job < 1000; ++job)
        learn(memory, saw(job % 3 == 0 ? 10 : 0.1), 10 * job, 10 * job + 5);
    EXPECT_LE(memory.size(), 17u);
}

TEST(LinkLearning, sources_are_kept) {
    std::vector<LinkMemory> memory{kMeasured};
    learn(memory, saw(9), 10, 20);
    learn(memory, saw(1), 30, 40);
    ASSERT_EQ(memory.size(), 3u);
    std::string text = link_memory_text(memory);
    EXPECT_EQ(text,
              "v1 a b 2026-11-01 20.000 1.200000 tcp\n"
              "v2 a b 2026-11-27 20.000 9.000000 job 20 tcp\n"
              "v2 a b 2026-11-27 20.000 1.000000 doubt 40 tcp\n");
    std::vector<LinkMemory> again = read_link_memory(text +
                                                     "v2 a b 2026-11-27 20 1 guess 40 tcp\n"
                                                     "v2 a b 2026-11-27 20 1 job x tcp\n"
                                                     "v2 a b 2026-11-27 20 1 job -4 tcp\n"
                                                     "v2 a b 2026-11-27 20 1\n"
                                                     "v3 a b 2026-11-27 20 1 job 1 tcp\n");
    ASSERT_EQ(again.size(), 3u);
    EXPECT_EQ(again[2].source, Source::doubt);
    EXPECT_EQ(again[2].at, 40);
    EXPECT_EQ(again[2].by, "tcp");
}

// ---- what ranks write

TEST(LinkLearning, what_is_told_is_read_and_nonsense_is_not) {
    std::vector<LineTold> told{{3, 200, 300, "tcp", {full(0, kMs, 1), full(kMs, 2 * kMs, 2)}},
                               {4, 0, 0, "", {}}};
    Writer words;
    write_lines(words, told);
    Reader reader(words.bytes());
    auto read = read_lines(reader);
    ASSERT_TRUE(read);
    ASSERT_EQ(read->size(), 2u);
    EXPECT_EQ(read->at(0).times.at(1).bytes, told[0].times[1].bytes);
    EXPECT_EQ(read->at(0).by, "tcp");
    for (size_t length = 0; length < words.bytes().size(); ++length) {
        Reader cut(ConstBytes(words.bytes()).first(length));
        EXPECT_FALSE(read_lines(cut)) << length;
    }
    auto refused = [](const LineTold& line) {
        Writer out;
        write_lines(out, {line});
        Reader from(out.bytes());
        return !read_lines(from);
    };
    EXPECT_FALSE(refused({1, 0, 0, "", {{0, 1, 1}}}));
    EXPECT_TRUE(refused({1, 0, 0, "", {{5, 5, 1}}}));
    EXPECT_TRUE(refused({1, 0, 0, "", {{-5, 5, 1}}}));
    EXPECT_TRUE(refused({1, 0, 0, "", {{0, INT64_MAX, 1}}}));
    EXPECT_TRUE(refused({1, 0, 0, "", {{0, 1, UINT64_MAX}}}));
    EXPECT_TRUE(refused({1, -1, 0, "", {}}));
    EXPECT_TRUE(refused({1, 0, INT64_MAX, "", {}}));
}

// ---- two jobs that end at once

TEST(KeptLock, of_jobs_that_end_at_once_none_loses_what_another_has_learned) {
    char folder[] = "/tmp/pomona-kept-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder));
    std::string path = std::string(folder) + "/pomona/link-history";
    constexpr int kJobs = 8, kTimes = 20;
    std::vector<pid_t> jobs;
    for (int job = 0; job < kJobs; ++job) {
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (int i = 0; i < kTimes; ++i) {
                KeptLock lock(path, 60'000);
                auto text = read_kept(path);
                std::vector<LinkMemory> memory;
                if (text.ok()) memory = read_link_memory(*text);
                LinkMemory seen = saw(1);
                seen.hosts = "a b" + std::to_string(job * kTimes + i);
                learn(memory, seen, 1, 2);
                if (!lock.held() || !write_kept(path, link_memory_text(memory)).ok()) _exit(1);
            }
            _exit(0);
        }
        jobs.push_back(child);
    }
    for (pid_t child : jobs) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    auto text = read_kept(path);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(read_link_memory(*text).size(), static_cast<size_t>(kJobs * kTimes));
    {
        KeptLock first(path, 0);
        EXPECT_TRUE(first.held());
        KeptLock second(path, 20);
        EXPECT_FALSE(second.held());
    }
    EXPECT_TRUE(KeptLock(path, 0).held());
    EXPECT_TRUE(KeptLock("/dev/null/pomona/x", 0).held());  // and nothing can be written
    std::remove(path.c_str());
    rmdir((std::string(folder) + "/pomona").c_str());
    rmdir(folder);
}

}  // namespace
}  // namespace pomona
