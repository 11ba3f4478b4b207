// btl/tcp/interfaces.cc: see interfaces.h.
#include "btl/tcp/interfaces.h"

#include "btl/base/format.h"
#include "btl/tcp/macos_device.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona::tcp {

namespace {

[[maybe_unused]] constexpr uint32_t kMegabitsMost = 10'000'000;

struct Rule {
    std::string_view stem;  // the name without its number
    InterfaceKind kind;
};

// gif, stf: tunnels; awdl, llw: AirDrop; ap: a Mac as access point; anpi: internal devices; vmenet,
// feth: virtual machines. bridge0 is the Thunderbolt bridge; bridge100 and up serve virtual
// machines and Internet Sharing.
constexpr Rule macos_rules[] = {{"utun", InterfaceKind::vpn},
                                {"ipsec", InterfaceKind::vpn},
                                {"ppp", InterfaceKind::vpn},
                                {"gif", InterfaceKind::vpn},
                                {"stf", InterfaceKind::vpn},
                                {"tun", InterfaceKind::vpn},
                                {"tap", InterfaceKind::vpn},
                                {"awdl", InterfaceKind::internal},
                                {"llw", InterfaceKind::internal},
                                {"ap", InterfaceKind::internal},
                                {"anpi", InterfaceKind::internal},
                                {"vmenet", InterfaceKind::virtual_machine},
                                {"feth", InterfaceKind::virtual_machine}};

constexpr Rule linux_rules[] = {{"tun", InterfaceKind::vpn},
                                {"tap", InterfaceKind::vpn},
                                {"wg", InterfaceKind::vpn},
                                {"ppp", InterfaceKind::vpn},
                                {"tailscale", InterfaceKind::vpn},
                                {"zt", InterfaceKind::vpn},
                                {"docker", InterfaceKind::virtual_machine},
                                {"virbr", InterfaceKind::virtual_machine},
                                {"podman", InterfaceKind::virtual_machine},
                                {"lxcbr", InterfaceKind::virtual_machine},
                                {"cni", InterfaceKind::virtual_machine},
                                {"thunderbolt", InterfaceKind::thunderbolt}};

}  // namespace

InterfaceKind interface_kind(std::string_view name, bool loopback, System system) {
    if (loopback) return InterfaceKind::loopback;
    size_t length = name.size();
    while (length > 0 && std::isdigit(static_cast<unsigned char>(name[length - 1]))) --length;
    std::string_view stem = name.substr(0, length), number = name.substr(length);
    auto look = [&](const auto& rules) {
        for (const Rule& rule : rules)
            if (rule.stem == stem) return rule.kind;
        return InterfaceKind::wired;
    };
    if (system == System::macos) {
        if (stem == "bridge")
            return number.size() < 3 ? InterfaceKind::thunderbolt : InterfaceKind::virtual_machine;
        return look(macos_rules);
    }
    // Docker's own networks: br- and twelve digits of their number.
    if (name.starts_with("br-") || name.starts_with("veth")) return InterfaceKind::virtual_machine;
    if (name.starts_with("zt")) return InterfaceKind::vpn;  // ZeroTier: zt and letters
    return look(linux_rules);
}

InterfaceKind interface_kind(const Interface& interface, System system) {
    if (interface.device != InterfaceKind::wired) return interface.device;
    return interface_kind(interface.name, interface.loopback, system);
}

static constexpr const char* kKindNames[kInterfaceKinds] = {
    "thunderbolt", "wired", "wifi", "vpn", "virtual", "internal", "loopback"};

const char* interface_kind_name(InterfaceKind kind) {
    return kKindNames[static_cast<size_t>(kind)];
}

// ---- what the system says

#if defined(__linux__)

static std::string folder_of(const std::string& name) { return "/sys/class/net/" + name; }

static bool there(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

static std::string first_line(const std::string& path, std::string_view key = {}) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key)) return line.substr(key.size());
    return "";
}

// A bridge of nothing but veth and tun interfaces joins virtual machines.
static bool bridges_a_device(const std::string& folder) {
    std::error_code ignored;
    for (const auto& port : std::filesystem::directory_iterator(folder + "/brif", ignored)) {
        std::string name = port.path().filename();
        if (!name.starts_with("veth") && !there(folder_of(name) + "/tun_flags")) return true;
    }
    return false;
}

static InterfaceKind device_kind(const std::string& name, int) {
    std::string folder = folder_of(name);
    if (there(folder + "/wireless") || there(folder + "/phy80211")) return InterfaceKind::wifi;
    std::error_code none;
    auto driver = std::filesystem::read_symlink(folder + "/device/driver", none).filename();
    if (driver == "thunderbolt-net" || driver == "thunderbolt_net")
        return InterfaceKind::thunderbolt;
    std::string type = first_line(folder + "/uevent", "DEVTYPE=");
    if (type == "wlan") return InterfaceKind::wifi;
    if (type == "wireguard" || type == "ppp" || there(folder + "/tun_flags"))
        return InterfaceKind::vpn;
    if (type == "vxlan" || type == "geneve") return InterfaceKind::virtual_machine;
    if (type == "bridge" && !bridges_a_device(folder)) return InterfaceKind::virtual_machine;
    // ARPHRD_PPP, _TUNNEL, _TUNNEL6, _SIT, _IPGRE, _IP6GRE, _NONE of <linux/if_arp.h>.
    std::string hardware = first_line(folder + "/type");
    for (const char* tunnel : {"512", "768", "769", "776", "778", "823", "65534"})
        if (hardware == tunnel) return InterfaceKind::vpn;
    return InterfaceKind::wired;
}

