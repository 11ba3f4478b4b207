// pmix/program.h: a program to start, as a command line or a spawning rank describes it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pomona {

using Variables = std::vector<std::pair<std::string, std::string>>;

// One part of an MPMD command line.
struct Program {
    int count = 0;                     // ranks; 0 = not said
    std::vector<std::string> command;  // program and arguments
    std::string directory;
    std::string host;   // MPI_Comm_spawn's info key: names of hosts, parted by commas; empty: any
    Variables exports;  // -x NAME=VALUE, and NAME with this process's value
};

}  // namespace pomona
