// btl/self.h: frames a rank sends to itself.
#pragma once

#include "btl/transport.h"

namespace pomona {

std::unique_ptr<Transport> make_self_transport(int rank);

}  // namespace pomona
