// btl/link/relay_wire.h: what processes say to each other about paths through others: the content
// of link messages of Kind::relay (wire.h), and its parser (fuzzed). A message of one byte says
// nothing: its link had to go through others itself, and left out what it had kept for others.
//
//   u8 kind, u8 at, u8 count, u8 0, u32 number, u32 chooser, 5 u32 route, u64 sent, u64 got; then
//   data:                  a path's frame: its 32-byte header and its payload
//   seek:                  u32 destination, sized bytes: its published address
//   credit, found, broken, leave: nothing
//
// route: `count` ranks, none twice; the frame is at the `at`-th of them, and all but seek go to the
// last one. number and chooser name one path between two processes (relays.h), or number a
// process's seeks. sent, got: bytes of data that the sender has put on this path so far, and those
// that it has taken from it. All integers little-endian.
#pragma once

#include "btl/link/wire.h"

#include <array>

namespace pomona::link {

enum class RelayKind : uint8_t { data = 1, credit, seek, found, broken, leave };

// A frame passes so many links at the most.
inline constexpr size_t kHopsMost = 4;
inline constexpr size_t kRelayHead = 4 + 2 * 4 + (kHopsMost + 1) * 4 + 2 * 8;
inline constexpr uint32_t kRankEnd = 1 << 24;

// Processes from one end of a path to the other one.
struct Route {
    std::array<uint32_t, kHopsMost + 1> ranks{};
    size_t count = 0;

    int operator[](size_t i) const { return static_cast<int>(ranks[i]); }
    int front() const { return (*this)[0]; }
    int back() const { return (*this)[count - 1]; }
    bool has(int rank) const {
        return std::find(ranks.begin(), end(), static_cast<uint32_t>(rank)) != end();
    }
    Route with(int rank) const {
        Route out = *this;
        out.ranks[out.count++] = static_cast<uint32_t>(rank);
        return out;
    }
    Route reversed() const {
        Route out = *this;
        std::reverse(out.ranks.begin(), out.ranks.begin() + static_cast<ptrdiff_t>(count));
        return out;
    }
    bool operator==(const Route& other) const {
        return count == other.count && std::equal(ranks.begin(), end(), other.ranks.begin());
    }

private:
    std::array<uint32_t, kHopsMost + 1>::const_iterator end() const {
        return ranks.begin() + static_cast<ptrdiff_t>(count);
    }
};

// Which of the paths that two processes have had, one after the other. A newer one takes the place
// of what was; of two that both have chosen at once, that of the lower rank.
struct RelayName {
    uint32_t number = 0, chooser = 0;
    bool operator==(const RelayName&) const = default;
    bool newer_than(const RelayName& other) const {
        return number != other.number ? number > other.number : chooser < other.chooser;
    }
};

struct RelayHeader {
    RelayKind kind = RelayKind::data;
    size_t at = 0;
    Route route{};
    RelayName name{};
    uint64_t sent = 0, got = 0;

    void write(std::byte* out) const {
        auto put = [&out](auto value) {
            std::memcpy(out, &value, sizeof value);
            out += sizeof value;
        };
        put(kind), put(static_cast<uint8_t>(at)), put(static_cast<uint8_t>(route.count));
        put(uint8_t{0}), put(name.number), put(name.chooser);
        for (uint32_t each : route.ranks) put(each);
        put(sent), put(got);
    }
};

// None when no sender of ours can have written it.
inline std::optional<RelayHeader> parse_relay(ConstBytes bytes) {
    Reader in(bytes);
    RelayHeader out;
    out.kind = in.get<RelayKind>();
    out.at = in.get<uint8_t>();
    out.route.count = in.get<uint8_t>();
    auto zero = in.get<uint8_t>();
    out.name.number = in.get<uint32_t>();
    out.name.chooser = in.get<uint32_t>();
    for (uint32_t& each : out.route.ranks) each = in.get<uint32_t>();
    out.sent = in.get<uint64_t>();
    out.got = in.get<uint64_t>();
    if (in.failed() || zero != 0 || out.route.count > kHopsMost + 1) return std::nullopt;
    for (size_t i = 0; i < out.route.ranks.size(); ++i) {
        uint32_t rank = out.route.ranks[i];
        bool used = i < out.route.count;
        auto before = out.route.ranks.begin() + static_cast<ptrdiff_t>(i);
        if (used ? rank >= kRankEnd || std::find(out.route.ranks.begin(), before, rank) != before
                 : rank != 0)
            return std::nullopt;
    }
    if (out.kind == RelayKind::seek) {
        // It has passed those that stand there, and is at one that does not.
        if (out.route.count < 1 || out.at != out.route.count || in.left() < 8) return std::nullopt;
        return out;
    }
    // Never from one end straight to the other one.
    if (out.route.count < 3 || out.at < 1 || out.at >= out.route.count) return std::nullopt;
    switch (out.kind) {
    case RelayKind::data:
        if (in.left() < sizeof(FrameHeader)) return std::nullopt;
        break;
    case RelayKind::credit:
    case RelayKind::found:
    case RelayKind::broken:
    case RelayKind::leave:
        if (in.left() != 0) return std::nullopt;
        break;
    default: return std::nullopt;
    }
    return out;
}

struct Sought {
    int destination;
    ConstBytes address;  // may be empty
};

inline std::optional<Sought> parse_sought(ConstBytes body) {
    Reader in(body);
    auto destination = in.get<uint32_t>();
    ConstBytes address = in.get_sized(kAddressMost);
    if (in.failed() || in.left() != 0 || destination >= kRankEnd) return std::nullopt;
    return Sought{static_cast<int>(destination), address};
}

}  // namespace pomona::link
