// btl/tcp/wire.h: what travels on a TCP connection, and its parsers (fuzzed).
//
// greeting (both ways, first):  u32 magic, u16 version, u8 answer, u8 lane, u32 from, u32 to, secret (32
//     bytes). answer: 0 from the one who connects; 1 "welcome" from the one who accepts. lane: 0 for the
//     first connection of a pair of ranks, then 1, 2, ... for the further ones.
// frame:                        u64 length, 32 bytes of header, `length` bytes of payload
// address (published):          u16 port, u32 number, then as many sized texts: numeric addresses
//
// Integers little-endian. A connection whose bytes do not parse is closed.
#pragma once

#include "btl/transport.h"

#include <algorithm>
#include <array>
#include <optional>

namespace pomona::tcp {

inline constexpr uint32_t kMagic = 0x706f6d31;  // "pom1"
inline constexpr uint16_t kVersion = 2;
inline constexpr size_t kSecretSize = 32;
inline constexpr size_t kGreetingSize = 4 + 2 + 1 + 1 + 4 + 4 + kSecretSize;
inline constexpr size_t kFrameHead = 8 + sizeof(FrameHeader);
inline constexpr size_t kAddressesMax = 64;
inline constexpr int kLanesMost = 8;  // connections of a pair of ranks

struct Greeting {
    bool welcome = false;
    int from = 0;
    int to = 0;
    int lane = 0;
};

struct FrameHead {
    uint64_t length;
    FrameHeader header;
};
static_assert(sizeof(FrameHead) == kFrameHead);

// The secret, cut or padded to its size on the wire.
inline std::array<std::byte, kSecretSize> pad_secret(std::string_view secret) {
    std::array<std::byte, kSecretSize> out{};
    std::memcpy(out.data(), secret.data(), std::min(secret.size(), kSecretSize));
    return out;
}

inline std::vector<std::byte> write_greeting(const Greeting& greeting, std::string_view secret) {
    Writer out;
    out.put(kMagic);
    out.put(kVersion);
    out.put(static_cast<uint8_t>(greeting.welcome));
    out.put(static_cast<uint8_t>(greeting.lane));
    out.put(static_cast<uint32_t>(greeting.from));
    out.put(static_cast<uint32_t>(greeting.to));
    out.put_bytes(pad_secret(secret));
    return out.bytes();
}

// None when it is no greeting of this job.
inline std::optional<Greeting> parse_greeting(ConstBytes bytes, std::string_view secret, int size) {
    Reader in(bytes);
    auto magic = in.get<uint32_t>();
    auto version = in.get<uint16_t>();
    auto answer = in.get<uint8_t>();
    auto lane = in.get<uint8_t>();
    auto from = in.get<uint32_t>();
    auto to = in.get<uint32_t>();
    ConstBytes theirs = in.take(kSecretSize);
    if (in.failed() || magic != kMagic || version != kVersion || answer > 1 || lane >= kLanesMost)
        return std::nullopt;
    // All bytes are looked at, so that the time taken tells nothing about the secret.
    auto ours = pad_secret(secret);
    unsigned difference = 0;
    for (size_t i = 0; i < kSecretSize; ++i)
        difference |= std::to_integer<unsigned>(ours[i] ^ theirs[i]);
    auto ranks = static_cast<uint32_t>(size);
    if (difference != 0 || from >= ranks || to >= ranks) return std::nullopt;
    return Greeting{answer == 1, static_cast<int>(from), static_cast<int>(to), lane};
}

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
