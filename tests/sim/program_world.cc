// tests/sim/program_world.cc: the wire-up of simulated ranks, and networks drawn from a seed.
#include "tests/sim/program_world.h"

#include "btl/base/format.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <cstdio>
#include <thread>

namespace pomona {

uint64_t base_seed() {
    const char* text = std::getenv("POMONA_SEED");
    return text ? std::strtoull(text, nullptr, 0) : 0x5eed;
}

namespace {

// The job as a simulated rank sees it; nothing has to be published.
class SimWireup final : public Wireup {
public:
    SimWireup(int rank, int size, const std::vector<int>& nodes) {
        job_.rank = rank, job_.size = size;
        job_.id = job_.tag = "sim";
        job_.node_of = nodes;
        for (int r = 0; r < size; ++r)
            if (nodes[static_cast<size_t>(r)] == nodes[static_cast<size_t>(rank)]) {
                if (r == rank) job_.local_rank = static_cast<int>(job_.local_ranks.size());
                job_.local_ranks.push_back(r);
            }
        job_.local_size = static_cast<int>(job_.local_ranks.size());
        job_.host = format("node{}", nodes[static_cast<size_t>(rank)]);
        job_.universe_size = size;
    }
    const Job& job() const override { return job_; }
    Status publish(std::string_view, ConstBytes) override { return {}; }
    Status fence() override { return {}; }
    Result<std::vector<std::byte>> lookup(int, std::string_view) override {
        return Error{Code::not_found, "Nothing is published here"};
    }
    [[noreturn]] void abort(int code, std::string_view message) override {
        std::fprintf(stderr, "rank %d aborts: %.*s\n", job_.rank, static_cast<int>(message.size()),
                     message.data());
        std::_Exit(code ? code : 1);
    }
    void on_peer_death(std::function<void(int)>) override {}
    Status finalize() override { return {}; }

private:
    Job job_;
};

}  // namespace

RunResult run(uint64_t seed, RunOptions options, const std::function<void(int)>& program) {
    int size = options.fabric.ranks;
    if (options.fabric.nodes.empty()) options.fabric.nodes.assign(static_cast<size_t>(size), 0);
    sim::Fabric fabric(seed, options.fabric);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
            fabric.enter(rank);
            const char* const environment[] = {"POMONA_LOG=error", nullptr};
            auto own = std::make_unique<Process>(environment);
            current_process = own.get();
            auto transport = fabric.make_transport(rank);
            if (options.wrap) transport = options.wrap(rank, std::move(transport));
            own->transports.push_back(std::move(transport));
            auto wireup = std::make_unique<SimWireup>(rank, size, options.fabric.nodes);
            EXPECT_TRUE(own->start(MPI_THREAD_SINGLE, std::move(wireup)).ok());
            EXPECT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
            program(rank);
            bool dead = rank == options.dies;
            if (options.leave) dead = options.leave(rank);
            else if (options.dies < 0) MPI_Finalize();
            fabric.leave(rank, dead);
            current_process = nullptr;
            // A rank that did not finalize keeps requests that refer to it: let it be.
            if (options.dies >= 0 || options.leave) (void)own.release();
        });
    for (std::thread& thread : threads) thread.join();
    return {fabric.world().hash(), fabric.world().now(), fabric.stuck()};
}

sim::FabricOptions random_network(Random& random, int ranks) {
    sim::FabricOptions options;
    options.ranks = ranks;
    int per_node = random.between(1, ranks);
    for (int r = 0; r < ranks; ++r) options.nodes.push_back(r / per_node);
    options.near = {200, 50, 0.05};
    options.far = {5000, 500, 0.5};
    options.faults.jitter_ns = random.chance(0.5) ? 2e4 * random.unit() : 0;
    options.faults.reorder_chance = random.chance(0.5) ? 0.2 : 0;
    if (random.chance(0.3)) options.faults.slow_rank = static_cast<int>(random.below(ranks));
    options.busy_chance = random.chance(0.5) ? 0.2 : 0;
    options.pulls = random.chance(0.5);
    options.pull_failure_chance = random.chance(0.3) ? 0.2 : 0;
    options.window = 2 + random.below(64);
    options.eager_max = 64 + random.below(8192);
    return options;
}

}  // namespace pomona
