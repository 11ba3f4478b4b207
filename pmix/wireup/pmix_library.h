// pmix/wireup/pmix_library.h: OpenPMIx, opened when it is needed.
// Idea: a job of our own mpirun on one machine needs no PMIx, and loading libpmix with what it
// links costs each process about half a millisecond; so it is opened by name at first use, with
// types and prototypes from its own headers. Works with 4.2.2 and later: 5.0's renamed helper
// functions are not used, values are built by hand (pmix_value.h).
#pragma once

#include "btl/base/result.h"

#include <string>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <pmix.h>
#include <pmix_server.h>
#pragma GCC diagnostic pop

namespace pomona {

// clang-format off
#define POMONA_PMIX_FUNCTIONS(F)                                                               \
    F(PMIx_Init) F(PMIx_Finalize) F(PMIx_Put) F(PMIx_Commit) F(PMIx_Fence) F(PMIx_Get)         \
    F(PMIx_Abort) F(PMIx_Register_event_handler) F(PMIx_Error_string) F(PMIx_Get_version)      \
    F(PMIx_server_init) F(PMIx_server_register_nspace) F(PMIx_server_register_client)          \
    F(PMIx_server_setup_fork) F(PMIx_generate_regex) F(PMIx_generate_ppn)
// clang-format on

struct PmixLibrary {
#define POMONA_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
    POMONA_PMIX_FUNCTIONS(POMONA_PMIX_MEMBER)
#undef POMONA_PMIX_MEMBER

    // Opens the library once per process; `why` says what the loader reports.
    static Result<const PmixLibrary*> open(std::string& why);
};

}  // namespace pomona
