// btl/base/advice.cc: see advice.h.
// macOS 15 and later answer a program without the Local Network permission as if there were no
// route; the permission belongs to the program that started it (Apple, TN3179, "Understanding local
// network privacy"). The application firewall drops instead of refusing.
#include "btl/base/advice.h"

#include "btl/base/messages.h"

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
    case NetworkFault::unreachable: return messages::macos_unreachable;
    case NetworkFault::timed_out: return messages::macos_timed_out;
    case NetworkFault::address_gone: return messages::macos_address_gone;
    default: return "";
    }
}

static std::string_view linux_advice(NetworkFault fault) {
    switch (fault) {
    case NetworkFault::unreachable: return messages::linux_unreachable;
    case NetworkFault::timed_out: return messages::linux_timed_out;
    case NetworkFault::address_gone: return messages::linux_address_gone;
    default: return "";
    }
}

std::string_view network_advice(NetworkFault fault, System system) {
    return system == System::macos ? macos_advice(fault) : linux_advice(fault);
}

}  // namespace pomona
