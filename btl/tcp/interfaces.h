// btl/tcp/interfaces.h: which of this machine's network interfaces TCP offers to other ranks.
// Idea: reading them is one function; what each is and which are chosen are rules over plain
// values, tested for both systems. Offered to others is what can reach them: no tunnels (a VPN would
// carry the traffic over the Internet), nothing that belongs to virtual machines or AirDrop; the
// Thunderbolt bridge comes first, whose 169.254 addresses are as good as any.
#pragma once

#include "btl/base/system.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona::tcp {

enum class InterfaceKind {
    loopback,
    network,
    thunderbolt_bridge,
    tunnel,
    virtual_machine,
    peer_to_peer
};

struct Interface {
    std::string name;
    std::string address;  // numeric IPv4
    bool up = false;
    bool loopback = false;
};

InterfaceKind interface_kind(std::string_view name, bool loopback, System system = this_system);
// "Thunderbolt bridge", ...
const char* interface_kind_name(InterfaceKind kind);

// The IPv4 addresses of this machine, one entry each.
std::vector<Interface> list_interfaces();

// The addresses to offer, best first. `wanted` restricts to names or addresses
// ("bridge0,192.168.1.5"), and admits what is left out otherwise; empty takes what can reach others.
std::vector<std::string> choose_addresses(const std::vector<Interface>& all,
                                          const std::string& wanted, System system = this_system);

// Both together.
std::vector<std::string> local_addresses(const std::string& wanted);

}  // namespace pomona::tcp
