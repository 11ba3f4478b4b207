// pmix/launch/foreign.h: programs of another MPI library, which our mpirun cannot make ranks of one job.
// Idea: such a program runs as so many jobs of one process, and nothing fails; so what it is linked to is
// read from its file (ELF, Mach-O) when it has ended well and never spoken to us.
#pragma once

#include <string>
#include <vector>

namespace pomona {

// The shared libraries that an executable file names, without folders; none for other files.
std::vector<std::string> needed_libraries(const std::string& path);
// That of them which is another MPI's ("libmpi.so.12"), or "".
std::string foreign_mpi_of(const std::string& path);

}  // namespace pomona
