// tests/unit/predict.cc: `pomona predict`: what it reads, replays and says of levers.
// Goal: the step's arithmetic by hand: cases whose times are known without the program.
#include "mpi/tools/predict.h"

#include "btl/base/asking.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace pomona {
namespace {

using Kind = StepEvent::Kind;

// Hosts with one rank behind a switch.
NetworkFile even_network(int hosts, double gigabits) {
    NetworkFile network;
    for (int i = 0; i < hosts; ++i) network.hosts.push_back({"h" + std::to_string(i), 1, 1, 0});
    for (int a = 0; a < hosts; ++a)
        for (int b = a + 1; b < hosts; ++b) network.pairs.push_back({a, b, 20, gigabits, false});
    return network;
}

std::string problem_of_network(const std::string& text) {
    std::string problem;
    EXPECT_FALSE(parse_network(text, problem));
    return problem;
}

TEST(NetworkFile, reads_what_links_prints_and_what_it_writes) {
    std::string problem;
    auto network = parse_network(
        R"({"hosts": [{"host": "a", "interfaces": []}, {"host": "b", "ranks": 2, "speed": 0.5}],
            "pairs": [{"hosts": ["a", "b"], "latency_us": 31.5, "gigabits": 9.4, "by": "x"}],
            "failure": "", "together_gigabits": 7})",
        problem);
    ASSERT_TRUE(network) << problem;
    auto again = parse_network(network_text(*network), problem);
    ASSERT_TRUE(again) << problem;
    EXPECT_EQ(again->ranks(), 3);
    EXPECT_EQ(again->hosts[1].speed, 0.5);
    EXPECT_EQ(again->pair(1, 0).gigabits, 9.4);
    EXPECT_EQ(again->together_gigabits, 7);
    LinkMap map = link_map(*again, {});
    EXPECT_EQ(map.hosts, (std::vector<int>{0, 1, 1}));
    EXPECT_DOUBLE_EQ(map.link(0, 2).byte_ns, 8 / 9.4);
    EXPECT_DOUBLE_EQ(map.link(0, 2).latency_ns + 2 * map.link(0, 2).overhead_ns, 31500);
}

// Long messages by a slow line ask first, and wait for the answer.
TEST(NetworkFile, slow_lines_have_the_price_of_a_question) {
    std::string problem;
    auto network = parse_network(
        R"({"hosts": [{"host": "a"}, {"host": "b"}, {"host": "c"}], "pairs": [
            {"hosts": ["a", "b"], "latency_us": 50, "gigabits": 0.1},
            {"hosts": ["a", "c"], "latency_us": 50, "gigabits": 10},
            {"hosts": ["b", "c"], "latency_us": 50, "gigabits": 0.1}]})",
        problem);
    ASSERT_TRUE(network) << problem;
    LinkMap map = link_map(*network, {});
    EXPECT_EQ(map.link(0, 1).ask_ns, asking::ask_ns(50000, 80));
    EXPECT_GT(map.link(0, 1).ask_ns, 1e6);
    EXPECT_EQ(map.link(0, 2).ask_ns, 0);
    // So two hosts that exchange 1 MiB need more than the line does.
    NetworkFile two;
    two.hosts = {network->hosts[0], network->hosts[1]};
    two.pairs = {network->pair(0, 1)};
    CollectiveTimes times(two, {});
    double line = 1e-9 * 80 * (256 << 10);
    EXPECT_GT(times.seconds(coll::Collective::bcast, 256 << 10), line);
    EXPECT_LT(times.seconds(coll::Collective::bcast, 256 << 10), line + 2e-3) << "no piece asks";
}

