// pmix/launch/spawn.h: starting one process of the job.
// Idea: everything that allocates or searches is done before; between fork and exec only plain
// system calls run. On Linux the child borrows the parent's memory (vfork), which is several
// times faster than a copy, and dies with it (PR_SET_PDEATHSIG); on macOS it is a fork.
#pragma once

#include "btl/base/result.h"

#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace pomona {

struct SpawnRequest {
    std::string path;                      // what to execute
    std::vector<std::string> arguments;    // from argv[0]
    std::vector<std::string> environment;  // NAME=VALUE
    std::string directory;                 // empty: ours
    int input = -1, output = -1, error = -1;
    std::vector<unsigned long> cpu_mask;  // empty: not bound
    rlimit descriptor_limit{};            // RLIMIT_NOFILE; zero: ours
    sigset_t ignored{};                   // these signals stay ignored, as whoever started us wants
};

// The process id, which is its group's too. The Error's `what` says which step failed.
Result<pid_t> spawn(const SpawnRequest& request);

// The file that `name` means, searched in PATH of the environment the process will have and then in
// its working directory; empty if there is none.
std::string find_program(const std::string& name, const std::string& directory,
                         const std::vector<std::string>& environment);

// A path as a process in that directory means it.
std::string in_directory(const std::string& path, const std::string& directory);

}  // namespace pomona
