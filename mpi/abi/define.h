// mpi/abi/define.h: how an MPI function is written.
// POMONA_MPI(int, Send_c, (const void* buf, ...)) { body } defines PMPI_Send_c, strong, and on ELF
// the weak alias MPI_Send_c; macOS has no aliases, so a generated file holds weak definitions of
// the MPI_ names there. Rules for the bodies:
// - Write the large-count form (_c) only: the int form is generated from the tables and calls it.
// - Copy arrays (counts, displacements, types) before returning, in non-blocking and persistent
//   calls too: the int form widens them into memory that ends with the call. Look at the
//   communicator first: when it is wrong the arrays are empty.
// - Call PMPI_ names inside the library, never MPI_ names: a profiling tool counts those.
// A function that no file of mpi/abi defines is generated and returns
// MPI_ERR_UNSUPPORTED_OPERATION through the error handler of its object.
#pragma once

#pragma GCC visibility push(default)
#include "mpi/include/mpi.h"
#include "mpi/include/mpix.h"
#pragma GCC visibility pop

// Said at the definition too: mpi.h may have been included before, by another header.
#define POMONA_EXPORT __attribute__((visibility("default")))

#if defined(__APPLE__)
#define POMONA_MPI(type, name, params) extern "C" POMONA_EXPORT type PMPI_##name params
#else
#define POMONA_MPI(type, name, params)                                                             \
    extern "C" POMONA_EXPORT type MPI_##name params __attribute__((weak, alias("PMPI_" #name)));   \
    extern "C" POMONA_EXPORT type PMPI_##name params
#endif

// Extensions have no profiling twin.
#define POMONA_MPIX(type, name, params) extern "C" POMONA_EXPORT type MPIX_##name params