TEST(NetworkFile, says_what_is_wrong_and_where) {
    EXPECT_NE(problem_of_network("[]").find("pomona links"), std::string::npos);
    EXPECT_NE(problem_of_network(R"({"hosts": []})").find("0 hosts"), std::string::npos);
    EXPECT_EQ(problem_of_network(R"({"hosts": [{"host": "a"}, {"host": "a"}]})"),
              "hosts[1]: the name a stands twice");
    EXPECT_EQ(problem_of_network(R"({"hosts": [{"host": "a", "speed": -1}]})"),
              "hosts[0]: \"speed\" is a number above 0 (1e-6 to 1e9), not -1");
    EXPECT_EQ(problem_of_network(R"({"hosts": [{"host": "a", "ranks": 1.5}]})"),
              "hosts[0]: \"ranks\" is a whole number up to 4096");
    EXPECT_EQ(problem_of_network(R"({"hosts": [{"host": "a", "rank": 2}]})"),
              "hosts[0]: there is no \"rank\" (did you mean \"ranks\"?)");
    EXPECT_EQ(problem_of_network("{\"hosts\": [\n  {\"host\": \"a\"}\n  {\"host\": \"b\"}]}"),
              "It is no JSON: line 3, column 3");
    EXPECT_EQ(problem_of_network("{\"hosts\": ["),
              "It is no JSON: line 1, column 12, where it ends");
    const char* one = R"({"hosts": [{"host": "a"}, {"host": "b"}], "pairs": [)";
    EXPECT_EQ(problem_of_network(std::string(one) +
                                 R"({"hosts": ["a", "b"], "gigabits": 1, "cable": "yes"}]})"),
              "pairs[0]: \"cable\" is true or false, not \"yes\"");
    EXPECT_NE(problem_of_network(std::string(one) + "]}").find("How are a and b joined"),
              std::string::npos);
    EXPECT_NE(problem_of_network(std::string(one) + R"({"hosts": ["a", "c"], "gigabits": 1}]})")
                  .find("pairs[0] names no two"),
              std::string::npos);
    EXPECT_NE(problem_of_network(std::string(one) + R"({"hosts": ["a", "b"]}]})").find("gigabits"),
              std::string::npos);
    EXPECT_EQ(problem_of_network(R"({"hosts": [{"host": "a"}], "together_gigabits": 0})"),
              "The network: \"together_gigabits\" is a number above 0 (1e-6 to 1e9), not 0");
    for (const char* odd :
         {R"({"hosts": 3})", R"({"hosts": [4]})", R"({"hosts": [{"host": 1}]})", "{"})
        EXPECT_FALSE(problem_of_network(odd).empty());
    // Times by such a link would be no numbers.
    EXPECT_NE(problem_of_network(R"({"hosts": [{"host": "a", "gigabits": 1e-300}]})").find("1e-6"),
              std::string::npos);
    for (const char* pairs : {"{\"a\": 1}", "3", "\"x\"", "null"})
        EXPECT_EQ(problem_of_network(
                      std::string(R"({"hosts": [{"host": "a"}], "pairs": )").append(pairs) + "}"),
                  "\"pairs\" is a list");
}

// A list without end is refused before each of its names is compared with all others.
TEST(NetworkFile, refuses_too_many_hosts_at_once) {
    std::string text = R"({"hosts": [{"host": "a"})";
    for (int i = 0; i < 200000; ++i)
        text += R"(, {"ranks": 4096, "host": ")" + std::to_string(i) + "\"}";
    std::clock_t begin = std::clock();
    EXPECT_EQ(problem_of_network(text + "]}"),
              "There are 200001 hosts with more than 4190209 ranks; 1 to 1024 hosts with up to "
              "65536 serve");
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);
}

