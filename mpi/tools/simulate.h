// mpi/tools/simulate.h: `mpirun --simulate`: a job over a described network, in virtual time.
// Idea: mpirun becomes this command, which starts mpirun again, as the parent of ranks that are
// ordinary processes, and is their simulator (btl/sim/hub.h). docs/simulate.md says what holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pomona {

struct SimulateOptions {
    int ranks = 0;
    std::string network;  // file; "": all ranks on one host
    std::string faults;   // "jitter=20us,slow=3x10"
    uint64_t seed = 1;
    double compute = 0;  // how many times processor time counts
    std::string json;    // file; "": none
    bool survivors = false;
    std::vector<std::string> command;  // mpirun with its words
};

// The exit code: the job's, or 1 for a deadlock and 2 for mistakes.
int simulate_command(const SimulateOptions& options);

}  // namespace pomona
