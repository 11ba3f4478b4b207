// launch.h: running mpi-bench without mpirun, and its Python programs.
#pragma once

#include <string>
#include <vector>

namespace pomona::bench {

bool under_launcher();  // does the environment say that a launcher started this process?
bool first_rank();      // as far as the environment tells, before MPI_Init
std::string find_launcher(const std::string& asked);  // empty: none found
std::string find_script(const std::string& name);     // plot.py, versus.py; empty: not found

// Replaces this process; returns only if that failed, after saying why.
int become(const std::vector<std::string>& command);
// Runs a command and waits; its exit code, or 127.
int run(const std::vector<std::string>& command);

}  // namespace pomona::bench
