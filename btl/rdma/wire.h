// btl/rdma/wire.h: what travels by a queue pair, and the words by which two ranks agree on one.
//
// A message of a queue pair: 80 bytes of MessageHead, then `length` bytes of a frame's payload. All
// messages of a queue pair fill a slot of the same size (4 KiB, or the stride), since sender and
// receiver must count the same number of 4 KiB frames. A longer frame goes as several messages, in
// order. With a long payload the head has a checksum of its own: where it is right the payload may
// be copied to its place while its checksum is computed.
//
// Words travel by the link's other paths (transport.h, rule 14): u8 kind, u8 which path of those by
// RDMA, u32 attempt, and
//   ask     nothing (attempt 0): which devices are there?
//   devices u8 number of them (attempt 0), for each sized text name, 16 bytes GID, or zeros
//   offer   u8 which of the peer's devices; then an End
//   accept  an End
//   refuse  text: why
//   go      nothing: the sender of the offer has had answers to its probes
//   gone    text: why; both ends leave the path
//   resync  u64 twice: frames sent by each queue pair, as its sender has no credit
//   credit  u64 twice: frames that may have been sent
//   again   nothing (attempt 0): something has changed here, try again
//   asleep  u64 twice: frames that have arrived by each queue pair; the sender sleeps from now on
//   knows   nothing: nothing beyond these has been sent, and what is will be followed by a bell
//   bell    nothing: something has been sent to a sleeper
// End: sized text device, 16 bytes GID, u16 LID, u8 MTU, u8 checksums are sent, u8 type of queue
// pair, u8 number of these, for each u32 number, u32 first packet, u32 stride, u32 slots. Integers
// little-endian.
#pragma once

#include "btl/rdma/copiers.h"
#include "btl/rdma/limits.h"
#include "btl/rdma/verbs.h"
#include "btl/transport.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona::rdma {

enum class MessageKind : uint8_t { data = 1, credit = 2, probe = 3 };
inline constexpr uint16_t kMagic = 0x524d;
enum class Checked : uint8_t { no, together, apart };
// Payloads from this length on that go as one message have a checksum of their own.
inline constexpr size_t kApartFrom = 4 << 10;

struct MessageHead {
    uint32_t checksum;  // CRC32C of the head behind it, and of the payload where that has none
    uint16_t magic;
    MessageKind kind;
    Checked checked;
    uint32_t attempt;    // at making the path
    uint32_t length;     // of the payload's part in this message
    uint64_t sequence;   // frames sent before by this queue pair
    uint64_t credit[2];  // frames that the receiver of this may have sent by each queue pair, ever
    uint32_t total;      // of the frame's payload,
    uint32_t offset;     // and where this part begins; of a whole one, apart: its checksum
    FrameHeader header;
};
static_assert(sizeof(MessageHead) == 80);

// Bytes of payload in a slot.
constexpr size_t room_in(size_t stride) { return stride - sizeof(MessageHead); }

// That of a message, which is aligned for it, where it lies; null when no sender of ours can have
// written it, or it was changed, as far as its first checksum tells.
const MessageHead* sound_head(ConstBytes message, bool checked);
// Is the payload what was sent, as far as its own checksum tells?
bool payload_is_sound(const MessageHead& head, ConstBytes payload, Copiers& copiers);

enum class Word : uint8_t {
    offer = 1,
    accept,
    refuse,
    go,
    gone,
    resync,
    credit,
    again,
    asleep,
    knows,
    bell,
    ask,
    devices
};

struct PairPlace {
    uint32_t number = 0, first_packet = 0, stride = 0, slots = 0;
};

struct EndPlace {
    std::string device;
    GidBytes gid{};
    uint16_t lid = 0;
    uint8_t mtu = 0;
    bool checks = false;
    verbs::QpType type = verbs::kUc;
    std::vector<PairPlace> pairs;
};

// A device that is there; without an address yet: zeros.
struct KnownDevice {
    std::string name;
    GidBytes gid{};
};

struct Words {
    Word word = Word::gone;
    uint32_t attempt = 0;
    uint8_t device = 0;    // offer
    EndPlace end{};        // offer, accept
    std::string text{};    // refuse, gone
    uint64_t frames[2]{};  // resync, credit, asleep
    uint8_t path = 0;
    std::vector<KnownDevice> devices{};  // devices

    std::vector<std::byte> pack() const;
};
std::optional<Words> parse_words(ConstBytes bytes);

}  // namespace pomona::rdma
