// mpi/tools/command_output.h: what a command prints that ends when this process does.
// Idea: a forked process holds the read end of a pipe whose write end only this process has. When
// the pipe closes without a word this process has died, by whatever signal, and the command is told
// to end (SIGTERM), as mpirun then does with its whole job. The command's process says its number
// into the pipe itself, before it becomes the command: at no moment is one running that nobody
// would end.
#pragma once

#include <string>
#include <vector>

namespace pomona {

struct CommandOutput {
    std::string text;  // empty where the command fails
    int failed = 0;    // errno, where it could not be started
};
CommandOutput output_of(const std::vector<std::string>& command);

}  // namespace pomona
