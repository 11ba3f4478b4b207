// pmix/pmix_client.h: the wire-up of a rank that a PMIx server started (Open MPI's mpirun, PRRTE,
// Slurm's srun --mpi=pmix, or our own for programs of other libraries).
#pragma once

#include "pmix/wireup.h"

namespace pomona {

Result<std::unique_ptr<Wireup>> start_under_pmix();

}  // namespace pomona
