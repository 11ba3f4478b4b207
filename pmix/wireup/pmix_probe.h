// pmix/wireup/pmix_probe.h: whether OpenPMIx can be used here; serves builds with and without it.
#pragma once

#include <string>

namespace pomona {

// Empty, or why it cannot be used.
std::string try_pmix();

}  // namespace pomona
