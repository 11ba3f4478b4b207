// tests/sim/program_world.h: runs MPI programs on simulated ranks: the whole library, a virtual
// network.
// Method: ranks are threads that take turns (btl/sim/sim.h); each has its own Process over the sim
// transport.
#pragma once

#include "btl/base/random.h"
#include "btl/sim/sim.h"
#include "mpi/abi/current.h"
#include "mpi/include/mpi.h"

#include <functional>

namespace pomona {

uint64_t base_seed();  // POMONA_SEED, or the tests' own

struct RunOptions {
    sim::FabricOptions fabric;
    int dies = -1;  // this rank leaves without MPI_Finalize
    // Where given: what stands between a rank and its transport.
    std::function<std::unique_ptr<Transport>(int rank, std::unique_ptr<Transport>)> wrap = {};
    // Where given: is called in place of MPI_Finalize, which it may call; whether the others are
    // told that the rank is gone.
    std::function<bool(int rank)> leave = {};
};

struct RunResult {
    uint64_t hash = 0;
    sim::Time time = 0;
    bool stuck = false;
};

// Runs `program(rank)` on all ranks, between MPI_Init and MPI_Finalize.
RunResult run(uint64_t seed, RunOptions options, const std::function<void(int)>& program);

// Nodes, speeds, jitter, reordering and a slow rank, as drawn.
sim::FabricOptions random_network(Random& random, int ranks);

}  // namespace pomona
