// btl/shm/ring.h: a single-producer, single-consumer ring of frames in shared memory.
// Idea: the sequence word stands in the slot, so a frame of up to 24 payload bytes crosses in one
// 64-byte line and one of up to 80 in one 128-byte line. Longer payloads go to a byte ring beside
// the slots, in the same order. The consumer publishes how far it has read only now and then; the
// producer reads that only when the ring looks full.
// Publishing is one plain store where the consumer, before it sleeps, can make the producer's
// stores visible (btl/base/asymmetric.h); otherwise an exchange, so that the look at the consumer's
// `armed` word after it cannot come first. The producer asks for the ring's memory before it is
// written to for the first time: where the system has no more, touching it would end the process.
// Before it asks for more it begins at the front again if all has been read, so that a ring that is
// read in time touches only its first bytes. The data's memory of a ring that has been read, and
// then not used for some looks, it gives back. Among many ranks a ring begins *short*: with a few
// slots, in the page of its tail. When those have run full it grows to all of them: a frame of
// length kGrow says so, and is read before any that follows.
#pragma once

#include "btl/shm/segment.h"
#include "btl/transport.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace pomona {

inline constexpr size_t kLine = 128;  // Apple's cache line; a pair of lines on x86

struct alignas(kLine) Slot {
    // Number of the frame + 1 once it is there. Written (release or stronger) by
    // RingWriter::publish, which publishes all other fields and the data area; pairs with the
    // acquire in RingReader.
    std::atomic<uint64_t> sequence;
    FrameHeader header;
    uint32_t length;
    uint32_t reserved;
    union {
        std::byte inline_bytes[80];
        uint64_t data_end;  // where the payload ends in the byte ring, counted from its beginning
    };
};
static_assert(sizeof(Slot) == kLine);
inline constexpr size_t kInlineMax = sizeof(Slot::inline_bytes);
inline constexpr uint32_t kGrow =
    ~uint32_t{0};  // a slot's length: no frame, data_end slots from now on
inline constexpr uint32_t kShortSlots = 16;  // of a short ring

struct alignas(kLine) RingTail {
    // How far the consumer has read. Release stores in RingReader::publish give slots and bytes
    // back; they pair with the acquire loads in RingWriter::refresh.
    std::atomic<uint64_t> slots;
    std::atomic<uint64_t> data;
    // The producer's, stored before the ring is announced: how many of its frames in the inbox
    // (btl/shm/inbox.h) come before the ring's first.
    std::atomic<uint64_t> after;
};

// Where a ring lies: tail, slots, bytes.
struct RingMemory {
    RingTail* tail;
    Slot* slots;
    std::byte* data;
    uint32_t slot_count;  // power of two; fewer while a ring is short
    uint32_t slots_most;
    uint64_t data_size;  // power of two

    static size_t size(uint64_t slot_count, uint64_t data_size) {
        return sizeof(RingTail) + slot_count * sizeof(Slot) + data_size;
    }
    static RingMemory at(std::byte* place, uint32_t slot_count, uint64_t data_size) {
        std::byte* slots = place + sizeof(RingTail);
        return {reinterpret_cast<RingTail*>(place),
                reinterpret_cast<Slot*>(slots),
                slots + slot_count * sizeof(Slot),
                slot_count,
                slot_count,
                data_size};
    }
};

class RingWriter {
public:
    explicit RingWriter(RingMemory memory, bool begins_short = false)
        : memory_(memory), step_(begins_short ? 16 << 10 : 64 << 10) {
        if (begins_short) memory_.slot_count = std::min(memory_.slot_count, kShortSlots);
    }

    // To be called once, before all else: takes the slots' memory.
    Status provide_slots() {
        return provide_memory(reinterpret_cast<std::byte*>(memory_.tail),
                              sizeof(RingTail) + memory_.slot_count * sizeof(Slot));
    }
    void begin_after(uint64_t frames) {
        memory_.tail->after.store(frames, std::memory_order_release);
    }
    // Why reserve() will find no place any more, if so.
    const Status& lost() const { return lost_; }

