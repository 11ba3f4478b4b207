// btl/tcp/ip.h: IPv4 and IPv6 addresses and networks as plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

struct sockaddr;

namespace pomona::tcp {

struct Ip {
    bool six = false;                 // IPv6
    std::array<uint8_t, 16> bytes{};  // of IPv4 the first four

    static std::optional<Ip> parse(std::string_view text);  // numeric, without a scope
    static std::optional<Ip> of(const sockaddr* address);   // of another family: none
    std::string text() const;
    int bits() const { return six ? 128 : 32; }
    bool loopback() const;    // 127/8, ::1
    bool link_local() const;  // 169.254/16, fe80::/10: means something on one interface only
    bool operator==(const Ip&) const = default;
};

// Do they agree in their first `prefix` bits?
bool same_network(const Ip& a, const Ip& b, int prefix);

// "10.0.0.0/8", "fd00::/8"; or one address.
struct Network {
    Ip ip;
    int prefix = 0;
    static std::optional<Network> parse(std::string_view text);
    bool contains(const Ip& other) const { return same_network(ip, other, prefix); }
};

}  // namespace pomona::tcp
