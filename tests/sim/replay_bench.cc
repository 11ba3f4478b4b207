// tests/sim/replay_bench.cc: what a schedule costs beside its messages.
// Method: two Runners on a loopback Carrier that hands bytes over with one memcpy; the time of both
// ranks' part of an 8-byte allreduce, halved. Run: build/tests/coll_replay_bench
#include "coll/cache.h"
#include "coll/run.h"

#include <benchmark/benchmark.h>

#include <cstring>

namespace pomona::coll {
namespace {

// One of two ranks: a single message each way is all that an allreduce of two needs.
class Loopback final : public Carrier {
public:
    Loopback* other = nullptr;
    ConstBytes sent;
    Completion* sending = nullptr;
    Bytes target;
    Completion* receiving = nullptr;

    void send(int, int, ConstBytes data, Completion& done) override {
        if (!other->receiving) {
            sent = data, sending = &done;
            return;
        }
        std::memcpy(other->target.data(), data.data(), data.size());
        Completion* receiver = std::exchange(other->receiving, nullptr);
        receiver->function(receiver, nullptr);
        done.function(&done, nullptr);
    }
    void recv(int, int, Bytes data, Completion& done) override {
        if (!other->sending) {
            target = data, receiving = &done;
            return;
        }
        std::memcpy(data.data(), other->sent.data(), data.size());
        Completion* sender = std::exchange(other->sending, nullptr);
        done.function(&done, nullptr);
        sender->function(sender, nullptr);
    }
};

Reducer sum_reducer() {
    Reducer reducer;
    reducer.into = [](const Reducer*, void* inout, const void* in, size_t count) {
        for (size_t i = 0; i < count; ++i)
            static_cast<uint64_t*>(inout)[i] += static_cast<const uint64_t*>(in)[i];
    };
    reducer.to = [](const Reducer*, void* out, const void* a, const void* b, size_t count) {
        for (size_t i = 0; i < count; ++i)
            static_cast<uint64_t*>(out)[i] =
                static_cast<const uint64_t*>(a)[i] + static_cast<const uint64_t*>(b)[i];
    };
    return reducer;
}

void replay(benchmark::State& state, bool lookup) {
    Shape shapes[2];
    for (int r = 0; r < 2; ++r)
        shapes[r] = {
            .collective = Collective::allreduce, .rank = r, .size = 2, .count = 1, .element = 8};
    ScheduleCache caches[2];
    Machine machine = Machine::shared_memory();
    Loopback carriers[2];
    carriers[0].other = &carriers[1], carriers[1].other = &carriers[0];
    Runner runners[2];
    uint64_t input[2] = {3, 4}, result[2] = {};
    Reducer reducer = sum_reducer();
    Completion done{[](Completion*, const Error*) {}};
    std::shared_ptr<const Schedule> schedules[2];
    for (int r = 0; r < 2; ++r) schedules[r] = caches[r].get(shapes[r], machine);
    for (auto _ : state) {
        for (int r = 0; r < 2; ++r) {
            if (lookup) schedules[r] = caches[r].get(shapes[r], machine);
            runners[r].prepare(*schedules[r]);
            Binding binding{&input[r], &result[r], &reducer, nullptr, false};
            runners[r].start(carriers[r], binding, done);
        }
        benchmark::DoNotOptimize(result[0]);
    }
    if (result[0] != 7 || result[1] != 7) state.SkipWithError("wrong sum");
    state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK_CAPTURE(replay, cached_schedule, false);
BENCHMARK_CAPTURE(replay, with_lookup, true);

void build(benchmark::State& state) {
    Shape shape{
        .collective = Collective::allreduce, .rank = 1, .size = 16, .count = 1 << 20, .element = 8};
    const Algorithm& row = *find_algorithm(Collective::allreduce, "ring");
    size_t steps = 0;
    for (auto _ : state) steps += build_schedule(row, shape, {}).steps().size();
    state.SetItemsProcessed(static_cast<int64_t>(steps));
}
BENCHMARK(build);

}  // namespace
}  // namespace pomona::coll

BENCHMARK_MAIN();
