// pmix/wireup/pmix_absent.cc: instead of pmix_client.cc and pmix_library.cc where the build found no
// OpenPMIx: what needs it says so.
#include "pmix/wireup/pmix_client.h"
#include "pmix/wireup/pmix_probe.h"

#include "btl/base/log.h"

namespace pomona {

std::string try_pmix() { return kNoPmix; }

Result<std::unique_ptr<Wireup>> start_under_pmix() {
    LOG(error, pmix,
        "a PMIx server started this process, but {}; start the program with Pomona's mpirun, or unset "
        "PMIX_NAMESPACE to run it alone",
        kNoPmix);
    return Error{Code::unsupported, "This build of Pomona has no OpenPMIx"};
}

}  // namespace pomona
