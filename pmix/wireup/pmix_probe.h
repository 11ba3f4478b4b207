// pmix/wireup/pmix_probe.h: whether OpenPMIx can be used here; serves builds with and without it.
#pragma once

#include <string>

namespace pomona {

inline constexpr const char* kNoPmix =
    "this build of Pomona has no OpenPMIx: install its headers (libpmix-dev, pmix-devel, openpmix) "
    "and build again";

// Empty, or why it cannot be used.
std::string try_pmix();

}  // namespace pomona
