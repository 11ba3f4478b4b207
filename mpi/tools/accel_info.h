// mpi/tools/accel_info.h: `pomona info --accel`.
#pragma once

#include <string>

namespace pomona {

// Prints which kernels and modules reduce on this machine and how fast. Measures where no figures
// are kept (or `again`), and keeps them in `path` ("": nowhere). Returns the exit code.
int accel_info(const std::string& path, bool again);

}  // namespace pomona
