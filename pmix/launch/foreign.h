// pmix/launch/foreign.h: programs of another MPI library, which our mpirun cannot make ranks of one
// job.
// Idea: such a program runs as so many jobs of one process, and nothing fails; so what it is linked
// to is read from its file (ELF, Mach-O) when it has ended well and never spoken to us. What Python
// has imported is seen in the memory of the living process alone; one that fails as soon as it has
// imported it is known by what it prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// The shared libraries that an executable file names, without folders; none for other files.
std::vector<std::string> needed_libraries(const std::string& path);
// Of a living process of this user: the other MPI library in its memory, without its folder, or "".
// Linux.
std::string foreign_mpi_in(int pid);
// The other MPI library that prints this when it cannot start ("MPICH"), or "".
std::string_view foreign_mpi_saying(std::string_view text);
// That of them which is another MPI's ("libmpi.so.12"), or "".
std::string foreign_mpi_of(const std::string& path);

}  // namespace pomona