TEST(PredictModel, reads_sizes_and_recordings) {
    std::string problem;
    EXPECT_EQ(*parse_parameters("25e6", problem), std::vector<double>{25e6});
    EXPECT_EQ(parse_parameters("3x2,7", problem)->size(), 4u);
    for (const char* odd : {"", "x", "0", "-3", "2x", "1.5x3", "a,b", "3x2,", "nan", "1e999",
                            "1e15", "11x1e14", "100001x1"})
        EXPECT_FALSE(parse_parameters(odd, problem)) << odd;
    StepSizes sizes;
    auto model = parse_model(R"({"kind": "ddp", "parameters": [10, 20], "events": [
        {"compute_s": 0.1}, {"start": "all_reduce", "megabytes": 0.00012}, {"compute_s": 0.2, "update": true}]})",
                             sizes, problem);
    ASSERT_TRUE(model) << problem;
    ASSERT_EQ(model->events.size(), 4u);  // the wait is added
    EXPECT_EQ(model->events[1].bytes, 120u);
    EXPECT_EQ(model->events[3].kind, Kind::wait);
    EXPECT_TRUE(model->events[2].update);
    for (const char* odd :
         {"{}", R"({"events": 3})", R"({"events": [{"wait": 0}]})",
          R"({"events": [{"start": "sing"}]})", R"({"events": [{"compute_s": -1}]})",
          R"({"events": [{"compute_s": 1, "update": 1}]})", R"({"parameters": [1e14, 9e14]})",
          R"({"parameters": []})", R"({"parameters": ["a"]})",
          R"({"kind": "other", "parameters": [1]})", R"({"events": [4]})", "3"}) {
        StepSizes scratch;
        problem.clear();
        EXPECT_FALSE(parse_model(odd, scratch, problem)) << odd;
        EXPECT_FALSE(problem.empty()) << odd;
    }
}

StepModel step_of(double before, double bytes, double between, double after) {
    return {"ddp",
            {{Kind::compute, before, false, coll::Collective::allreduce, 0, 0},
             {Kind::start, 0, false, coll::Collective::allreduce, static_cast<size_t>(bytes), 0},
             {Kind::compute, between, false, coll::Collective::allreduce, 0, 0},
             {Kind::wait, 0, false, coll::Collective::allreduce, 0, 0},
             {Kind::compute, after, true, coll::Collective::allreduce, 0, 0}},
            {},
            25 << 20};
}

// 10 MB at 0.8 Gb/s among 2: each line carries them once, in 0.1 s.
TEST(PredictStep, what_computing_does_not_hide_is_exposed) {
    CollectiveTimes times(even_network(2, 0.8), {});
    double whole = times.seconds(coll::Collective::allreduce, 10'000'000);
    EXPECT_NEAR(whole, 0.1, 0.02);
    StepTime open = step_time(step_of(0.2, 1e7, 0.03, 0.01), times);
    EXPECT_DOUBLE_EQ(open.seconds, 0.21 + whole);
    EXPECT_NEAR(open.hidden(), 0.03 / whole, 1e-9);
    StepTime covered = step_time(step_of(0.2, 1e7, 0.5, 0.01), times);
    EXPECT_DOUBLE_EQ(covered.seconds, 0.71);
    EXPECT_DOUBLE_EQ(covered.hidden(), 1);
    // Batches that are only accumulated communicate nothing and update nothing.
    StepTime three = step_time(step_of(0.2, 1e7, 0.03, 0.01), times, {.batches = 3});
    EXPECT_DOUBLE_EQ(three.seconds, 2 * 0.23 + open.seconds);
}

// A ring among 4 sends 60 MB for 10: 12 ms through lines of 10 Gb/s each, 48 through 10 for all.
TEST(PredictStep, what_all_hosts_share_is_a_limit) {
    NetworkFile network = even_network(4, 10);
    auto seconds = [&](double together) {
        network.together_gigabits = together;
        return CollectiveTimes(network, {}).seconds(coll::Collective::allreduce, 10'000'000);
    };
    double free = seconds(0);
    EXPECT_NEAR(free, 0.012, 0.002);
    EXPECT_NEAR(seconds(10), 0.048, 0.005);
    EXPECT_NEAR(seconds(5), 0.096, 0.01);
    EXPECT_NEAR(seconds(4000), free, 1e-4);
    StepModel model = step_of(0.1, 1e7, 0, 0);
    network.together_gigabits = 10;
    std::string text = prediction_text(model, network, predict(model, network, {}, 0));
    EXPECT_NE(text.find("together carry 10 Gb/s of the 40"), std::string::npos) << text;
    network.together_gigabits = 40;
    text = prediction_text(model, network, predict(model, network, {}, 0));
    EXPECT_EQ(text.find("together carry"), std::string::npos) << text;
}

