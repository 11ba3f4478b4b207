// mpi/abi/buffer.h: what becomes of an attached buffer when its owner goes.
#pragma once

#include "mpi/p2p/bsend.h"

#include <memory>

namespace pomona {

// The attached buffer, when its messages have left; null if there is none.
std::unique_ptr<BsendBuffer> detach_buffer(std::unique_ptr<BsendBuffer>& place);

}  // namespace pomona
