// pmix/launch/host.cc: what a host says of itself; see host.h.
#include "pmix/launch/host.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/tcp/interfaces.h"
#include "pmix/launch/cores.h"
#include "pmix/launch/options_table.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#if !defined(POMONA_VERSION)
#define POMONA_VERSION "unknown"
#endif

namespace pomona {

// Of the running system and, where there are containers, of this one: its network and its names.
// The host's name stands in it as well: a system may not tell the rest. Another user is another
// host: one agent starts processes of one user.
static std::string identity_here() {
    std::string out = format("{}-{}-{}", boot_id(), host_name(), geteuid());
#if defined(__linux__)
    for (const char* path : {"/proc/self/ns/net", "/proc/self/ns/uts"}) {
        struct stat status {};
        if (stat(path, &status) == 0) out += format("-{}", status.st_ino);
    }
#endif
    return out;
}

static constexpr size_t kAddressesMost = 16;
static constexpr tcp::InterfaceKind kToldKinds[] = {
    tcp::InterfaceKind::thunderbolt, tcp::InterfaceKind::wired, tcp::InterfaceKind::wifi,
    tcp::InterfaceKind::vpn, tcp::InterfaceKind::virtual_machine};

static bool is_cable(const tcp::Interface& each) {
    tcp::InterfaceKind kind = tcp::interface_kind(each);
    return kind == tcp::InterfaceKind::thunderbolt || kind == tcp::InterfaceKind::wired;
}

static void list_addresses(HostFacts& out) {
    std::vector<tcp::Interface> all = tcp::list_interfaces();
    auto add = [](std::vector<std::string>& list, const std::string& text) {
        if (list.size() < kAddressesMost) list.push_back(text);
    };
    for (const auto& each : tcp::choose_interfaces(all, tcp::InterfaceFilter())) {
        if (each.loopback) continue;
        if (!each.ip().link_local()) add(out.addresses, format("{}/{}", each.address, each.prefix));
        else if (is_cable(each)) add(out.link_local, format("{} {}", each.ip().text(), each.name));
    }
    for (const auto& each : all)
        if (each.up && !each.loopback && !is_cable(each)) add(out.unsteady, each.ip().text());
    for (tcp::InterfaceKind kind : kToldKinds)
        for (const auto& each : all)
            if (each.up && tcp::interface_kind(each) == kind && !each.ip().link_local())
                add(out.all_addresses, format("{}/{} {} {}", each.address, each.prefix, each.name,
                                              tcp::interface_kind_name(kind)));
}

std::vector<tcp::Interface> interfaces_of(const HostFacts& facts) {
    std::vector<tcp::Interface> out;
    for (const std::string& text : facts.all_addresses) {
        std::vector<std::string> words = words_of(text);
        auto network = words.size() == 3 ? tcp::Network::parse(words[0]) : std::nullopt;
        if (!network) continue;
        tcp::Interface made{words[1], words[0].substr(0, words[0].find('/')), true, false,
                            network->prefix};
        for (tcp::InterfaceKind kind : kToldKinds)
            if (words[2] == tcp::interface_kind_name(kind)) made.device = kind;
        out.push_back(made);
    }
    return out;
}

std::vector<std::string> addresses_used(const HostFacts& facts, const tcp::NetworkWish& wish) {
    tcp::InterfaceFilter filter;
    if (!filter.parse(wish.include, wish.exclude).empty()) return facts.addresses;  // ranks tell it
    System system = facts.system.starts_with("Darwin") ? System::macos : System::linux_kernel;
    std::vector<std::string> out;
    for (const tcp::Interface& each : tcp::choose_interfaces(interfaces_of(facts), filter, system))
        out.push_back(format("{}/{}", each.address, each.prefix));
    return out;
}

// "10.0.7.1/24" as its address.
static std::string address_of(const std::string& text) { return text.substr(0, text.find('/')); }

static bool share_network(const std::string& one, const HostFacts& other) {
    auto network = tcp::Network::parse(one);
    return network && std::any_of(other.addresses.begin(), other.addresses.end(),
                                  [&](const std::string& each) {
                                      auto ip = tcp::Ip::parse(address_of(each));
                                      return ip && same_network(network->ip, *ip, network->prefix);
                                  });
}

std::string address_for(const HostFacts& host, const std::vector<const HostFacts*>& others,
                        const std::string& by_ssh) {
    auto others_have = [&](const std::string& address) {
        return std::any_of(others.begin(), others.end(), [&](const HostFacts* other) {
            const auto& list = other->all_addresses;
            return std::any_of(list.begin(), list.end(), [&](const std::string& each) {
                return address_of(each) == address_of(address);
            });
        });
    };
    // Hosts that have all addresses alike are one machine: containers, or its users.
    bool alike = std::all_of(host.addresses.begin(), host.addresses.end(), others_have);
    std::string best = by_ssh;
    long most = 0;
    for (const std::string& each : host.addresses) {
        if (others_have(each) && !(alike && by_ssh.empty())) continue;
        long sharing = std::count_if(others.begin(), others.end(), [&](const HostFacts* other) {
            return share_network(each, *other);
        });
        bool better = sharing > most || (sharing == most && most > 0 && address_of(each) == by_ssh);
        if (better || (best.empty() && sharing >= most)) best = address_of(each);
        most = std::max(most, sharing);
    }
    return best;
}

std::string facts_version() { return POMONA_VERSION; }

bool means_this_host(std::string_view name, std::string_view own_name) {
    if (is_this_host(name, own_name)) return true;
    auto ip = tcp::Ip::parse(std::string(name));
    if (!ip) return false;
    std::vector<tcp::Interface> all = tcp::list_interfaces();
    return std::any_of(all.begin(), all.end(),
                       [&](const tcp::Interface& each) { return each.up && each.ip() == *ip; });
}

// Whether it could be listened on by all addresses, as torch's store does; `port` 0 takes any, and
// is the one that was got.
static bool can_listen(int& port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    socklen_t length = sizeof address;
    auto* name = reinterpret_cast<sockaddr*>(&address);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    bool out = descriptor >= 0 && bind(descriptor, name, length) == 0 &&
               getsockname(descriptor, name, &length) == 0;
    if (descriptor >= 0) close(descriptor);
    port = ntohs(address.sin_port);
    return out;
}

// By chance, and below those that Linux and macOS give to whoever wants any (from 32768, from
// 49152): the ranks open many of these before torch opens this one.
int some_port() {
    constexpr uint32_t lowest = 20000, count = 10000;
    uint32_t chance = static_cast<uint32_t>(getpid());
    (void)random_bytes(std::as_writable_bytes(std::span(&chance, 1)));
    return static_cast<int>(lowest + chance % count);
}

int free_port() {
    constexpr int attempts = 16;
    for (int i = 0; i < attempts; ++i) {
        int port = some_port();
        if (can_listen(port)) return port;
    }
    int port = 0;
    return can_listen(port) ? port : 0;
}

HostFacts facts_here(const char* const* environment) {
    HostFacts out;
    out.version = facts_version();
    utsname system{};
    if (uname(&system) == 0) out.system = format("{} {}", system.sysname, system.machine);
    out.name = host_name();
    out.identity = identity_here();
    out.processors = granted_processors();
    out.cores = granted_cores();
    out.fast = performance_processors();
    list_addresses(out);
    // "client port server port": both as the other side reached them.
    auto connection = variable(environment, "SSH_CONNECTION");
    std::vector<std::string> words = words_of(connection.value_or(""));
    if (words.size() == 4) {
        out.caller_address = words[0];
        out.own_address = words[2];
        std::from_chars(words[3].data(), words[3].data() + words[3].size(), out.own_port);
        if (out.own_port < 0 || out.own_port > 65535) out.own_port = 0;
    }
    return out;
}

int open_output_file(const std::string& name, const std::string& path) {
    std::error_code ignored;  // open() says what is wrong
    if (name.ends_with('/')) std::filesystem::create_directories(name, ignored);
    return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

}  // namespace pomona
