// pmix/launch/pmix_server.h: a PMIx server for ranks that are programs of other MPI libraries.
// Idea: our own ranks do not need it, and starting it costs more than the whole rest of a job. So
// mpirun only listens: the environment names a port of ours, and the first connection there makes
// the real server (libpmix, in this process), to which this and all later connections are passed
// on byte by byte. Any user of the machine can connect to such a port, so the namespace holds a
// secret (pmix_namespace) and must be named first.
#pragma once

#include "btl/base/result.h"
#include "pmix/launch/forward.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

struct PmixJob {
    std::string id;
    std::string nspace;  // PMIx's name of the job; whoever knows it is let in
    std::string directory;
    std::string host;
    int slots = 1;
    std::vector<int> program_of;  // of each rank
    std::vector<int> program_rank_of;
};

// The job's name, a hyphen and 130 random bits; empty if the system has no random numbers.
std::string pmix_namespace(const std::string& job);

class PmixServer {
public:
    PmixServer(event_base* base, PmixJob job);
    ~PmixServer();

    // Listens; with `now` the real server is started at once, and a failure is told.
    Status offer(bool now);
    const std::string& reason() const;  // of the last failure

    // What all ranks need to find us; PMIX_RANK is added for each.
    void add_environment(std::vector<std::string>& environment) const;
    // Takes the words of ranks that have just died; the functions below are called from here or
    // from the event loop.
    void settle();

    std::function<void(int rank, bool finalized)> on_phase;
    std::function<void(int rank, int code, const std::string& message)> on_abort;
    std::function<void(const std::string& text)> on_failure;  // the server cannot be started

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace pomona
