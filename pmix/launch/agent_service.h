// pmix/launch/agent_service.h: mpirun in its other role: the agent on a host that another mpirun
// has started by ssh. Words come on standard input, and leave on standard output (agent_words.h);
// or both go by a connection to mpirun, whose invitation is all that comes on standard input
// (dial_back.h).
#pragma once

namespace pomona {

// The exit code. Ends when mpirun says so, or is gone: then its ranks are killed first.
int run_agent(const char* const* environment, bool dials);

}  // namespace pomona
