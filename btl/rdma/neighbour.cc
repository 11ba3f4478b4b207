// btl/rdma/neighbour.cc: see neighbour.h.
#include "btl/rdma/neighbour.h"

#include <cstring>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona::rdma {

template <class Address> static void send_to(int family, const Address& to) {
    int file = socket(family, SOCK_DGRAM, 0);
    if (file < 0) return;
    fcntl(file, F_SETFD, FD_CLOEXEC);
    fcntl(file, F_SETFL, O_NONBLOCK);
    (void)sendto(file, "", 0, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    close(file);
}

void look_for_neighbour(const std::string& device, const GidBytes& gid, uint16_t port) {
    if (is_ipv4(gid)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        std::memcpy(&to.sin_addr, gid.data() + 12, 4);
        return send_to(AF_INET, to);
    }
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    std::memcpy(&to.sin6_addr, gid.data(), gid.size());
    size_t dash = device.find('_');
    if (IN6_IS_ADDR_LINKLOCAL(&to.sin6_addr) && dash != device.npos)
        to.sin6_scope_id = if_nametoindex(device.c_str() + dash + 1);
    send_to(AF_INET6, to);
}

}  // namespace pomona::rdma
