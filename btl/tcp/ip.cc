// btl/tcp/ip.cc: see ip.h.
#include "btl/tcp/ip.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace pomona::tcp {

std::optional<Ip> Ip::parse(std::string_view text) {
    std::string whole(text);
    Ip out;
    out.six = text.find(':') != text.npos;
    if (inet_pton(out.six ? AF_INET6 : AF_INET, whole.c_str(), out.bytes.data()) != 1 ||
        whole.find('\0') != whole.npos)
        return std::nullopt;
    return out;
}

std::optional<Ip> Ip::of(const sockaddr* address) {
    Ip out;
    if (address && address->sa_family == AF_INET) {
        auto* four = reinterpret_cast<const sockaddr_in*>(address);
        std::memcpy(out.bytes.data(), &four->sin_addr, 4);
        return out;
    }
    if (address && address->sa_family == AF_INET6) {
        auto* six = reinterpret_cast<const sockaddr_in6*>(address);
        out.six = true;
        std::memcpy(out.bytes.data(), &six->sin6_addr, 16);
        // BSD systems keep the scope of a link-local address in its second 16 bits.
        if (out.link_local()) out.bytes[2] = out.bytes[3] = 0;
        return out;
    }
    return std::nullopt;
}

std::string Ip::text() const {
    char out[INET6_ADDRSTRLEN] = "";
    inet_ntop(six ? AF_INET6 : AF_INET, bytes.data(), out, sizeof out);
    return out;
}

bool Ip::loopback() const {
    if (!six) return bytes[0] == 127;
    return std::all_of(bytes.begin(), bytes.end() - 1, [](uint8_t each) { return each == 0; }) &&
           bytes[15] == 1;
}

bool Ip::link_local() const {
    if (!six) return bytes[0] == 169 && bytes[1] == 254;
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool same_network(const Ip& a, const Ip& b, int prefix) {
    if (a.six != b.six) return false;
    auto whole = static_cast<size_t>(prefix / 8);
    if (!std::equal(a.bytes.begin(), a.bytes.begin() + static_cast<ptrdiff_t>(whole),
                    b.bytes.begin()))
        return false;
    int rest = prefix % 8;
    return rest == 0 || ((a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest)) == 0;
}

std::optional<Network> Network::parse(std::string_view text) {
    size_t slash = text.find('/');
    auto ip = Ip::parse(text.substr(0, slash));
    if (!ip) return std::nullopt;
    Network out{*ip, ip->bits()};
    if (slash == text.npos) return out;
    std::string_view digits = text.substr(slash + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.prefix);
    if (error != std::errc() || end != digits.data() + digits.size() || out.prefix < 0 ||
        out.prefix > ip->bits())
        return std::nullopt;
    return out;
}

}  // namespace pomona::tcp
