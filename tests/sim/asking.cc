// tests/sim/asking.cc: what asking first costs, and what is chosen because of it.
// Goal: the price of a schedule knows which messages ask, by the rule that links follow
// (btl/base/asking.h), so that on slow lines algorithms are chosen whose messages need not, and
// that ranks choose so between machines of like links, too. Method: ports, prices of schedules and
// choices on hosts joined by lines of a known rate.
#include "btl/base/asking.h"
#include "coll/price.h"
#include "coll/select.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pomona {
namespace {

using coll::Collective;

constexpr double kLatency = 30'000, kOverhead = 2500;
constexpr size_t kKiB = 1024;

double byte_ns(double megabits) { return 8000 / megabits; }

coll::Machine lines_of(double megabits) {
    coll::Links links;
    links.net = {kLatency, kOverhead, byte_ns(megabits)};
    return coll::Machine::of(links, true, true);
}

std::vector<int> hosts(int count) {
    std::vector<int> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    return out;
}

struct Job {
    Job(int count, double megabits) : nodes(hosts(count)), machine(lines_of(megabits)) {}
    coll::Shape shape(Collective collective, size_t bytes) const {
        coll::Shape out;
        out.collective = collective;
        out.size = static_cast<int>(nodes.size());
        out.element = 8;
        out.count = bytes / 8;
        out.nodes = nodes;
        return out;
    }
    double time_of(Collective collective, const char* name, size_t bytes) const {
        std::string problem;
        auto price = coll::price(*coll::find_algorithm(collective, name), shape(collective, bytes),
                                 {}, {machine, coll::links_of(machine, nodes), {}}, problem);
        EXPECT_TRUE(price.ok()) << problem;
        return price.ok() ? price->ns : 0;
    }
    std::string chosen(Collective collective, size_t bytes) const {
        return coll::select(shape(collective, bytes), machine).algorithm->name;
    }
    std::vector<int> nodes;
    coll::Machine machine;
};

TEST(Asking, by_a_slow_line_what_it_carries_in_a_few_milliseconds_goes_unasked) {
    for (auto [megabits, most] : {std::pair{50.0, size_t{162500}},
                                  {100.0, size_t{325000}},
                                  {1000.0, 1024 * kKiB},
                                  {10000.0, 128 * kKiB},
                                  {0.0, 256 * kKiB}}) {
        double rate = megabits * 125e-6;
        EXPECT_NEAR(asking::unasked_most(rate, 0, asking::kLongest), most, 1) << megabits;
        EXPECT_EQ(asking::unasked_most(rate, 0, 1000), 1000u) << "a limit of the user's";
    }
}

// By 1 Gb/s as many as are carried in 26 ms.
TEST(Asking, of_messages_in_a_row_the_second_goes_unasked_by_a_slow_line_alone) {
    for (auto [megabits, in_row] : {std::pair{50.0, 2}, {1000.0, 23}}) {
        Ports ports(2, coll::links_of(lines_of(megabits), hosts(2)));
        constexpr size_t kBytes = 128 * kKiB;
        for (int number = 0; number < in_row; ++number) {
            EXPECT_EQ(ports.answer_ns(0, 0, 1, kBytes), 0) << megabits << " " << number;
            ports.depart(0, 0, 1, kBytes);
        }
        EXPECT_GT(ports.answer_ns(0, 0, 1, kBytes), 0) << megabits;
        EXPECT_EQ(ports.answer_ns(0, 1, 0, kBytes), 0) << "the other way";
        EXPECT_EQ(ports.answer_ns(0, 0, 1, 32 * kKiB), 0) << "a short one";
        EXPECT_EQ(ports.answer_ns(1e9, 0, 1, kBytes), 0) << "when they have arrived";
    }
    Ports quick(2, coll::links_of(lines_of(10000), hosts(2)));
    EXPECT_EQ(quick.answer_ns(0, 0, 1, 1 << 20), 0) << "nothing waits for long";
    EXPECT_EQ(asking::unasked_most(1.25, 128 * kKiB, asking::kLongest), 0u) << "though it asks";
}

// Only one of two hosts may know yet that the line is slow: the other one must not ask then.
TEST(Asking, a_line_that_is_not_known_yet_takes_two_messages_as_a_slow_one_does) {
    constexpr size_t kBytes = 256 * kKiB;
    for (size_t before : {size_t{0}, kBytes})
        EXPECT_EQ(asking::unasked_most(0, before, asking::kLongest), kBytes) << before;
    EXPECT_EQ(asking::unasked_most(0, 2 * kBytes, asking::kLongest), 0u);
    EXPECT_EQ(asking::unasked_most(asking::kNoLine, 0, asking::kLongest), 128 * kKiB);
}

TEST(Asking, costs_a_message_its_answer) {
    Job job(2, 100);
    double answer = asking::ask_ns(kLatency + 2 * kOverhead, byte_ns(100));
    EXPECT_GT(answer, 2 * kLatency);
    for (size_t bytes : {128 * kKiB, 512 * kKiB}) {
        double line = kLatency + 2 * kOverhead + static_cast<double>(bytes) * byte_ns(100);
        EXPECT_NEAR(job.time_of(Collective::bcast, "binomial", bytes),
                    line + (bytes > 256 * kKiB ? answer : 0), 1)
            << bytes;
    }
}

// By their formulas doubling is the quicker one: it sends fewer messages.
TEST(Asking, what_need_not_ask_is_chosen) {
    Job job(4, 50);
    constexpr size_t kBytes = 128 * kKiB;
    coll::Shape shape = job.shape(Collective::allgather, kBytes);
    coll::Facts facts(shape, job.machine, {});
    auto formula = [&](const char* name) {
        return coll::find_algorithm(Collective::allgather, name)->cost(facts);
    };
    ASSERT_LT(formula("recursive_doubling"), formula("ring"));
    double ring = job.time_of(Collective::allgather, "ring", kBytes);
    EXPECT_GT(job.time_of(Collective::allgather, "recursive_doubling", kBytes), 1.15 * ring);
    EXPECT_NE(job.chosen(Collective::allgather, kBytes), "recursive_doubling");
}

// All that may be chosen is priced, with its segments: nothing that is not chosen takes less.
TEST(Asking, nothing_takes_less_than_the_choice) {
    for (int count : {3, 4, 8, 16})
        for (double megabits : {100.0, 200.0, 1000.0})
            for (Collective collective :
                 {Collective::allreduce, Collective::bcast, Collective::allgather,
                  Collective::reduce_scatter, Collective::alltoall})
                for (size_t bytes : {16 * kKiB, 128 * kKiB, 1024 * kKiB}) {
                    Job job(count, megabits);
                    coll::Shape shape = job.shape(collective, bytes);
                    coll::Plan plan = coll::select(shape, job.machine);
                    std::string problem;
                    coll::PricedNetwork network{
                        job.machine, coll::links_of(job.machine, job.nodes), {}};
                    auto own = coll::price(*plan.algorithm, shape, plan.options, network, problem);
                    ASSERT_TRUE(own.ok()) << problem;
                    for (const coll::Plan& each : coll::rank_algorithms(shape, job.machine)) {
                        if (each.why_not) continue;
                        auto other = coll::price(*each.algorithm, shape, {}, network, problem);
                        ASSERT_TRUE(other.ok()) << problem;
                        EXPECT_LE(own->ns, other->ns * 1.0001)
                            << count << " hosts, " << megabits << " Mb/s, "
                            << collective_name(collective) << " of " << bytes << ": "
                            << plan.algorithm->name << " and " << each.algorithm->name;
                    }
                }
}

}  // namespace
}  // namespace pomona
