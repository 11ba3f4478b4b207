// btl/tcp/wire.h: what travels on a TCP connection, and its parsers (fuzzed).
//
// handshake (btl/link/handshake.h), first
// frame:                u64 length, 32 bytes of header, `length` bytes of payload
// address (published):  u32 number, then as many places: the interface's name (sized text), its kind u8,
//     4 or 6 u8, 4 or 16 bytes of an IP address, u8 bits that addresses of its network share, u16 port,
//     u32 megabits per second of the interface's line, 0: not known
//
// Integers little-endian. A connection whose bytes do not parse is closed.
#pragma once

#include "btl/tcp/interfaces.h"
#include "btl/transport.h"

#include <optional>

namespace pomona::tcp {

inline constexpr size_t kFrameHead = 8 + sizeof(FrameHeader);
inline constexpr size_t kPlacesMost = 64;
inline constexpr size_t kInterfaceNameMost = 64;

struct FrameHead {
    uint64_t length;
    FrameHeader header;
};
static_assert(sizeof(FrameHead) == kFrameHead);

// Where a rank listens: one address of one of its interfaces.
struct Place {
    std::string interface;
    InterfaceKind kind = InterfaceKind::wired;
    Ip ip;
    int prefix = 32;
    uint16_t port = 0;
    uint32_t megabits = 0;  // of the interface's line; 0: not known
    bool operator==(const Place&) const = default;
};

struct Address {
    std::vector<Place> places;  // the best interfaces first
    const Place* place_of(const std::optional<Ip>& ip) const {
        for (const Place& each : places)
            if (ip && each.ip == *ip) return &each;
        return nullptr;
    }
    bool operator==(const Address&) const = default;
};

inline std::vector<std::byte> write_address(const Address& address) {
    Writer out;
    out.put(static_cast<uint32_t>(address.places.size()));
    for (const Place& each : address.places) {
        out.put_text(each.interface);
        out.put(each.kind);
        out.put(static_cast<uint8_t>(each.ip.six ? 6 : 4));
        out.put_bytes({reinterpret_cast<const std::byte*>(each.ip.bytes.data()),
                       static_cast<size_t>(each.ip.bits() / 8)});
        out.put(static_cast<uint8_t>(each.prefix));
        out.put(each.port);
        out.put(each.megabits);
    }
    return out.bytes();
}

inline std::optional<Address> parse_address(ConstBytes bytes) {
    Reader in(bytes);
    Address address;
    auto number = in.get<uint32_t>();
    if (number == 0 || number > kPlacesMost) return std::nullopt;
    for (uint32_t i = 0; i < number && !in.failed(); ++i) {
        Place each;
        each.interface = in.get_text(kInterfaceNameMost);
        auto kind = in.get<uint8_t>(), family = in.get<uint8_t>();
        if (kind >= kInterfaceKinds || (family != 4 && family != 6)) return std::nullopt;
        each.kind = static_cast<InterfaceKind>(kind);
        each.ip.six = family == 6;
        ConstBytes ip = in.take(static_cast<size_t>(each.ip.bits() / 8));
        if (!ip.empty()) std::memcpy(each.ip.bytes.data(), ip.data(), ip.size());
        each.prefix = in.get<uint8_t>();
        each.port = in.get<uint16_t>();
        each.megabits = in.get<uint32_t>();
        if (each.prefix > each.ip.bits() || each.port == 0) return std::nullopt;
        address.places.push_back(std::move(each));
    }
    if (in.failed() || in.left() != 0) return std::nullopt;
    return address;
}

}  // namespace pomona::tcp