    // A place for `length` payload bytes, or null when the ring is full. Write them, then publish.
    std::byte* reserve(size_t length) {
        if (next_ - tail_slots_ >= memory_.slot_count) {
            refresh();
            if (memory_.slot_count < memory_.slots_most || grown_at_ > tail_slots_) grow();
            if (next_ - tail_slots_ >= memory_.slot_count) return nullptr;
        }
        Slot& slot = memory_.slots[next_ & (memory_.slot_count - 1)];
        if (length <= kInlineMax) return slot.inline_bytes;
        return reserve_data(length);
    }

    // What reserve() does for a short payload where there is certainly room.
    bool has_slot() const { return next_ - tail_slots_ < memory_.slot_count; }
    std::byte* next_inline() {
        return memory_.slots[next_ & (memory_.slot_count - 1)].inline_bytes;
    }

    // To be called now and then, between frames: gives the data's memory back if nothing was
    // written since the last kIdleLooks calls and all has been read.
    void look_whether_idle() {
        if (provided_ == 0 || std::exchange(looked_at_, next_) != next_) {
            idle_looks_ = 0;
        } else if (++idle_looks_ >= kIdleLooks) {
            // Not how many slots were read: a ring that has just grown counts as full until its
            // reader has passed the frame that says so (grow()).
            tail_data_ = memory_.tail->data.load(std::memory_order_acquire);
            if (tail_data_ == data_end_ && return_memory(memory_.data, provided_)) provided_ = 0;
            idle_looks_ = 0;
        }
    }
    static constexpr int kIdleLooks = 4;

    // `plain`: the consumer fences for us before it sleeps.
    void publish(const FrameHeader& header, size_t length, bool plain) {
        Slot& slot = memory_.slots[next_ & (memory_.slot_count - 1)];
        slot.header = header;
        slot.length = static_cast<uint32_t>(length);
        if (length > kInlineMax) slot.data_end = data_end_ = reserved_end_;
        ++next_;
        if (plain) slot.sequence.store(next_, std::memory_order_release);
        else slot.sequence.exchange(next_, std::memory_order_seq_cst);
    }

private:
    std::byte* reserve_data(size_t length) {
        uint64_t mask = memory_.data_size - 1;
        uint64_t start = data_end_;
        // A payload does not wrap: skip the rest of the ring when it is too short.
        if ((start & mask) + length > memory_.data_size) start = (start | mask) + 1;
        bool beyond = (start & mask) + length > provided_;
        if (__builtin_expect(beyond, 0) && (start & mask) != 0) {
            refresh();
            // The reader says again how far it has read once it has read this frame.
            if (tail_data_ == data_end_) tail_data_ = start = (start | mask) + 1;
        }
        uint64_t end = (start + length + 63) & ~uint64_t{63};
        if (end - tail_data_ > memory_.data_size) {
            refresh();
            if (end - tail_data_ > memory_.data_size) return nullptr;
        }
        if (__builtin_expect((start & mask) + length > provided_, 0) &&
            !provide((start & mask) + length))
            return nullptr;
        reserved_end_ = end;
        return memory_.data + (start & mask);
    }
    bool provide(uint64_t end) {
        end = std::min((end + step_ - 1) / step_ * step_, memory_.data_size);
        lost_ = provide_memory(memory_.data + provided_, end - provided_);
        if (lost_) provided_ = end;
        return lost_.ok();
    }
    // The ring has run full, or has just grown: its reader must have passed the frame that says so
    // before slots are used by the new count.
    void grow() {
        if (memory_.slot_count < memory_.slots_most) {
            bool room = next_ - tail_slots_ < memory_.slot_count;
            full_ = full_ || !room;
            if (!full_ || !room) return;
            auto* more = reinterpret_cast<std::byte*>(memory_.slots + memory_.slot_count);
            lost_ = provide_memory(more, (memory_.slots_most - memory_.slot_count) * sizeof(Slot));
            if (lost_) {
                Slot& slot = memory_.slots[next_ & (memory_.slot_count - 1)];
                slot.length = kGrow;
                slot.data_end = memory_.slot_count = memory_.slots_most;
                grown_at_ = ++next_;
                slot.sequence.exchange(next_, std::memory_order_seq_cst);
            }
        }
        // As if full, until the next look.
        tail_slots_ = next_ - memory_.slot_count;
    }
    void refresh() {
        tail_slots_ = memory_.tail->slots.load(std::memory_order_acquire);
        tail_data_ = memory_.tail->data.load(std::memory_order_acquire);
    }

