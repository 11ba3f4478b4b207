// pmix/program.h: a program to start, as a command line or a spawning rank describes it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pomona {

using Variables = std::vector<std::pair<std::string, std::string>>;

// One part of an MPMD command line.
struct Program {
    int count = 0;                     // ranks; 0 = not said
    std::vector<std::string> command;  // program and arguments
    std::string directory;
    std::string host;  // MPI_Comm_spawn's info key: names of hosts, parted by commas; empty: any
    // MPI_Comm_spawn's info key mpi_initial_errhandler; empty: MPI_ERRORS_ARE_FATAL.
    std::string errhandler;
    Variables exports;  // -x NAME=VALUE, and NAME with this process's value
};

// The names of error handlers that processes may begin with, in the option -initial-errhandler and
// the info key (MPI 5.0, section 11.5), and the variable that tells a process.
inline constexpr const char* kErrhandlerNames =
    "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return";
inline constexpr const char* kErrhandlerVariable = "POMONA_INITIAL_ERRHANDLER";
inline bool is_errhandler_name(std::string_view name) {
    return name == "mpi_errors_are_fatal" || name == "mpi_errors_abort" ||
           name == "mpi_errors_return";
}

}  // namespace pomona
