// pmix/wireup/fates.h: how processes of the job have ended, as far as mpirun has told: for texts of
// errors that their deaths lead to.
// Idea: a transport finds out that a peer has gone, and mpirun knows why; its word comes a little
// later, by the wire-up. Who makes a text asks here. One list a process, since it is of one job.
#pragma once

#include <cstddef>
#include <string>

namespace pomona {

// `how`: what follows "rank 3", as "was killed by signal 9 (Killed)".
void note_fate(int rank, const std::string& how);
size_t fates_known();
// "rank 3 of the job was killed by signal 9 (Killed)", the last ones; "": none is known.
std::string known_fates();

}  // namespace pomona