static bool no_carrier(const ifaddrs& each, int) { return (each.ifa_flags & IFF_RUNNING) == 0; }

// Of Wi-Fi and what is down there is no figure, or -1.
static uint32_t line_megabits(const std::string& name) {
    std::string text = first_line(folder_of(name) + "/speed");
    uint32_t megabits = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), megabits);
    return error == std::errc() && megabits <= kMegabitsMost ? megabits : 0;
}

#else

// What macOS tells in ifi_baudrate has 32 bits: too few for 10 Gb/s.
static uint32_t line_megabits(const std::string&) { return 0; }

static AskSystem asking(int socket) {
    return [socket](unsigned long request, void* answer) { return ioctl(socket, request, answer); };
}

static InterfaceKind device_kind(const std::string& name, int socket) {
    return macos_device_kind(name, asking(socket));
}

static bool no_carrier(const ifaddrs& each, int socket) {
    return macos_no_carrier(each.ifa_name, asking(socket));
}

#endif

static int prefix_of(const sockaddr* mask, bool six) {
    if (!mask) return six ? 128 : 32;
    // The mask's family is not set on macOS.
    auto* bytes = six ? reinterpret_cast<const uint8_t*>(
                            &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr)
                      : reinterpret_cast<const uint8_t*>(
                            &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
    int bits = 0;
    for (int i = 0; i < (six ? 16 : 4); ++i) bits += std::popcount(bytes[i]);
    return bits;
}

std::vector<Interface> list_interfaces() {
    std::vector<Interface> found;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return found;
    int asks = socket(AF_INET, SOCK_DGRAM, 0);
    struct Device {
        InterfaceKind kind = InterfaceKind::wired;
        uint32_t megabits = 0;
        bool no_carrier = false;
    };
    std::map<std::string, Device> devices;
    for (ifaddrs* each = all; each; each = each->ifa_next) {
        auto ip = Ip::of(each->ifa_addr);
        if (!ip) continue;
        bool loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
        auto [device, is_new] = devices.try_emplace(each->ifa_name);
        if (is_new && !loopback)
            device->second = {device_kind(each->ifa_name, asks), line_megabits(each->ifa_name),
                              no_carrier(*each, asks)};
        found.push_back({each->ifa_name, ip->text(), (each->ifa_flags & IFF_UP) != 0, loopback,
                         prefix_of(each->ifa_netmask, ip->six), device->second.kind,
                         device->second.megabits, !device->second.no_carrier});
    }
    if (asks >= 0) close(asks);
    freeifaddrs(all);
    return found;
}

// ---- which are chosen

static std::vector<InterfaceKind> kinds_of(std::string_view word) {
    if (word == "network") return {InterfaceKind::wired, InterfaceKind::wifi};
    for (int kind = 0; kind < kInterfaceKinds; ++kind)
        if (word == kKindNames[kind]) return {static_cast<InterfaceKind>(kind)};
    return {};
}

// Calls take(word) for each of the words between commas until it says what is wrong.
static std::string each_word(std::string_view text,
                             const std::function<std::string(std::string_view)>& take) {
    if (text.empty()) return "";
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = std::min(text.find(',', begin), text.size());
        std::string mistake = take(text.substr(begin, end - begin));
        if (!mistake.empty()) return mistake;
        begin = end + 1;
    }
    return "";
}

std::string parse_encrypt(std::string_view text, std::vector<InterfaceKind>& kinds) {
    kinds.clear();
    if (text == "no") return "";
    return each_word(text, [&](std::string_view word) -> std::string {
        std::vector<InterfaceKind> found = kinds_of(word);
        for (int kind = 0; word == "all" && kind < kInterfaceKinds; ++kind)
            found.push_back(static_cast<InterfaceKind>(kind));
        kinds.insert(kinds.end(), found.begin(), found.end());
        if (!found.empty()) return "";
        return format(
            "encrypt: \"{}\" is no kind of interface; expected are all, no, or some of "
            "thunderbolt, wired, wifi, network, vpn, virtual, internal, loopback, "
            "separated by commas",
            word);
    });
}

