// btl/base/asymmetric.cc: membarrier(2) on Linux; macOS has nothing like it.
#include "btl/base/asymmetric.h"

#include "btl/base/check.h"

#include <cerrno>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

namespace pomona {

// linux/membarrier.h; older headers lack the names.
constexpr int kGlobalExpedited = 1 << 1;
constexpr int kRegisterGlobalExpedited = 1 << 2;

bool asymmetric_fence_available() {
    static const bool available = [] {
        if (syscall(__NR_membarrier, kRegisterGlobalExpedited, 0) != 0) return false;
        return syscall(__NR_membarrier, kGlobalExpedited, 0) == 0;
    }();
    return available;
}

void asymmetric_fence() {
    long failed = syscall(__NR_membarrier, kGlobalExpedited, 0);
    check(failed == 0, errno);
}

}  // namespace pomona

#else

namespace pomona {
bool asymmetric_fence_available() { return false; }
void asymmetric_fence() { check(false); }
}  // namespace pomona

#endif
