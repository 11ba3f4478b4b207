// pmix/pmix_server.cc: see pmix_server.h.
#include "pmix/pmix_server.h"

namespace pomona {

struct PmixServer::State {
    PmixJob job;
};

PmixServer::PmixServer(event_base*, PmixJob job) : state_(new State{std::move(job)}) {}
PmixServer::~PmixServer() = default;

Status PmixServer::offer(bool) {
    reason_ = "a PMIx server for programs of other MPI libraries is not there yet";
    return Error{Code::unsupported, "No PMIx server yet"};
}

void PmixServer::add_environment(std::vector<std::string>&) const {}
void PmixServer::settle() {}

}  // namespace pomona
