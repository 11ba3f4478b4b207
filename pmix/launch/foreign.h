// pmix/launch/foreign.h: programs of another MPI library, which our mpirun cannot make ranks of one
// job.
// Idea: such a program runs as so many jobs of one process, and nothing fails; so what it is linked
// to is read from its file (ELF, Mach-O) when it has ended well and never spoken to us. What Python
// has imported, and what a script has started, is seen in the memory of the living processes; what
// ends before that, by its search for the library (bait.h); one that fails as soon as it has
// imported it, by what it prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// The shared libraries that an executable file names, without folders; none for other files.
std::vector<std::string> needed_libraries(const std::string& path);
// What is in the memory of a living process of this user and of those that it has started. Linux.
struct SeenMpi {
    std::string library;        // another MPI library, without its folder; "": none
    std::string program;        // that has it; "": the process itself
    bool ours = false;          // one of them has our library, so it may be about to connect
    bool has_launcher = false;  // another library's launcher has started one of them
};
SeenMpi mpi_in(int pid);
// The other MPI library that prints this when it cannot start ("MPICH"), or "".
std::string_view foreign_mpi_saying(std::string_view text);
// That of them which is another MPI's ("libmpi.so.12"), or "".
std::string foreign_mpi_of(const std::string& path);

}  // namespace pomona
