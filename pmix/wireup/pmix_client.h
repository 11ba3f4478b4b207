// pmix/wireup/pmix_client.h: the wire-up of a rank that a PMIx server started (Open MPI's mpirun,
// PRRTE, Slurm's srun --mpi=pmix, or our own for programs of other libraries).
#pragma once

#include "pmix/wireup/wireup.h"

namespace pomona {

struct PmixLibrary;

Result<std::unique_ptr<Wireup>> start_under_pmix();
// With these functions for PMIx (its fuzzer has its own).
Result<std::unique_ptr<Wireup>> start_under_pmix(const PmixLibrary& library);

}  // namespace pomona
