// btl/base/stream_copy.h: copies past the caches, for results that do not fit them.
// Idea: an ordinary store fetches the line it writes and later pushes another out; of data that
// leaves the caches anyway each line so moves three times instead of twice, and what others keep
// there goes. Non-temporal stores of x86-64 (SSE2). Elsewhere an ordinary copy: arm64's hint (STNP)
// is the system's memcpy's own matter.
#pragma once

#include <cstddef>

namespace pomona {

#if defined(__x86_64__)
inline constexpr bool kStreamCopy = true;
#else
inline constexpr bool kStreamCopy = false;
#endif

// The areas do not overlap. Later stores are seen after it, as after memcpy.
void stream_copy(void* to, const void* from, size_t bytes);

// Bytes of the third-level cache of this process's cores; 0: not known, or nothing to stream with.
// Looked up at the first call. From /sys: cpuid, which sysconf asks, gives virtual machines the
// whole host's.
size_t third_level_cache();

}  // namespace pomona
