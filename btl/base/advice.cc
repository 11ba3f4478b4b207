// btl/base/advice.cc: see advice.h.
// macOS 15 and later answer a program without the Local Network permission as if there were no
// route; the permission belongs to the program that started it (Apple, TN3179, "Understanding local
// network privacy"). The application firewall drops instead of refusing.
#include "btl/base/advice.h"

#include <cerrno>

namespace pomona {

NetworkFault network_fault(int os_errno) {
    switch (os_errno) {
    case EHOSTUNREACH:
    case ENETUNREACH: return NetworkFault::unreachable;
    case ETIMEDOUT: return NetworkFault::timed_out;
    case ECONNREFUSED: return NetworkFault::refused;
    case EADDRNOTAVAIL: return NetworkFault::address_gone;
    default: return NetworkFault::none;
    }
}

static std::string_view macos_advice(NetworkFault fault) {
    switch (fault) {
    case NetworkFault::unreachable:
        return "If ping reaches that host, macOS denies the program that started this one the "
               "local "
               "network: allow it in System Settings > Privacy & Security > Local Network, or "
               "start "
               "from Terminal or through ssh, which need no permission";
    case NetworkFault::timed_out:
        return "A firewall may drop it: allow incoming connections for this program in System "
               "Settings > Network > Firewall on the other host";
    case NetworkFault::address_gone:
        return "The interface has lost its address: look whether the Thunderbolt cable is in, or "
               "name other interfaces with POMONA_IF_INCLUDE";
    default: return "";
    }
}

static std::string_view linux_advice(NetworkFault fault) {
    switch (fault) {
    case NetworkFault::unreachable:
        return "Look whether `ip route get ADDRESS` knows a way, or name other interfaces with "
               "POMONA_IF_INCLUDE; a firewall that rejects looks the same";
    case NetworkFault::timed_out:
        return "A firewall may drop it: allow TCP between the hosts, or name other interfaces with "
               "POMONA_IF_INCLUDE";
    case NetworkFault::address_gone:
        return "The interface has lost its address; name others with POMONA_IF_INCLUDE";
    default: return "";
    }
}

std::string_view network_advice(NetworkFault fault, System system) {
    return system == System::macos ? macos_advice(fault) : linux_advice(fault);
}

}  // namespace pomona
