// btl/base/entropy.cc: see entropy.h.
#include "btl/base/entropy.h"

#include <algorithm>
#include <sys/random.h>
#include <unistd.h>

namespace pomona {

bool random_bytes(Bytes out) {
    // At most 256 bytes at once (man 3 getentropy).
    for (size_t done = 0; done < out.size();) {
        size_t part = std::min<size_t>(out.size() - done, 256);
        if (getentropy(out.data() + done, part) != 0) return false;
        done += part;
    }
    return true;
}

}  // namespace pomona
