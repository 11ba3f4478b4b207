// btl/shm/other_process.cc: process_vm_readv(2), process_vm_writev(2) and, for Yama,
// prctl(PR_SET_PTRACER); Linux.
#include "btl/shm/other_process.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/uio.h>
#endif

namespace pomona {

bool read_process(int64_t pid, uint64_t address, Bytes target) {
    if (pid == getpid()) {  // ranks as threads
        std::memcpy(target.data(), reinterpret_cast<const void*>(address), target.size());
        return true;
    }
#if defined(__linux__)
    while (!target.empty()) {
        iovec to{target.data(), target.size()};
        iovec from{reinterpret_cast<void*>(address), target.size()};
        ssize_t got = process_vm_readv(static_cast<pid_t>(pid), &to, 1, &from, 1, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        target = target.subspan(static_cast<size_t>(got));
        address += static_cast<uint64_t>(got);
    }
    return true;
#else
    (void)address, (void)target;
    return false;
#endif
}

bool write_process(int64_t pid, uint64_t address, ConstBytes source) {
    if (pid == getpid()) {  // ranks as threads
        std::memcpy(reinterpret_cast<void*>(address), source.data(), source.size());
        return true;
    }
#if defined(__linux__)
    while (!source.empty()) {
        iovec from{const_cast<std::byte*>(source.data()), source.size()};
        iovec to{reinterpret_cast<void*>(address), source.size()};
        ssize_t put = process_vm_writev(static_cast<pid_t>(pid), &from, 1, &to, 1, 0);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        source = source.subspan(static_cast<size_t>(put));
        address += static_cast<uint64_t>(put);
    }
    return true;
#else
    (void)address, (void)source;
    return false;
#endif
}

void allow_reading_by_siblings() {
#if defined(__linux__)
    // Descendants of the named process count as well. Without Yama: EINVAL, and nothing is needed.
    prctl(PR_SET_PTRACER, static_cast<unsigned long>(getppid()), 0, 0, 0);
#endif
}

}  // namespace pomona