// Goal: among many ranks, where a price takes long, sizes near each other are not priced one by
// one, which changes times by a few percent at most. Method: 40 sizes, of two collectives, beside
// the price of each by itself.
TEST(PredictStep, sizes_near_each_other_share_prices) {
    NetworkFile network = even_network(12, 10);
    for (NetworkHost& each : network.hosts) each.ranks = 6;
    int told = 0;
    CollectiveTimes shared(
        network, {}, [&](const std::string&) { ++told; }, "all");
    using coll::Collective;
    auto size = [](int i) { return static_cast<size_t>(1e6 * (40 - i)); };
    std::vector<SizedCollective> all;
    for (Collective collective : {Collective::allreduce, Collective::allgather})
        for (int i = 0; i < 40; ++i) all.emplace_back(collective, size(i));
    shared.prepare(all);
    for (Collective collective : {Collective::allreduce, Collective::allgather})
        for (int i = 0; i < 40; i += 3) {
            size_t bytes = size(i);
            CollectiveTimes alone(network, {});
            double own = alone.seconds(collective, bytes);
            EXPECT_NEAR(shared.seconds(collective, bytes) / own, 1, 0.05)
                << collective_name(collective) << " of " << bytes;
        }
    EXPECT_EQ(told, shared.priced());
    EXPECT_LE(shared.priced(), 32) << "of 80";
    // Few ranks are priced each by itself.
    CollectiveTimes few(even_network(4, 10), {});
    for (int i = 0; i < 10; ++i)
        few.seconds(Collective::allreduce, static_cast<size_t>(1e6 * (100 + i)));
    EXPECT_EQ(few.priced(), 10);
}

TEST(PredictStep, the_slowest_host_and_uneven_batches) {
    NetworkFile network = even_network(2, 1000);
    network.hosts[1].speed = 0.5;
    CollectiveTimes times(network, {});
    StepModel model = step_of(0.3, 8, 0, 0);
    EXPECT_NEAR(step_time(model, times).seconds, 0.6, 0.001);
    EXPECT_NEAR(step_time(model, times, {.uneven = true}).seconds, 0.4, 0.001);
}

TEST(PredictStep, buckets_keep_all_bytes_and_all_computing) {
    StepSizes sizes;
    sizes.parameters = std::vector<double>(40, 1 << 18);  // 1 MiB each
    sizes.forward = 0.1, sizes.backward = 0.4, sizes.update = 0.05, sizes.bucket_bytes = 5 << 20;
    StepModel model = model_of(sizes);
    EXPECT_EQ(model.collectives(), 9);  // 1 MiB, then 5 each, and the rest
    for (double mib : {1.0, 3.0, 10.0, 1000.0}) {
        auto other = with_buckets(model, mib * (1 << 20));
        ASSERT_TRUE(other);
        double computing = 0, bytes = 0;
        for (const StepEvent& each : other->events) {
            computing += each.seconds;
            if (each.kind == Kind::start) bytes += static_cast<double>(each.bytes);
        }
        EXPECT_NEAR(computing, 0.55, 1e-6) << mib;
        EXPECT_NEAR(bytes, 40 << 20, 64) << mib;
    }
    EXPECT_EQ(with_buckets(model, 1000 << 20)->collectives(), 2);
    EXPECT_EQ(with_buckets(model, 1 << 20)->collectives(), 40);
    sizes.kind = "fsdp2";
    EXPECT_FALSE(with_buckets(model_of(sizes), 1 << 20));
}

TEST(PredictStep, fsdp2_hides_gathers_only_with_streams) {
    StepSizes sizes;
    sizes.kind = "fsdp2";
    sizes.parameters = std::vector<double>(6, 1e6);
    sizes.forward = 0.2, sizes.backward = 0.4;
    CollectiveTimes times(even_network(4, 10), {});
    StepTime blocking = step_time(model_of(sizes), times);
    EXPECT_NEAR(blocking.seconds, blocking.computing + blocking.communicating, 1e-9);
    sizes.prefetch = true;
    StepTime streams = step_time(model_of(sizes), times);
    EXPECT_NEAR(streams.communicating, blocking.communicating, 1e-9);
    EXPECT_GT(streams.hidden(), 0.8);
}

