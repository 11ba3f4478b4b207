// btl/tcp/interfaces.cc: see interfaces.h.
#include "btl/tcp/interfaces.h"

#include <algorithm>
#include <cctype>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace pomona::tcp {

namespace {

struct Rule {
    std::string_view stem;  // the name without its number
    InterfaceKind kind;
};

// gif, stf: tunnels; awdl, llw: AirDrop; ap: a Mac as access point; anpi: internal devices; vmenet,
// feth: virtual machines. bridge0 is the Thunderbolt bridge; bridge100 and up serve virtual machines
// and Internet Sharing.
constexpr Rule macos_rules[] = {
    {"utun", InterfaceKind::tunnel},         {"ipsec", InterfaceKind::tunnel},
    {"ppp", InterfaceKind::tunnel},          {"gif", InterfaceKind::tunnel},
    {"stf", InterfaceKind::tunnel},          {"tun", InterfaceKind::tunnel},
    {"tap", InterfaceKind::tunnel},          {"awdl", InterfaceKind::peer_to_peer},
    {"llw", InterfaceKind::peer_to_peer},    {"ap", InterfaceKind::peer_to_peer},
    {"anpi", InterfaceKind::peer_to_peer},   {"vmenet", InterfaceKind::virtual_machine},
    {"feth", InterfaceKind::virtual_machine}};

constexpr Rule linux_rules[] = {{"tun", InterfaceKind::tunnel},
                                {"tap", InterfaceKind::tunnel},
                                {"wg", InterfaceKind::tunnel},
                                {"ppp", InterfaceKind::tunnel},
                                {"tailscale", InterfaceKind::tunnel},
                                {"zt", InterfaceKind::tunnel},
                                {"docker", InterfaceKind::virtual_machine},
                                {"virbr", InterfaceKind::virtual_machine},
                                {"podman", InterfaceKind::virtual_machine},
                                {"lxcbr", InterfaceKind::virtual_machine},
                                {"cni", InterfaceKind::virtual_machine},
                                {"thunderbolt", InterfaceKind::thunderbolt_bridge}};

bool listed(const std::string& list, const std::string& word) {
    return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace

InterfaceKind interface_kind(std::string_view name, bool loopback, System system) {
    if (loopback) return InterfaceKind::loopback;
    size_t length = name.size();
    while (length > 0 && std::isdigit(static_cast<unsigned char>(name[length - 1]))) --length;
    std::string_view stem = name.substr(0, length), number = name.substr(length);
    auto look = [&](const auto& rules) {
        for (const Rule& rule : rules)
            if (rule.stem == stem) return rule.kind;
        return InterfaceKind::network;
    };
    if (system == System::macos) {
        if (stem == "bridge")
            return number.size() < 3 ? InterfaceKind::thunderbolt_bridge
                                     : InterfaceKind::virtual_machine;
        return look(macos_rules);
    }
    // Docker's own networks: br- and twelve digits of their number.
    if (name.starts_with("br-") || name.starts_with("veth")) return InterfaceKind::virtual_machine;
    if (name.starts_with("zt")) return InterfaceKind::tunnel;  // ZeroTier: zt and letters
    return look(linux_rules);
}

const char* interface_kind_name(InterfaceKind kind) {
    switch (kind) {
    case InterfaceKind::loopback: return "loopback";
    case InterfaceKind::network: return "network";
    case InterfaceKind::thunderbolt_bridge: return "Thunderbolt";
    case InterfaceKind::tunnel: return "tunnel (VPN)";
    case InterfaceKind::virtual_machine: return "virtual machines";
    case InterfaceKind::peer_to_peer: return "AirDrop or internal";
    }
    return "";
}

std::vector<Interface> list_interfaces() {
    std::vector<Interface> found;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return found;
    for (ifaddrs* each = all; each; each = each->ifa_next) {
        if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr, text,
                  sizeof text);
        found.push_back({each->ifa_name, text, (each->ifa_flags & IFF_UP) != 0,
                         (each->ifa_flags & IFF_LOOPBACK) != 0});
    }
    freeifaddrs(all);
    return found;
}

std::vector<std::string> choose_addresses(const std::vector<Interface>& all,
                                          const std::string& wanted, System system) {
    std::vector<std::string> first, others;
    for (const Interface& each : all) {
        if (!each.up) continue;
        InterfaceKind kind = interface_kind(each.name, each.loopback, system);
        bool thunderbolt = kind == InterfaceKind::thunderbolt_bridge;
        bool chosen = wanted.empty() ? thunderbolt || kind == InterfaceKind::network
                                     : listed(wanted, each.name) || listed(wanted, each.address);
        if (chosen) (thunderbolt ? first : others).push_back(each.address);
    }
    first.insert(first.end(), others.begin(), others.end());
    return first;
}

std::vector<std::string> local_addresses(const std::string& wanted) {
    return choose_addresses(list_interfaces(), wanted);
}

}  // namespace pomona::tcp
