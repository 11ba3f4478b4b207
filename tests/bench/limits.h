// limits.h: what the hardware and the system allow, measured without MPI.
#pragma once

namespace pomona::bench {

int run_limits(int argc, char** argv);

}  // namespace pomona::bench
