// mpi/tools/simulate_report.h: what --simulate-faults says, and what is told of a simulated job.
#pragma once

#include "btl/sim/hub.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

// `problem` gets a sentence with the mend.
std::optional<sim::Faults> parse_faults(const std::string& text, int ranks, std::string& problem);

struct SimulatedJob {
    const sim::Hub& hub;
    std::vector<int> hosts;  // of the ranks
    std::vector<std::string> host_names;
    uint64_t seed;
    std::string end;                    // "over", "deadlock", "death"
    std::vector<std::string> deadlock;  // a line for each rank, then who waits for whom
    std::string chosen_by;              // what algorithms were chosen by; "": nothing is kept
};
std::string simulated_text(const SimulatedJob& job);
std::string simulated_json(const SimulatedJob& job);

}  // namespace pomona
