// pmix/launch/cores.h: how many processors, cores and fast cores there are for ranks.
// Idea: hwloc ranks the kinds of cores (Apple's performance and efficiency cores, hybrid
// processors). Reading the topology costs about ten milliseconds, so it is asked only when `-n` was
// not given.
#pragma once

#include <string>

namespace pomona {

// Processors of the fastest kind that we may use; 0 where all are alike or hwloc cannot tell.
int performance_processors();

// Hardware threads that mpirun may use, by its affinity and the processor time that its control
// group is granted: a container with --cpus=2 on a machine of 64 has 2.
int granted_processors();

// The cores that these are on, or 0 where the system does not tell.
int granted_cores();

// Processors' worth of time granted by the narrowest control group around a process, or 0 if there
// is no limit. `groups` is the text of /proc/self/cgroup, `root` where control groups are mounted;
// of both versions.
double granted_time(const std::string& groups, const std::string& root);

}  // namespace pomona
