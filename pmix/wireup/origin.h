// pmix/wireup/origin.h: who started this process, read from the environment alone.
// Idea: our mpirun says all a rank needs in POMONA_JOB_* variables; PMIX_NAMESPACE means a PMIx
// server; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT one of several without a launcher; none of
// these means a singleton, unless another launcher's traces show that this is one of N processes
// that would each run alone by mistake: that is refused with what to do.
#pragma once

#include "pmix/wireup/wireup.h"

#include <cstdint>
#include <optional>
#include <string>

namespace pomona {

// The value of `name` in an environment block, or nothing.
std::optional<std::string_view> variable(const char* const* environment, std::string_view name);

// The nodes of consecutive ranks as text, "0x4,1x4", and back; `count` entries or an error.
std::string node_runs(const std::vector<int>& node_of);
Result<std::vector<int>> parse_node_runs(std::string_view text, size_t count);

// The letters and digits that stand for a job in names of limited length.
std::string tag_of(std::string_view id);

// One of several processes that were started one at a time (by_hand.h).
struct ByHand {
    int rank = 0;
    int size = 1;
    std::string host;  // MASTER_ADDR: a name or an address
    uint16_t port = 0;
    std::string secret;
    double wait_seconds = 600;
};

struct Started {
    Origin origin = Origin::singleton;
    Job job;                        // filled for mpirun and singleton; PMIx answers the rest
    std::string refusal;            // why this process must not go on; empty if it may
    std::optional<ByHand> by_hand;  // where it is one of several without a launcher
};
Started find_origin(const char* const* environment);

// A number that tells this run of the job from an earlier one of the same name (Slurm starts a job
// again under its old number): alike for the ranks of one machine, which have the same PMIx server.
// 0 where names are not used again (our mpirun's hold random letters).
uint64_t incarnation_of(const char* const* environment);
uint64_t incarnation_here();  // of this process

// Fills local_ranks, local_rank and local_size from rank and node_of.
void fill_local(Job& job);

std::string host_name();
std::string boot_id();  // of the running system; "" where it does not tell

// With which code a process and its job end that aborts with this one: never 0, which scripts would
// take for success.
int exit_code_of(int code);

// Cores this process may use (affinity), and those of the machine.
int usable_cores();
int machine_cores();

}  // namespace pomona
