// mpi/runtime/life.h: whether a rank of this machine lives, also for code that waits without the
// engine.
#pragma once

#include "btl/shm/life_file.h"
#include "mpi/runtime/process.h"

namespace pomona {

// By its life file; unknown where there is none.
Life life_of(const Process& process, int rank);

}  // namespace pomona
