// pmix/launch/pmix_absent.cc: instead of pmix_server.cc where the build found no OpenPMIx: nothing
// is offered to programs of other libraries, and `mpirun --pmix on` says why.
#include "pmix/launch/pmix_server.h"

#include "btl/base/messages.h"

namespace pomona {

std::string pmix_namespace(const std::string& job) { return job; }

struct PmixServer::State {
    std::string reason = messages::pmix_not_built;
};

PmixServer::PmixServer(event_base*, PmixJob) : state_(std::make_unique<State>()) {}
PmixServer::~PmixServer() = default;
Status PmixServer::offer(bool) {
    return Error{Code::unsupported, "This build of Pomona has no OpenPMIx"};
}
const std::string& PmixServer::reason() const { return state_->reason; }
void PmixServer::add_environment(std::vector<std::string>&) const {}
void PmixServer::settle() {}

}  // namespace pomona