double lever(const Prediction& prediction, const std::string& name) {
    for (const Lever& each : prediction.levers)
        if (each.name == name) return each.throughput;
    ADD_FAILURE() << "no lever " << name;
    return 0;
}

bool offers(const Prediction& prediction, const std::string& name) {
    return std::any_of(prediction.levers.begin(), prediction.levers.end(),
                       [&](const Lever& each) { return each.name == name; });
}

// Of elements that have 2 bytes already.
TEST(PredictLevers, halve_nothing_twice) {
    StepSizes sizes;
    sizes.parameters = {2e7, 2e7};
    sizes.backward = 0.1;
    NetworkFile network = even_network(4, 1);
    Prediction whole = predict(model_of(sizes), network, {}, 0);
    sizes.element = 2;
    Prediction half = predict(model_of(sizes), network, {}, 0);
    EXPECT_TRUE(offers(whole, "compression Fp16"));
    EXPECT_FALSE(offers(half, "compression Fp16"));
    // What Int8 sends is as long either way.
    EXPECT_GT(lever(whole, "compression Int8"), lever(half, "compression Int8"));
    sizes.kind = "fsdp2";
    EXPECT_FALSE(offers(predict(model_of(sizes), network, {}, 0), "fp16 instead of fp32"));
    sizes.element = 4;
    EXPECT_TRUE(offers(predict(model_of(sizes), network, {}, 0), "fp16 instead of fp32"));
}

// Of more hosts than have numbers of their own among a job's links, too, all lines count as they
// are; and ranks that share a line are not led astray by trees that ignore it.
TEST(PredictLevers, keep_their_order_on_many_hosts) {
    NetworkFile network = even_network(64, 100);
    EXPECT_GT(lever(predict(step_of(0.001, 4e6, 0, 0), network, {}, 400), "cables of 400 Gb/s"), 1);
    // So long that it matters little that 64 is a power of two.
    StepModel model = step_of(0.02, 6e7, 0, 0);
    EXPECT_GT(lever(predict(model, network, {}, 400), "one host more"), 1);
    network = even_network(8, 100);
    for (NetworkHost& each : network.hosts) each.ranks = 8;
    model = step_of(0.001, 3e7, 0, 0);
    Prediction shared = predict(model, network, {}, 400);
    EXPECT_GT(lever(shared, "one host more"), 1);
    EXPECT_LT(lever(shared, "one host less"), 1);
    EXPECT_GT(lever(shared, "cables of 400 Gb/s"), 1);
    EXPECT_GT(lever(shared, "a second cable"), 1);
}

TEST(PredictLevers, go_where_they_must) {
    NetworkFile network = even_network(4, 1);
    Prediction slow = predict(step_of(0.1, 4e7, 0, 0.01), network, {}, 10);
    EXPECT_GT(lever(slow, "accumulate 8 batches"), lever(slow, "accumulate 2 batches"));
    EXPECT_GT(lever(slow, "compression Int8"), lever(slow, "compression Fp16"));
    EXPECT_GT(lever(slow, "compression Fp16"), 1.4);
    EXPECT_GT(lever(slow, "a second cable"), 1.4);
    EXPECT_GT(lever(slow, "cables of 10 Gb/s"), lever(slow, "a second cable"));
    EXPECT_GT(lever(slow, "one host more"), 1);
    EXPECT_LT(lever(slow, "one host less"), 1);
    // Where computing hides everything, cables give nothing.
    Prediction quick = predict(step_of(0.1, 1e6, 1, 0.01), network, {}, 0);
    EXPECT_NEAR(lever(quick, "a second cable"), 1, 1e-3);
    auto json = nlohmann::json::parse(prediction_json(step_of(0.1, 1e6, 1, 0.01), network, quick),
                                      nullptr, false);
    EXPECT_EQ(json["ranks"], 4);
    EXPECT_EQ(json["hidden"], 1.0);
    EXPECT_FALSE(json["timeline"].empty());
}

}  // namespace
}  // namespace pomona
