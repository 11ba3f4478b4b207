// mpi/abi/buffer.h: what becomes of an attached buffer when its owner goes.
#pragma once

#include "mpi/p2p/bsend.h"

#include <memory>

namespace pomona {

// Waits until its messages have left, then forgets it.
void detach_buffer(std::unique_ptr<BsendBuffer>& place);

}  // namespace pomona
