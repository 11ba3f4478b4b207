// pmix/launch/stack_traces.h: the calls in which processes are, for a job that has run out of time.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace pomona {

// What the system's debugger shows of this process, or why there is nothing to see; within ten
// seconds.
std::string stack_of(pid_t process, const char* const* environment);

}  // namespace pomona
