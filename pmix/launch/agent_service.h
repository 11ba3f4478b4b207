// pmix/launch/agent_service.h: mpirun in its other role: the agent on a host that another mpirun has
// started by ssh. Words come on standard input, and leave on standard output (agent_words.h).
#pragma once

namespace pomona {

// The exit code. Ends when mpirun says so, or is gone: then its ranks are killed first.
int run_agent(const char* const* environment);

}  // namespace pomona
