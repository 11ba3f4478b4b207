// pmix/job_key.h: what ranks of one job prove to each other that they are (btl/link/handshake.h).
// Made by mpirun from the system's random numbers and told through the job's socket alone, which
// only this user can reach: it stands in no argument, no environment and no file. Under another
// PMIx server rank 0 makes it and publishes it there: then it is as secret as that server keeps it.
#pragma once

#include <array>
#include <cstddef>

namespace pomona {

using JobKey = std::array<std::byte, 32>;

}  // namespace pomona
