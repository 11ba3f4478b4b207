// pmix/launch/cores.h: how many processors are fast, on machines that have slow ones too.
// Idea: hwloc ranks the kinds of cores (Apple's performance and efficiency cores, hybrid processors).
// Reading the topology costs about ten milliseconds, so it is asked only when `-n` was not given.
#pragma once

namespace pomona {

// Processors of the fastest kind that we may use; 0 where all are alike or hwloc cannot tell.
int performance_processors();

}  // namespace pomona
