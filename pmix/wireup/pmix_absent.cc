// pmix/wireup/pmix_absent.cc: instead of pmix_client.cc and pmix_library.cc where the build found
// no OpenPMIx: what needs it says so.
#include "pmix/wireup/pmix_client.h"
#include "pmix/wireup/pmix_probe.h"

#include "btl/base/log.h"
#include "btl/base/messages.h"

namespace pomona {

std::string try_pmix() { return messages::pmix_not_built; }

Result<std::unique_ptr<Wireup>> start_under_pmix() {
    LOG(error, pmix, messages::pmix_started_without, messages::pmix_not_built);
    return Error{Code::unsupported, "This build of Pomona has no OpenPMIx"};
}

}  // namespace pomona
