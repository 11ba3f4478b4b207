// btl/tcp/shared.cc: see shared.h.
#include "btl/tcp/shared.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"

#include <cstdlib>
#include <string_view>
#include <algorithm>
#include <map>
#include <set>

namespace pomona::tcp {

// Paths to a peer, unless the user says how many.
static constexpr size_t kPathsMost = 4;
// Of packets that are shorter than usual: what any network with IPv6 takes, and any with IPv4,
// less the heads.
static constexpr int kPacketBytes[] = {1200, 500};
// Addresses of one interface: of IPv4, of IPv6, link-local ones of IPv6.
static constexpr int kAddressesMost[] = {4, 2, 1};

static Interface loopback() {
    return {this_system == System::macos ? "lo0" : "lo",
            "127.0.0.1",
            true,
            true,
            8,
            InterfaceKind::loopback};
}

// Some interfaces have a dozen addresses of IPv6, for privacy: a few will do.
static std::vector<Interface> few_of(const std::vector<Interface>& all) {
    std::vector<Interface> out;
    std::map<std::pair<std::string, int>, int> taken;
    for (const Interface& each : all) {
        Ip ip = each.ip();
        int sort = !ip.six ? 0 : !ip.link_local() ? 1 : 2;
        if (++taken[{each.name, sort}] <= kAddressesMost[sort] && out.size() < kPlacesMost)
            out.push_back(each);
    }
    return out;
}

static std::string names_of(const std::vector<Interface>& all) {
    std::string out;
    for (const Interface& each : all)
        out += format("{}{} {} ({}{})", out.empty() ? "" : ", ", each.name, each.address,
                      interface_kind_name(interface_kind(each)), each.up ? "" : ", down");
    return out;
}

Result<std::shared_ptr<Shared>> Shared::open(const Params& params, bool loopback_only) {
    InterfaceFilter filter;
    std::vector<Interface> all = list_interfaces(), chosen;
    auto value_of = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string_view(value ? value : "");
    };
    NetworkWish wish =
        network_choice(params.if_include, params.if_exclude, value_of("GLOO_SOCKET_IFNAME"),
                       value_of("NCCL_SOCKET_IFNAME"), all);
    if (!wish.said.empty() && params.if_include.empty() && params.if_exclude.empty())
        LOG(info, btl, "{} stands for if_include={} if_exclude={}", wish.said, wish.include,
            wish.exclude);
    std::string mistake = filter.parse(wish.include, wish.exclude);
    if (!mistake.empty()) {
        LOG(error, btl, "{}", mistake);
        return Error{Code::invalid_argument, "if_include or if_exclude names what is no interface"};
    }
    auto made = std::make_shared<Shared>();
    mistake = parse_encrypt(params.encrypt, made->encrypted_);
    if (!mistake.empty()) {
        LOG(error, btl, "{}", mistake);
        return Error{Code::invalid_argument, "encrypt names what is no kind of interface"};
    }
    if (!loopback_only || !params.if_include.empty())
        chosen = few_of(choose_interfaces(all, filter));
    if (chosen.empty() && !params.if_include.empty()) {
        LOG(error, btl, messages::no_interface, params.if_include,
            params.if_exclude.empty() ? "" : " and not of if_exclude=", params.if_exclude,
            names_of(all));
        return Error{Code::invalid_argument, "if_include names no interface that is up"};
    }
    if (chosen.empty() && !loopback_only && !wish.exclude.empty() &&
        !choose_interfaces(all, InterfaceFilter()).empty()) {
        LOG(error, btl, messages::no_interface_left, wish.exclude, names_of(all));
        return Error{Code::invalid_argument, "if_exclude leaves no interface that is up"};
    }
    if (chosen.empty()) chosen = {loopback()};  // then the others can only be on this machine
    TRY(made->listen(chosen, all, params.tcp_socket_buffer));
    std::set<std::string> names;
    for (const Place& each : made->places_) names.insert(each.interface);
    made->several_alike_ = params.tcp_streams != 0;
    made->paths_ = static_cast<int>(made->several_alike_ ? params.tcp_streams
                                                         : std::min(names.size(), kPathsMost));
    return made;
}

