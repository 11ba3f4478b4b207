// mpi/p2p/header.h: the engine's 32-byte wire header and its parser.
// Idea: one fixed layout for all kinds; what a field means depends on the kind (table below).
//
//   kind   context         source  tag  length             token
//   eager  communicator    rank    tag  of the message     sender's operation when `sync`, else its types
//   With kFlagOffered eager ones and rts have a word that says whether they may be taken (btl/send_offer.h).
//   rts    communicator    rank    tag  of the message     sender's operation
//          payload: none, or 8 bytes: where the data lies in the sender's memory; or 16: the same (0: not
//          readable) and its types; with kFlagWhole the whole message, of which 0 bytes are accepted
//   settled  communicator  rank   tag  -                sender's operation
//          "What came with this question will not be cancelled": it is received without the word
//          that the answer asks for. A message that MPI_Mprobe has taken is not found by this: the
//          answer to it has kFlagWord, which asks for the word in any case.
//   "Its types": 0, or where the program is checked (POMONA_CHECK) what mpi/check/signature.h says.
//   cts    receiver's op   -       -    bytes accepted     sender's operation
//   data   receiver's op   -       -    of this piece      offset of this piece
//          Where 0 bytes are accepted one of 0 says that the message was not cancelled.
//   ack    -               -       -    -                  sender's operation (synchronous send)
//   pulled -               -       -    bytes read         sender's operation
//   revoked -              -       -    -                  sender's operation: its context is revoked
//   notice communicator    -       what of the payload     number (mpi/p2p/notice.h)
//   hold, resume: no fields. "Ask before you send anything", and the end of that (back-pressure).
//   withdraw   communicator  rank  tag  -              sender's operation
//          "Drop this message if no receive has met it": answered by `withdrawn` if so, else by what
//          answers the message itself, or `withdrawn` where that was offered. With kFlagLost its
//          receive shall end with an error, not wait.
//   withdrawn  -             -     -    -              sender's operation
//   refused    receiver's op -     -    -              -
//          "The rest of the data that you have accepted does not come." With kFlagCancelled none of
//          it: the message was cancelled before the answer came; the receive is posted again.
//
// All integers little-endian. `rank` is the sender's rank in its local group.
#pragma once

#include "btl/transport.h"

#include <optional>

namespace pomona {

enum class FrameKind : uint8_t {
    eager = 1,
    rts = 2,
    cts = 3,
    data = 4,
    ack = 5,
    hold = 6,
    resume = 7,
    pulled = 8,
    withdraw = 9,
    withdrawn = 10,
    refused = 11,
    revoked = 12,
    notice = 13,
    carried = 14,  // not for the engine: to another process, or for its links (btl/link/carried.h)
    settled = 15
};

static_assert(static_cast<uint64_t>(FrameKind::data) == kPieceKind);
static_assert(static_cast<uint64_t>(FrameKind::carried) == kCarriedKind);

// Of this layout, of what the kinds mean, and of what boards and the commands of windows say;
// raised with every change.
inline constexpr int kFrameVersion = 8;
inline constexpr uint8_t kFlagSync = 1;
inline constexpr uint8_t kFlagLost = 2;  // of withdraw, and of a message here that was withdrawn
inline constexpr uint8_t kFlagFailure =
    4;  // also of refused: because a process failed, or a revocation
inline constexpr uint8_t kFlagCancelled = 8;  // of refused
inline constexpr uint8_t kFlagOffered = 16;   // of rts, and of eager with `sync`
inline constexpr uint8_t kFlagWhole = 32;     // of rts
inline constexpr uint8_t kFlagWord = 64;      // of cts
inline constexpr size_t kPlaceBytes = 8, kPlaceAndTypesBytes = 16;  // payloads of an rts
inline constexpr uint64_t kLengthMax = (uint64_t{1} << 48) - 1;

struct Header {
    uint64_t context = 0;
    int32_t source = 0;
    int32_t tag = 0;
    uint64_t length = 0;  // at most kLengthMax
    FrameKind kind = FrameKind::eager;
    uint8_t flags = 0;
    uint64_t token = 0;

    FrameHeader pack() const {
        return {
            {context, static_cast<uint32_t>(source) | uint64_t{static_cast<uint32_t>(tag)} << 32,
             length | uint64_t{static_cast<uint8_t>(kind)} << 48 | uint64_t{flags} << 56, token}};
    }
};

// Without any check.
inline Header unpack(const FrameHeader& frame) {
    Header out;
    out.context = frame.word[0];
    out.source = static_cast<int32_t>(frame.word[1]);
    out.tag = static_cast<int32_t>(frame.word[1] >> 32);
    out.length = frame.word[2] & kLengthMax;
    out.kind = static_cast<FrameKind>(frame.word[2] >> 48 & 0xff);
    out.flags = static_cast<uint8_t>(frame.word[2] >> 56);
    out.token = frame.word[3];
    return out;
}

// Is it an eager message without flags, as most are, that parse() would accept?
inline bool plain_message(const FrameHeader& frame, size_t payload) {
    constexpr uint64_t plain = uint64_t{static_cast<uint8_t>(FrameKind::eager)} << 48;
    return frame.word[2] == (plain | payload) && static_cast<int32_t>(frame.word[1]) >= 0;
}

// unpack() of such a frame.
inline Header unpack_plain(const FrameHeader& frame) {
    return {frame.word[0],
            static_cast<int32_t>(frame.word[1]),
            static_cast<int32_t>(frame.word[1] >> 32),
            frame.word[2] & kLengthMax,
            FrameKind::eager,
            0,
            frame.word[3]};
}

// The header of an arrived frame with `payload` bytes behind it, or none if no sender of ours can
// have written it.
inline std::optional<Header> parse(const FrameHeader& frame, size_t payload) {
    Header out = unpack(frame);
    switch (out.kind) {
    case FrameKind::eager:
        if (out.length != payload || out.source < 0 || out.flags & ~(kFlagSync | kFlagOffered))
            return std::nullopt;
        return out;
    case FrameKind::rts:
        if (out.source < 0) return std::nullopt;
        if (out.flags & kFlagWhole
                ? payload != out.length
                : payload != 0 && payload != kPlaceBytes && payload != kPlaceAndTypesBytes)
            return std::nullopt;
        return out;
    case FrameKind::data:
    case FrameKind::notice:
        if (out.length != payload) return std::nullopt;
        return out;
    case FrameKind::cts:
    case FrameKind::ack:
    case FrameKind::hold:
    case FrameKind::resume:
    case FrameKind::pulled:
    case FrameKind::withdraw:
    case FrameKind::withdrawn:
    case FrameKind::refused:
    case FrameKind::revoked:
    case FrameKind::settled:
        if (payload != 0) return std::nullopt;
        return out;
    case FrameKind::carried: break;
    }
    return std::nullopt;
}

}  // namespace pomona
