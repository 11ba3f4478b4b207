// btl/base/entropy.h: random bytes that nobody can guess, for keys and for what is used once.
#pragma once

#include "btl/base/bytes.h"

namespace pomona {

// From the system; false when it has none.
bool random_bytes(Bytes out);

}  // namespace pomona
