// btl/tcp/wire.h: what travels on a TCP connection, and its parsers (fuzzed).
//
// handshake (btl/link/handshake.h), first; the numbers of the paths are those of the further connections
//     of a pair of ranks: 0 for the first one
// frame:                u64 length, 32 bytes of header, `length` bytes of payload
// address (published):  u16 port, u32 number, then as many sized texts: numeric addresses
//
// Integers little-endian. A connection whose bytes do not parse is closed.
#pragma once

#include "btl/transport.h"

#include <optional>

namespace pomona::tcp {

inline constexpr size_t kFrameHead = 8 + sizeof(FrameHeader);
inline constexpr size_t kAddressesMax = 64;
inline constexpr int kLanesMost = 8;  // connections of a pair of ranks

struct FrameHead {
    uint64_t length;
    FrameHeader header;
};
static_assert(sizeof(FrameHead) == kFrameHead);

struct Address {
    uint16_t port = 0;
    std::vector<std::string> hosts;  // numeric
};

inline std::vector<std::byte> write_address(const Address& address) {
    Writer out;
    out.put(address.port);
    out.put(static_cast<uint32_t>(address.hosts.size()));
    for (const std::string& host : address.hosts) out.put_text(host);
    return out.bytes();
}

inline std::optional<Address> parse_address(ConstBytes bytes) {
    Reader in(bytes);
    Address address;
    address.port = in.get<uint16_t>();
    auto number = in.get<uint32_t>();
    if (number > kAddressesMax) return std::nullopt;
    for (uint32_t i = 0; i < number; ++i) address.hosts.push_back(in.get_text(64));
    if (in.failed() || in.left() != 0 || address.port == 0 || address.hosts.empty())
        return std::nullopt;
    return address;
}

}  // namespace pomona::tcp
