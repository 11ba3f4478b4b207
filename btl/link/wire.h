// btl/link/wire.h: what a Link writes into the 32-byte headers of its paths' frames, and its parser
// (fuzzed).
//
//   kind     word 0        word 1         word 2                     word 3
//   message  number        next message   kind, flags                next piece
//   address  number        next message   kind, flags                next piece
//   bye      number        next message   kind, flags                next piece
//   piece    number        place          kind, flags, offset << 16  next message
//   relay    number        next message   kind, flags                next piece
//   words    0             next message   kind, flags                next piece
//   carried  carried.h
//   state    next message  next piece     kind, flags                time of the question
//
// message: the engine's 32-byte header and its payload. address: the sender's published address, so
// that who was connected to can connect, too. bye: the sender has left MPI. relay: a frame of a
// path through others (relay_wire.h). These four share one sequence of numbers from 0 and are
// handed on in its order. piece: a part of a Bulk (transport.h), with numbers of its own. "Next"
// numbers acknowledge all below. carried: a frame of two other processes, which acknowledges
// nothing. words: of a transport to its other half (transport.h, rule 14); without a number, they
// are lost with their path. state: acknowledges, and names what arrived beyond: u16 count, u16
// count, then for messages and for pieces as many pairs of u64, first and end, ascending, not
// touching. All integers little-endian.
#pragma once

#include "btl/transport.h"

#include <optional>

namespace pomona::link {

enum class Kind : uint8_t {
    message = 1,
    address = 2,
    bye = 3,
    piece = 4,
    state = 5,
    relay = 6,
    words = 7,
    carried = 8
};
static_assert(static_cast<uint64_t>(Kind::carried) == kCarriedLinkKind);

inline constexpr uint8_t kQuestion = 1;  // answer with a state frame, by the same path
inline constexpr uint8_t kAnswer = 2;    // of a state frame: it is the answer, word 3 is repeated
// Of a piece: to be acknowledged in the next turn, unless something that is sent before does so.
inline constexpr uint8_t kSoon = 4;
// Of the last piece of a payload in a row of them: its sender has its memory back by an
// acknowledgement, which need not come before a later turn, but before the program goes on.
inline constexpr uint8_t kEnd = 8;
inline constexpr size_t kRangesMost = 32;
inline constexpr size_t kAddressMost = 4096;
inline constexpr size_t kWordsMost = 4096;
inline constexpr size_t kStateMost = 4 + 2 * kRangesMost * 16;

struct LinkHeader {
    Kind kind = Kind::message;
    uint8_t flags = 0;
    uint64_t number = 0;        // message, address, bye, piece
    uint64_t next_message = 0;  // of those that the sender of this frame has received
    uint64_t next_piece = 0;    // the same; not in pieces
    uint64_t place = 0;         // piece
    uint64_t offset = 0;        // piece
    uint64_t time = 0;          // state

    FrameHeader pack() const {
        uint64_t what = static_cast<uint64_t>(kind) | uint64_t{flags} << 8;
        if (kind == Kind::piece) return {{number, place, what | offset << 16, next_message}};
        if (kind == Kind::state) return {{next_message, next_piece, what, time}};
        return {{number, next_message, what, next_piece}};
    }
};

// None when no sender of ours can have written it.
inline std::optional<LinkHeader> parse(const FrameHeader& frame, size_t payload) {
    LinkHeader out;
    out.kind = static_cast<Kind>(frame.word[2] & 0xff);
    if (frame.word[2] == kCarriedWord) return out;
    out.flags = static_cast<uint8_t>(frame.word[2] >> 8);
    uint8_t allowed = kQuestion;
    if (out.kind == Kind::state) allowed |= kAnswer;
    if (out.kind == Kind::piece) allowed |= kSoon | kEnd;
    if ((out.flags & ~allowed) != 0) return std::nullopt;
    if (out.kind == Kind::piece) {
        out.number = frame.word[0];
        out.place = frame.word[1];
        out.offset = frame.word[2] >> 16;
        out.next_message = frame.word[3];
        if (payload == 0 || payload > kPieceOffsetMax - out.offset) return std::nullopt;
        return out;
    }
    if (frame.word[2] >> 16 != 0) return std::nullopt;
    switch (out.kind) {
    case Kind::message:
        if (payload < sizeof(FrameHeader)) return std::nullopt;
        break;
    case Kind::address:
        if (payload > kAddressMost) return std::nullopt;
        break;
    case Kind::bye:
        if (payload != 0) return std::nullopt;
        break;
    case Kind::relay:
        if (payload == 0) return std::nullopt;
        break;
    case Kind::words:
        if (payload == 0 || payload > kWordsMost || frame.word[0] != 0) return std::nullopt;
        break;
    case Kind::state:
        if (payload < 4 || payload > kStateMost) return std::nullopt;
        out.next_message = frame.word[0];
        out.next_piece = frame.word[1];
        out.time = frame.word[3];
        return out;
    default: return std::nullopt;
    }
    out.number = frame.word[0];
    out.next_message = frame.word[1];
    out.next_piece = frame.word[3];
    return out;
}

struct Range {
    uint64_t first, end;
};

inline std::vector<std::byte> write_ranges(const std::vector<Range>& messages,
                                           const std::vector<Range>& pieces) {
    Writer out;
    out.put(static_cast<uint16_t>(messages.size()));
    out.put(static_cast<uint16_t>(pieces.size()));
    for (const auto* list : {&messages, &pieces})
        for (const Range& each : *list) {
            out.put(each.first);
            out.put(each.end);
        }
    return out.bytes();
}

struct Ranges {
    std::vector<Range> messages, pieces;
};

// `header`: of the state frame; ranges lie beyond its next numbers.
inline std::optional<Ranges> parse_ranges(const LinkHeader& header, ConstBytes payload) {
    Reader in(payload);
    size_t counts[2] = {in.get<uint16_t>(), in.get<uint16_t>()};
    if (counts[0] > kRangesMost || counts[1] > kRangesMost) return std::nullopt;
    Ranges out;
    std::vector<Range>* lists[2] = {&out.messages, &out.pieces};
    uint64_t nexts[2] = {header.next_message, header.next_piece};
    for (int which = 0; which < 2; ++which) {
        uint64_t before = nexts[which];
        for (size_t i = 0; i < counts[which]; ++i) {
            auto first = in.get<uint64_t>(), end = in.get<uint64_t>();
            if (first <= before || end <= first) return std::nullopt;
            lists[which]->push_back({first, end});
            before = end;
        }
    }
    if (in.failed() || in.left() != 0) return std::nullopt;
    return out;
}

}  // namespace pomona::link