std::string InterfaceFilter::parse(const char* parameter, std::string_view text,
                                   std::vector<Word>& out) {
    auto bad = [&](std::string_view word, const char* why) {
        return format(
            "{}: \"{}\" {}; expected are interfaces' names, addresses, networks "
            "(10.0.0.0/8) and kinds (thunderbolt, wired, wifi, network, vpn, virtual, "
            "internal, loopback), separated by commas",
            parameter, word, why);
    };
    return each_word(text, [&](std::string_view word) -> std::string {
        if (word.empty()) return bad(word, "names nothing");
        Word made;
        made.kinds = kinds_of(word);
        bool digits = word.find_first_not_of("0123456789.") == word.npos;
        if (made.kinds.empty()) made.network = Network::parse(word);
        if (made.kinds.empty() && !made.network) {
            if (word.find('/') != word.npos) return bad(word, "is not a network");
            if (digits || word.find(':') != word.npos) return bad(word, "is not an address");
            if (word.size() >= IFNAMSIZ) return bad(word, "is too long for an interface's name");
            auto odd = [](char c) { return !std::isgraph(static_cast<unsigned char>(c)); };
            if (std::any_of(word.begin(), word.end(), odd))
                return bad(word, "is not an interface's name");
            made.name = word;
        }
        out.push_back(std::move(made));
        return "";
    });
}

std::string InterfaceFilter::parse(std::string_view include, std::string_view exclude) {
    include_.clear();
    exclude_.clear();
    std::string mistake = parse("if_include", include, include_);
    return mistake.empty() ? parse("if_exclude", exclude, exclude_) : mistake;
}

bool InterfaceFilter::names(const std::vector<Word>& words, const Interface& interface,
                            System system) {
    InterfaceKind kind = interface_kind(interface, system);
    return std::any_of(words.begin(), words.end(), [&](const Word& word) {
        if (word.network) return word.network->contains(interface.ip());
        if (!word.name.empty()) return word.name == interface.name;
        return std::find(word.kinds.begin(), word.kinds.end(), kind) != word.kinds.end();
    });
}

bool InterfaceFilter::takes(const Interface& interface, System system) const {
    if (names(exclude_, interface, system)) return false;
    if (!include_.empty()) return names(include_, interface, system);
    return interface_kind(interface, system) <= InterfaceKind::wifi;
}

std::optional<NetworkWish> network_wish(std::string_view gloo, std::string_view nccl,
                                        const std::vector<Interface>& all) {
    std::string_view text = gloo.empty() ? nccl : gloo;
    if (text.empty()) return std::nullopt;
    NetworkWish out{
        format("{}={}", gloo.empty() ? "NCCL_SOCKET_IFNAME" : "GLOO_SOCKET_IFNAME", text), "", ""};
    bool other = text[0] == '^', exact = !gloo.empty() || text[0] == '=';
    if (gloo.empty() && (other || exact)) text.remove_prefix(1);
    if (!gloo.empty()) other = false;
    std::set<std::string> found;
    each_word(text, [&](std::string_view word) -> std::string {
        for (const Interface& each : all)
            if (each.up && !each.loopback && !word.empty() &&
                (exact ? each.name == word : std::string_view(each.name).starts_with(word)))
                found.insert(each.name);
        return "";
    });
    if (found.empty()) return std::nullopt;
    std::string& names = other ? out.exclude : out.include;
    for (const std::string& name : found) names += (names.empty() ? "" : ",") + name;
    return out;
}

NetworkWish network_choice(const std::string& if_include, const std::string& if_exclude,
                           std::string_view gloo, std::string_view nccl,
                           const std::vector<Interface>& all) {
    if (if_include.empty() && if_exclude.empty())
        return network_wish(gloo, nccl, all).value_or(NetworkWish());
    std::string said;
    if (!if_include.empty()) said = "if_include=" + if_include;
    if (!if_exclude.empty()) said += (said.empty() ? "if_exclude=" : " if_exclude=") + if_exclude;
    return {said, if_include, if_exclude};
}

std::string why_not_taken(const Interface& interface, const NetworkWish& wish, System system) {
    InterfaceKind kind = interface_kind(interface, system);
    InterfaceFilter filter;  // without the wish's own choice, what does it leave out?
    (void)filter.parse(interface.address, wish.exclude);
    if (!wish.include.empty() || !filter.takes(interface, system)) return wish.said;
    return format("networks of the kind {} are not used unless if_include names them",
                  interface_kind_name(kind));
}

std::vector<Interface> choose_interfaces(const std::vector<Interface>& all,
                                         const InterfaceFilter& filter, System system) {
    std::vector<Interface> out;
    std::map<std::string, size_t> order;  // as the system lists them
    for (const Interface& each : all) {
        order.try_emplace(each.name, order.size());
        if (each.up && filter.takes(each, system)) out.push_back(each);
    }
    auto place = [&](const Interface& each) {
        Ip ip = each.ip();
        return std::tuple(interface_kind(each, system), order.find(each.name)->second, ip.six,
                          ip.six && ip.link_local());
    };
    std::stable_sort(out.begin(), out.end(),
                     [&](const Interface& a, const Interface& b) { return place(a) < place(b); });
    return out;
}

}  // namespace pomona::tcp
