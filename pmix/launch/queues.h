// pmix/launch/queues.h: asks the launchers of this user's jobs on this host what stands in the
// queues of messages of a process.
#pragma once

#include "btl/base/result.h"

#include <string>

namespace pomona {

// JSON, a list of ranks; an empty one when no job of this user here has such a process. `process`:
// of a rank, or of mpirun, which means all its ranks.
Result<std::string> ask_for_queues(int process);

}  // namespace pomona