    RingMemory memory_;
    uint64_t next_ = 0;      // number of the next frame
    uint64_t data_end_ = 0;  // end of the last published payload
    uint64_t reserved_end_ = 0;
    uint64_t tail_slots_ = 0;  // the consumer's tail as last seen
    uint64_t tail_data_ = 0;
    uint64_t provided_ = 0;   // bytes of the data area that are there
    uint64_t looked_at_ = 0;  // next_ at the last look_whether_idle()
    int idle_looks_ = 0;
    const uint64_t step_;    // in which data's memory is taken
    bool full_ = false;      // a short ring has run full
    uint64_t grown_at_ = 0;  // the number after the frame that said so
    Status lost_;
};

class RingReader {
public:
    explicit RingReader(RingMemory memory, bool begins_short = false) : memory_(memory) {
        if (begins_short) memory_.slot_count = std::min(memory_.slot_count, kShortSlots);
    }

    uint64_t begins_after() const { return memory_.tail->after.load(std::memory_order_acquire); }

    // The next frame, or null.
    Slot* front() {
        Slot& slot = memory_.slots[next_ & (memory_.slot_count - 1)];
        return slot.sequence.load(std::memory_order_acquire) == next_ + 1 ? &slot : nullptr;
    }
    ConstBytes payload(const Slot& slot) const {
        if (slot.length <= kInlineMax) return {slot.inline_bytes, slot.length};
        uint64_t padded = (uint64_t{slot.length} + 63) & ~uint64_t{63};
        return {memory_.data + ((slot.data_end - padded) & (memory_.data_size - 1)), slot.length};
    }
    // Is `slot` what an honest producer can have written? (The memory is shared.)
    bool plausible(const Slot& slot) const {
        if (slot.length <= kInlineMax) return true;
        uint64_t padded = (uint64_t{slot.length} + 63) & ~uint64_t{63};
        uint64_t start = (slot.data_end - padded) & (memory_.data_size - 1);
        return padded <= memory_.data_size && start + slot.length <= memory_.data_size;
    }
    // A slot that is not plausible may say that the ring grows: then it is done with, and true.
    bool grow(const Slot& slot) {
        if (slot.length != kGrow || slot.data_end != memory_.slots_most ||
            memory_.slot_count >= memory_.slots_most)
            return false;
        memory_.slot_count = memory_.slots_most;
        ++next_;
        publish();
        return true;
    }
    void pop(const Slot& slot) {
        ++next_;
        if (slot.length > kInlineMax) data_end_ = slot.data_end;
        if ((next_ & 15) == 0 || data_end_ - published_data_ >= memory_.data_size / 8) publish();
    }
    // Found nothing: give back what was read, so that a writer waiting for room goes on.
    void idle() {
        if (data_end_ != published_data_) publish();
    }

    // Finds nothing any more.
    void close() { next_ = uint64_t{1} << 63; }

    // front() for a consumer about to sleep: ordered after its store to `armed`.
    bool empty() const {
        const Slot& slot = memory_.slots[next_ & (memory_.slot_count - 1)];
        return slot.sequence.load(std::memory_order_seq_cst) != next_ + 1;
    }

private:
    void publish() {
        memory_.tail->slots.store(next_, std::memory_order_release);
        memory_.tail->data.store(data_end_, std::memory_order_release);
        published_data_ = data_end_;
    }

    RingMemory memory_;
    uint64_t next_ = 0;
    uint64_t data_end_ = 0;
    uint64_t published_data_ = 0;
};

}  // namespace pomona
