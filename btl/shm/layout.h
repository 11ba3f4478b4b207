// btl/shm/layout.h: what stands where in a rank's segment: its header, the inbox if there is one
// (btl/shm/inbox.h), a ring for each local rank in order of local index (the own one stays
// untouched), then the owner's boards, and what it was set to. Also the one table of what changes
// with the number of ranks on the machine.
#pragma once

#include "btl/base/fingerprint.h"
#include "btl/base/params.h"
#include "btl/board.h"
#include "btl/send_offer.h"
#include "btl/shm/inbox.h"
#include "btl/shm/ring.h"

#include <algorithm>
#include <bit>

namespace pomona {

inline constexpr uint64_t kSegmentMagic = 0x31616e6f6d6f70;  // "pomona1"
inline constexpr int kLocalMax = 4096;
static_assert(kLocalMax <= kInboxOwners);

// Where many ranks share a machine.
struct ManyRanks {
    // With more ranks than this on the machine rings begin short (btl/shm/ring.h), and every rank
    // has an inbox, by which a pair exchanges frames until it has earned its ring.
    static constexpr size_t rings_most = 16;
    // A sender earns its ring with so many frames or so many bytes of payload, with a frame that is
    // too long for the inbox, or when it was told so often that the inbox is full.
    static constexpr uint32_t earn_frames = 32;
    static constexpr uint64_t earn_bytes = 4096;
    static constexpr uint32_t earn_refusals = 64;
    // Rings that a poll looks at: those that brought something lately, and a few of the others in
    // turn.
    static constexpr size_t near_rings = 8;
    static constexpr size_t far_looks = 8;
};

struct alignas(4096) SegmentHeader {
    std::atomic<uint64_t>
        magic;  // stored last, with release; a sender that reads it (acquire) may use the rest
    uint32_t slot_count;
    uint32_t local_size;
    uint64_t data_size;
    int64_t pid;
    uint32_t fences;  // 1: the owner fences for its senders before it sleeps
    uint32_t locked;  // 1: the owner holds a life file
    uint32_t inbox;   // 1: there is one, and rings begin short
    uint32_t index;   // the owner's local index
    uint64_t incarnation;
    // The hash of what the ranks of a job must have set alike, and where in the segment that stands
    // (btl/base/fingerprint.h); 0: nobody compares.
    uint64_t settings;
    uint64_t settings_at;
    uint64_t settings_size;
    // Where this header lies in the owner's address space; whoever finds the magic number and the
    // index there can read the owner's memory. The index, since `pid` may name another rank in the
    // reader's PID namespace, with a header at the same address.
    uint64_t own_address;
    // One bit per local index: that rank writes to its ring here. Set once (seq_cst) after the
    // writer has mapped the ring; a late look by poll only delays.
    alignas(kLine) std::atomic<uint64_t> writers[kLocalMax / 64];
    // How many bits were set in `writers` ever; added to (release) after each. So whoever has
    // looked at all of them need not look again until this changes.
    alignas(kLine) std::atomic<uint32_t> rings;
    // Sleeper::Way: how the owner, which sleeps or is about to, wants to be woken by whoever has
    // published a frame or a post; 0 while it is awake. Store and look are seq_cst on both sides,
    // or fenced by the owner.
    alignas(kLine) std::atomic<uint32_t> armed;
    // 1 when the owner has closed: nothing will be read any more. Release, after all that it sent.
    alignas(kLine) std::atomic<uint32_t> closed;
    // One bit per local index: that rank had mapped this segment, and has closed. Release, as
    // `closed`.
    std::atomic<uint64_t> left[kLocalMax / 64];
    // One bit per local index: that rank has found no memory for its ring here, and sends nothing
    // more.
    std::atomic<uint64_t> lost[kLocalMax / 64];
    // Of the owner's messages (btl/send_offer.h).
    alignas(kLine) std::atomic<uint64_t> offers[kOffers];
};

// Of the segments of one machine's ranks, which all compute the same.
struct SegmentLayout {
    SegmentLayout(const Params& params, size_t local_size)
        : SegmentLayout(
              local_size, static_cast<uint32_t>(params.shm_ring_slots),
              local_size <= ManyRanks::rings_most
                  ? params.shm_ring_bytes
                  // Two of the largest frames, since senders that find their receivers busy
                  // would fill what there is.
                  : std::min<uint64_t>(params.shm_ring_bytes,
                                       std::bit_ceil(2 * params.shm_fragment))) {}
    SegmentLayout(size_t local_size, uint32_t slot_count, uint64_t data_size)
        : local_size(local_size), slot_count(slot_count), data_size(data_size),
          has_inbox(local_size > ManyRanks::rings_most) {}

    // What every sender maps: the header, and the inbox.
    size_t head_size() const {
        return sizeof(SegmentHeader) + (has_inbox ? sizeof(InboxMemory) : 0);
    }
    size_t ring_stride() const {
        return (RingMemory::size(slot_count, data_size) + 4095) & ~size_t{4095};
    }
    size_t ring_offset(size_t index) const { return head_size() + index * ring_stride(); }
    size_t boards_offset() const {
        size_t end = ring_offset(local_size);
        return (end + alignof(BoardStrip) - 1) / alignof(BoardStrip) * alignof(BoardStrip);
    }
    size_t settings_offset() const {
        size_t end = boards_offset() + kBoardStrips * sizeof(BoardStrip);
        return (end + 4095) & ~size_t{4095};
    }
    size_t size() const { return settings_offset() + Fingerprint::kBytesMax; }

    size_t local_size;
    uint32_t slot_count;
    uint64_t data_size;
    bool has_inbox;
};

}  // namespace pomona
