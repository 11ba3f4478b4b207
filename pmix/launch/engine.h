// pmix/launch/engine.h: who starts a job's processes: mpirun itself and its agents, or another
// launcher.
// Idea: mpirun's own agents serve everything that mpirun can, also inside a Slurm allocation, where
// srun starts them instead of ssh, on the hosts that Slurm has granted. Slurm's srun and PRRTE's
// prterun start the same programs by PMIx; mpirun then only translates the options and becomes that
// program, so signals, streams and the exit code are theirs.
#pragma once

#include "pmix/launch/options.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// mpirun keeps a connection to each host; above that another launcher should carry the job.
inline constexpr size_t kHostsMost = 64;

// What the engine asks the system.
struct EngineProbes {
    std::function<bool(const std::string& program)> installed;
    // What a command prints on both streams; "" if it cannot be started.
    std::function<std::string(const std::string& command)> output;
    std::string host;  // this one's name
    bool root = false;
};
EngineProbes real_engine_probes(const char* const* environment);

struct Engine {
    std::string mistake;               // why there can be none, with the mend
    std::vector<std::string> command;  // to become; empty: mpirun starts the processes itself
    Variables variables;               // for its environment, which the processes inherit
};
// May add hosts, a program in place of ssh, and remarks to `options`.
Engine choose_engine(Options& options, const char* const* environment, const EngineProbes& probes);

// The hosts of the Slurm allocation that the environment tells of, with their slots; none if there
// is no allocation. `mistake` says why they cannot be known.
std::vector<HostSlots> slurm_hosts(const char* const* environment, const EngineProbes& probes,
                                   std::string& mistake);

// "2(x3),1", as Slurm counts by node: one number for each; empty if it does not parse.
std::vector<int> parse_slurm_counts(std::string_view text);

// The words of that launcher for these options; what it cannot do in `mistake`.
std::vector<std::string> srun_words(const Options& options, int slots, std::string& mistake);
std::vector<std::string> prterun_words(const Options& options, const EngineProbes& probes,
                                       std::string& mistake);

// Stands in Options::shell where srun starts the agents in place of ssh.
inline constexpr const char* kAgentsBySrun = "srun";

}  // namespace pomona
