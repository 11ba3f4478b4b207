// bench_mpi.h: mpi.h without the C++ bindings that old releases of MPICH and Open MPI add to it.
#pragma once

#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>
