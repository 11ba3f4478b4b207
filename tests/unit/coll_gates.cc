// tests/unit/coll_gates.cc: what a Runner waits for that others tell: gates.
#include "coll/builder.h"
#include "coll/gates.h"
#include "coll/run.h"
#include "tests/unit/manual_carrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pomona::coll {
namespace {

// Rank 0 of two sends its eight bytes when the gate is open.
Schedule send_behind(int gate) {
    Shape shape{.rank = 0, .size = 2, .element = 1};
    Builder s(shape);
    s.gate(gate, s.input(0, 8));
    s.send(1, s.input(0, 8));
    return s.finish();
}

TEST(Runner, waits_for_gates) {
    Schedule schedule = send_behind(7);
    struct OneGate : Gate {
        Completion* done = nullptr;
        int number = 0;
    } gate;
    gate.wait = [](Gate* self, int number, Completion& done) {
        static_cast<OneGate*>(self)->done = &done;
        static_cast<OneGate*>(self)->number = number;
    };
    ManualCarrier carrier;
    Runner runner;
    Done done;
    std::byte input[8];
    runner.prepare(schedule);
    runner.start(carrier, {.input = input, .gate = &gate}, done);
    EXPECT_EQ(gate.number, 7);
    EXPECT_TRUE(carrier.operations.empty());
    gate.done->function(gate.done, nullptr);
    ASSERT_EQ(carrier.operations.size(), 1u);
    carrier.end(*carrier.operations[0].done);
    EXPECT_EQ(done.calls, 1);
}

// Gates opened by other threads: only poll() completes, on the engine's thread; an early one is
// kept.
TEST(Gates, open_from_other_threads_and_complete_in_the_turn) {
    Shape shape{.rank = 0, .size = 2, .element = 1};
    Builder s(shape);
    s.gate(0, s.input(0, 8));
    s.gate(1, s.input(8, 8));
    s.send(1, s.input(0, 8));
    s.send(1, s.input(8, 8));
    Schedule schedule = s.finish();
    std::atomic<int> woken{0};
    Gates gates([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &woken);
    ASSERT_EQ(gates.make(), 0);
    ASSERT_EQ(gates.make(), 1);
    ManualCarrier carrier;
    Runner runner;
    Done done;
    std::byte input[16];
    runner.prepare(schedule);
    EXPECT_TRUE(gates.arm());
    std::thread([&] { Gates::opened(gates.opener(1), true); }).join();  // nobody waits for it yet
    EXPECT_FALSE(gates.arm()) << "sleeps though a gate has opened";
    EXPECT_EQ(gates.poll(), 0);
    runner.start(carrier, {.input = input, .gate = &gates}, done);
    ASSERT_EQ(carrier.operations.size(), 1u);
    EXPECT_TRUE(gates.arm());
    std::thread([&] { Gates::opened(gates.opener(0), true); }).join();
    EXPECT_EQ(woken, 2);
    EXPECT_EQ(carrier.operations.size(), 1u);  // not on the other's thread
    EXPECT_EQ(gates.poll(), 1);
    EXPECT_EQ(gates.poll(), 0);
    EXPECT_FALSE(gates.pending());
    ASSERT_EQ(carrier.operations.size(), 2u);
    carrier.end(*carrier.operations[1].done);
    carrier.end(*carrier.operations[0].done);
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.error.code, Code::ok);
    EXPECT_LT(gates.make(), 2) << "gates are not used again";
    gates.drop(0);
}

// Devices on many threads, the engine on one: every step completes once, no gate is lost.
TEST(Gates, open_at_once_from_many_threads) {
    constexpr int kThreads = 4, kEach = 500;
    struct Step : Completion {
        int calls = 0, failures = 0;
    };
    std::vector<Step> steps(kThreads * kEach);
    for (Step& step : steps)
        step.function = [](Completion* self, const Error* error) {
            ++static_cast<Step*>(self)->calls;
            static_cast<Step*>(self)->failures += error != nullptr;
        };
    Gates gates(nullptr, nullptr);
    std::vector<void*> openers;
    for (Step& step : steps) {
        int gate = gates.make();
        openers.push_back(gates.opener(gate));
        if (gate % 3) gates.wait_for(gate, step);
    }
    std::vector<std::thread> devices;
    for (int t = 0; t < kThreads; ++t)
        devices.emplace_back([&, t] {
            for (size_t i = static_cast<size_t>(t); i < openers.size(); i += kThreads)
                Gates::opened(openers[i], i % 5 != 0);
        });
    int completed = 0;
    for (size_t i = 0; i < steps.size(); i += 3) {
        gates.wait_for(static_cast<int>(i), steps[i]);
        completed += gates.poll();
    }
    while (gates.pending()) completed += gates.poll();
    for (std::thread& device : devices) device.join();
    EXPECT_LE(completed, kThreads * kEach);
    for (size_t i = 0; i < steps.size(); ++i) {
        ASSERT_EQ(steps[i].calls, 1) << i;
        ASSERT_EQ(steps[i].failures, i % 5 == 0) << i;
    }
}

TEST(Gates, a_failure_is_told_to_those_who_wait_for_the_data) {
    Schedule schedule = send_behind(0);
    Gates gates(nullptr, nullptr);
    ManualCarrier carrier;
    Runner runner;
    Done done;
    std::byte input[8];
    runner.prepare(schedule);
    ASSERT_EQ(gates.make(), 0);
    runner.start(carrier, {.input = input, .gate = &gates}, done);
    Gates::opened(gates.opener(0), false);
    EXPECT_EQ(gates.poll(), 1);
    EXPECT_EQ(done.calls, 0);
    ASSERT_EQ(carrier.operations.size(), 1u);
    EXPECT_EQ(carrier.operations[0].length, 0u) << "the data that was lost is sent";
    carrier.end(*carrier.operations[0].done);
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.error.code, Code::data_lost);
}

}  // namespace
}  // namespace pomona::coll
