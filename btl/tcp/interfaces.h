// btl/tcp/interfaces.h: which of this machine's network interfaces TCP uses.
// Idea: reading them is one function; what each is and which are chosen are rules over plain
// values, tested for both systems. Unless the user names others, those are chosen that reach other
// machines directly: Thunderbolt, wired, Wi-Fi; no tunnels (a VPN would carry the traffic over the
// Internet), nothing that belongs to virtual machines or AirDrop.
#pragma once

#include "btl/base/system.h"
#include "btl/tcp/ip.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona::tcp {

// The order says which is better, all else being equal.
enum class InterfaceKind : uint8_t {
    thunderbolt,
    wired,  // or what cannot be told
    wifi,
    vpn,
    virtual_machine,
    internal,  // AirDrop and the like
    loopback
};
inline constexpr int kInterfaceKinds = 7;

// An interface's address.
struct Interface {
    std::string name;
    std::string address;  // numeric
    bool up = false;
    bool loopback = false;
    int prefix = 32;                              // bits that the addresses of its network share
    InterfaceKind device = InterfaceKind::wired;  // as the system tells; `wired`: look at the name
    uint32_t megabits = 0;                        // of its line; 0: the system does not tell
    bool carrier = true;                          // false: nothing is at the other end of its cable
    Ip ip() const { return Ip::parse(address).value_or(Ip{}); }
};

// By the name alone.
InterfaceKind interface_kind(std::string_view name, bool loopback, System system = this_system);
InterfaceKind interface_kind(const Interface& interface, System system = this_system);
// One word, as parameters have it: thunderbolt, wired, wifi, vpn, virtual, internal, loopback.
const char* interface_kind_name(InterfaceKind kind);

// The addresses of this machine, one entry each.
std::vector<Interface> list_interfaces();

// Words of the parameters if_include and if_exclude.
class InterfaceFilter {
public:
    // "" or a sentence that names the word that is none. A word is an interface's name, an address,
    // a network (10.0.0.0/8), a kind, or `network` (wired or wifi); words are separated by commas.
    std::string parse(std::string_view include, std::string_view exclude);
    // Interfaces that `include` names are taken whatever they are, except what `exclude` names.
    bool takes(const Interface& interface, System system = this_system) const;

private:
    struct Word {
        std::string name;                  // of an interface, or
        std::vector<InterfaceKind> kinds;  // one of these, or
        std::optional<Network> network;
    };
    static std::string parse(const char* parameter, std::string_view text, std::vector<Word>& out);
    static bool names(const std::vector<Word>& words, const Interface& interface, System system);
    std::vector<Word> include_, exclude_;
};

// What a user has told of networks, gloo or NCCL too, in words for if_include and if_exclude.
struct NetworkWish {
    std::string said;  // "GLOO_SOCKET_IFNAME=eth0", "if_include=wired"; "": nothing
    std::string include, exclude;
};
// By the variables' values, "" where one is not set. gloo's are names; NCCL's are beginnings of
// names, names behind '=', or, behind '^', those to leave out. Nothing where none of them is up
// here and leads to other machines: the wish may be meant for others.
std::optional<NetworkWish> network_wish(std::string_view gloo, std::string_view nccl,
                                        const std::vector<Interface>& all);
// What chooses a job's interfaces: the parameters, and where neither is set, that wish.
NetworkWish network_choice(const std::string& if_include, const std::string& if_exclude,
                           std::string_view gloo, std::string_view nccl,
                           const std::vector<Interface>& all);

// Of one that is up and that this does not take.
std::string why_not_taken(const Interface& interface, const NetworkWish& wish,
                          System system = this_system);

// Words of the parameter `encrypt`: all, or kinds; empty or `no`: none. "" or a sentence that names
// the word that is none.
std::string parse_encrypt(std::string_view text, std::vector<InterfaceKind>& kinds);

// Those of them that are up and taken, interfaces of the best kind first; of each interface first
// IPv4, then IPv6, then link-local IPv6.
std::vector<Interface> choose_interfaces(const std::vector<Interface>& all,
                                         const InterfaceFilter& filter,
                                         System system = this_system);

}  // namespace pomona::tcp
