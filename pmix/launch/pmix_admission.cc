// pmix/launch/pmix_admission.cc: see pmix_admission.h.
#include "pmix/launch/pmix_admission.h"

#include <cstdlib>
#include <vector>

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#if defined(__linux__)
#include <linux/filter.h>
#endif

namespace pomona {

#if defined(__linux__)

namespace {
int listener_of(int port) {
    DIR* ours = opendir("/proc/self/fd");
    int found = -1;
    while (dirent* entry = ours ? readdir(ours) : nullptr) {
        int descriptor = std::atoi(entry->d_name);
        sockaddr_in address{};
        socklen_t length = sizeof address, size = sizeof(int);
        int listens = 0;
        if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
            getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
            address.sin_family == AF_INET && ntohs(address.sin_port) == port)
            found = descriptor;
    }
    if (ours) closedir(ours);
    return found;
}
}  // namespace

bool PmixAdmission::close_port(int port) {
    listener_ = listener_of(port);
    apply();
    return listener_ >= 0;
}

void PmixAdmission::admit(int source_port) {
    admitted_.insert(static_cast<uint16_t>(source_port));
    apply();
}

void PmixAdmission::forget(int source_port) {
    if (admitted_.erase(static_cast<uint16_t>(source_port))) apply();
}

// A connection keeps the filter that its listener had when it was made, and it was admitted then.
void PmixAdmission::apply() {
    if (listener_ < 0) return;
    std::vector<sock_filter> program;
    program.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0));  // TCP's source port
    for (uint16_t port : admitted_) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1));
        program.push_back(BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
    if (program.size() > BPF_MAXINSNS) {  // 2,000 ranks: the secret alone protects
        setsockopt(listener_, SOL_SOCKET, SO_DETACH_FILTER, nullptr, 0);
        return;
    }
    sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    setsockopt(listener_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

#else

bool PmixAdmission::close_port(int) { return false; }
void PmixAdmission::admit(int) {}
void PmixAdmission::forget(int) {}

#endif

}  // namespace pomona