Status Shared::listen(const std::vector<Interface>& chosen, const std::vector<Interface>& all,
                      uint64_t buffer_size) {
    auto overlap = [](const Interface& a, const Interface& b) {
        return a.name != b.name && b.up && !b.loopback &&
               same_network(a.ip(), b.ip(), std::min(a.prefix, b.prefix));
    };
    Error last{Code::io, "Cannot listen for TCP connections"};
    for (const Interface& each : chosen) {
        Ip ip = each.ip();
        // Answers to who connects must go by the interface of the address, too.
        bool bound = !each.loopback && std::any_of(all.begin(), all.end(), [&](const auto& other) {
            return overlap(each, other);
        });
        auto socket = Socket::listen(End{ip, each.name, bound}, buffer_size);
        if (!socket.ok()) {
            // One of IPv6 that is not yet known to be unique, or is not any more.
            last = socket.error();
            LOG(info, btl, "{} on {} is left out: {}", each.address, each.name, last.text());
            continue;
        }
        places_.push_back(
            {each.name, interface_kind(each), ip, each.prefix, socket->port(), each.megabits});
        listening_.push_back(socket->descriptor());
        listeners_.push_back(std::move(*socket));
    }
    if (places_.empty()) return last;
    return {};
}

bool Shared::loopback_only() const {
    return std::all_of(places_.begin(), places_.end(),
                       [](const Place& each) { return each.ip.loopback(); });
}

const Place* Shared::place_of(const Ip& ip) const {
    for (const Place& each : places_)
        if (each.ip == ip) return &each;
    return nullptr;
}

int Shared::shorten_packets(const std::string& interface) {
    int& bytes = packet_bytes_[interface];
    for (int shorter : kPacketBytes) {
        if (bytes != 0 && bytes <= shorter) continue;
        bytes = shorter;
        for (size_t i = 0; i < places_.size(); ++i)
            if (places_[i].interface == interface) Socket::limit_segments(listening_[i], bytes);
        return bytes;
    }
    return 0;
}

int Shared::packet_bytes(const std::string& interface) const {
    auto found = packet_bytes_.find(interface);
    return found == packet_bytes_.end() ? 0 : found->second;
}

void Shared::join(size_t path, Sibling* transport) {
    if (transports_.size() <= path) transports_.resize(path + 1);
    transports_[path] = transport;
}

void Shared::leave(const Sibling* transport) {
    std::replace(transports_.begin(), transports_.end(), const_cast<Sibling*>(transport),
                 static_cast<Sibling*>(nullptr));
}

void Shared::admit(size_t path, std::unique_ptr<Connection>& connection,
                   link::Handshake& handshake) {
    if (path < transports_.size() && transports_[path])
        transports_[path]->admit(connection, handshake);
}

bool Shared::encrypts(const Socket& socket) const {
    auto ip = socket.own_ip();
    const Place* own = ip ? place_of(*ip) : nullptr;
    return !encrypted_.empty() &&
           (!own || std::find(encrypted_.begin(), encrypted_.end(), own->kind) != encrypted_.end());
}

bool Shared::used_by_others(const Sibling* own, int peer, const Ends& pair) const {
    auto meet = [](const std::string& a, const std::string& b) { return !a.empty() && a == b; };
    return std::any_of(transports_.begin(), transports_.end(), [&](const Sibling* each) {
        auto other = each && each != own ? each->used(peer) : std::nullopt;
        return other && (meet(other->own, pair.own) || meet(other->peer, pair.peer));
    });
}

bool Shared::any_up(int peer) const {
    return std::any_of(transports_.begin(), transports_.end(),
                       [&](const Sibling* each) { return each && each->used(peer); });
}

}  // namespace pomona::tcp
