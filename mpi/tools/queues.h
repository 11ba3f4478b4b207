// mpi/tools/queues.h: `pomona queues PID`: the queues of messages of a living rank.
#pragma once

namespace pomona {

// `process`: of a rank on this host, or of an mpirun, which means all its ranks.
int queues_command(int process, bool json);

}  // namespace pomona
