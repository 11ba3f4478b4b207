// mpi/trace/pmpi.h: the functions of the MPI library below, found when they are first called.
// Idea: this library is loaded before programs that it knows nothing of, shells among them, so it
// names no library of MPI itself. It stands above the PMPI_ names of the standard ABI.
#pragma once

#include "mpi/include/mpi.h"

namespace pomona::trace {

// Never null: a process that has no such function ends with a message.
void* find_function(const char* name);
// The MPI_ function of a tool that stands behind this one, or the library's.
void* find_next(const char* mpi_name, const char* pmpi_name);
// Whether the process has an MPI library of the standard ABI.
bool has_standard_abi();

}  // namespace pomona::trace

// POMONA_PMPI(Comm_rank)(comm, &rank)
#define POMONA_PMPI(name)                                                                          \
    ([] {                                                                                          \
        static const auto found = reinterpret_cast<decltype(&PMPI_##name)>(                        \
            ::pomona::trace::find_function("PMPI_" #name));                                        \
        return found;                                                                              \
    }())
// The same for calls of the program: POMONA_NEXT(Send)(...)
#define POMONA_NEXT(name)                                                                          \
    ([] {                                                                                          \
        static const auto found = reinterpret_cast<decltype(&PMPI_##name)>(                        \
            ::pomona::trace::find_next("MPI_" #name, "PMPI_" #name));                              \
        return found;                                                                              \
    }())
