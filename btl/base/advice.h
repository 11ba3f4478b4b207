// btl/base/advice.h: what a user may do about an error of the network.
// Idea: the system's words for an error ("No route to host") seldom name its cause. What is known
// of causes stands here once; Error::text() adds it, `pomona doctor` says the same beforehand.
#pragma once

#include "btl/base/system.h"

#include <string_view>

namespace pomona {

enum class NetworkFault { none, unreachable, timed_out, refused, address_gone };

NetworkFault network_fault(int os_errno);

// A sentence, or "" where nothing better is known than the error itself.
std::string_view network_advice(NetworkFault fault, System system = this_system);

}  // namespace pomona
