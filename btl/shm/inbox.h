// btl/shm/inbox.h: a bounded queue of short frames from many producers to one consumer, in shared
// memory.
// Idea: a slot's word says which lap the slot is in, who has claimed it, and whether its frame is
// there. A producer claims the slot at `head` by one compare-and-swap of that word, so no claim is
// without a name: if its process dies before it publishes, the consumer knows whose claim to give
// back (release()). `head` is a hint that everybody moves past claimed slots; a producer that dies
// before it moves it hinders nobody. Nobody waits for anybody: a producer finds the slot of the
// last lap still in use and says so; the consumer passes over claims whose frames are not there yet
// and takes what others have published behind them. A producer has one claim at a time, so its own
// frames keep their order, if the consumer takes no more of a producer in a round in which it has
// passed over one of its claims. After D. Vyukov's bounded queue, whose sequence words here carry
// the producer too. All of it is written by other processes: the consumer believes neither lengths
// nor owners.
#pragma once

#include "btl/transport.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace pomona {

inline constexpr size_t kInboxSlots = 128;  // power of two
inline constexpr size_t kInboxMax = 448;    // payload of a frame
inline constexpr int kInboxOwners = 4096;

struct alignas(128) InboxSlot {
    // lap << 16 | published << 15 | owner's local index + 1 (0: free). Acquired before the slot's
    // other fields are touched; stored with release, or stronger, after.
    std::atomic<uint64_t> word;
    FrameHeader header;
    uint32_t length;
    std::byte bytes[kInboxMax];
};
static_assert(sizeof(InboxSlot) == 512);

// Zero bytes are an empty inbox.
struct alignas(4096) InboxMemory {
    alignas(128) std::atomic<uint64_t> head;  // no slot before it is free in its lap
    alignas(4096) InboxSlot slots[kInboxSlots];

    static constexpr uint64_t kPublished = 1 << 15;
    static uint64_t lap(uint64_t number) { return number / kInboxSlots; }
    static uint64_t free(uint64_t lap) { return lap << 16; }
    static uint64_t claimed(uint64_t lap, int owner) {
        return lap << 16 | static_cast<uint64_t>(owner + 1);
    }
    static uint64_t lap_of(uint64_t word) { return word >> 16; }
    static int owner_of(uint64_t word) { return static_cast<int>(word & 0x7fff) - 1; }
    InboxSlot& slot(uint64_t number) { return slots[number % kInboxSlots]; }
};

class InboxWriter {
public:
    InboxWriter(InboxMemory& memory, int owner) : memory_(memory), owner_(owner) {}

    // A place for kInboxMax bytes at the most, or null when the inbox is full. Write them, then
    // publish.
    std::byte* reserve() {
        // Each turn but the last means that somebody else has claimed a slot.
        for (size_t tries = 0; tries < 4 * kInboxSlots; ++tries) {
            uint64_t number = memory_.head.load(std::memory_order_acquire);
            uint64_t lap = InboxMemory::lap(number);
            InboxSlot& slot = memory_.slot(number);
            uint64_t word = slot.word.load(std::memory_order_acquire);
            if (InboxMemory::lap_of(word) < lap) return nullptr;
            uint64_t wanted = InboxMemory::claimed(lap, owner_);
            bool won = word == InboxMemory::free(lap) &&
                       slot.word.compare_exchange_strong(word, wanted, std::memory_order_acq_rel);
            memory_.head.compare_exchange_strong(number, number + 1, std::memory_order_acq_rel);
            if (!won) continue;
            slot_ = &slot;
            claim_ = wanted;
            return slot.bytes;
        }
        return nullptr;
    }

    // `plain`: the consumer fences for us before it sleeps.
    void publish(const FrameHeader& header, size_t length, bool plain) {
        slot_->header = header;
        slot_->length = static_cast<uint32_t>(length);
        ++frames_;
        bytes_ += length;
        uint64_t word = claim_ | InboxMemory::kPublished;
        if (plain) slot_->word.store(word, std::memory_order_release);
        else slot_->word.exchange(word, std::memory_order_seq_cst);
    }

    // What was published.
    uint32_t frames() const { return frames_; }
    uint64_t bytes() const { return bytes_; }

private:
    InboxMemory& memory_;
    const int owner_;
    InboxSlot* slot_ = nullptr;
    uint64_t claim_ = 0;
    uint32_t frames_ = 0;
    uint64_t bytes_ = 0;
};

class InboxReader {
public:
    InboxReader(InboxMemory& memory, size_t owners) : memory_(memory), taken_(owners, 0) {}

    // Hands frames to take(owner, header, payload), which says whether to go on. Returns their
    // number. Of a frame that no honest producer can have written take() gets no payload, and
    // damaged() is called with the owner instead, if the slot names one.
    template <class Take, class Damaged> int poll(Take take, Damaged damaged) {
        int handed = 0;
        passed_.clear();
        uint64_t end = first_ + kInboxSlots;
        for (uint64_t number = first_; number != end; ++number) {
            InboxSlot& slot = memory_.slot(number);
            uint64_t lap = InboxMemory::lap(number);
            uint64_t word = slot.word.load(std::memory_order_acquire);
            if (word == InboxMemory::free(lap)) break;
            if (InboxMemory::lap_of(word) != lap) {  // taken in an earlier round
                if (number == first_) ++first_;
                continue;
            }
            int owner = InboxMemory::owner_of(word);
            bool known = owner >= 0 && static_cast<size_t>(owner) < taken_.size();
            if (known && passes(word, owner)) continue;
            FrameHeader header = slot.header;
            uint32_t length = slot.length;
            bool go_on = true;
            if (known && length <= kInboxMax) {
                ++taken_[static_cast<size_t>(owner)];
                go_on = take(owner, header, ConstBytes(slot.bytes, length));
                ++handed;
            } else if (known) {
                damaged(owner);
            }
            give_back(slot, number);
            if (!go_on) break;
        }
        return handed;
    }

    // Frames that were taken of this producer, for whoever must know when all before its ring were.
    uint32_t taken(int owner) const { return taken_[static_cast<size_t>(owner)]; }

    // For a consumer about to sleep, after its store to `armed`: is there something to take?
    bool empty() const {
        bool found = false;
        each([&](uint64_t word) { found |= (word & InboxMemory::kPublished) != 0; });
        return !found;
    }
    // Has this producer published something that was not taken?
    bool holds(int owner) const {
        bool found = false;
        each([&](uint64_t word) {
            found |= (word & InboxMemory::kPublished) != 0 && InboxMemory::owner_of(word) == owner;
        });
        return found;
    }
    // Whose claim is the oldest without a frame; -1: there is none.
    int claimant() const {
        int found = -1;
        each([&](uint64_t word) {
            if (found < 0 && !(word & InboxMemory::kPublished)) found = InboxMemory::owner_of(word);
        });
        return found;
    }
    // This producer has died: its claim without a frame, if it has one, is given back.
    void release(int owner) {
        uint64_t begin = oldest();
        for (uint64_t number = begin; number != begin + kInboxSlots; ++number) {
            uint64_t lap = InboxMemory::lap(number);
            uint64_t word = InboxMemory::claimed(lap, owner);
            memory_.slot(number).word.compare_exchange_strong(word, InboxMemory::free(lap + 1),
                                                              std::memory_order_acq_rel);
        }
    }

private:
    // The claim has no frame yet, or an earlier one of its producer had none in this round.
    bool passes(uint64_t word, int owner) {
        bool before = std::find(passed_.begin(), passed_.end(), owner) != passed_.end();
        bool published = (word & InboxMemory::kPublished) != 0;
        if (!published && !before) passed_.push_back(owner);
        return !published || before;
    }
    void give_back(InboxSlot& slot, uint64_t number) {
        slot.word.store(InboxMemory::free(InboxMemory::lap(number) + 1), std::memory_order_release);
        if (number == first_) ++first_;
    }
    // `first_` may lag: slots that were taken or given back since the last poll began may stand
    // there, and behind them what others have put into the next lap.
    uint64_t oldest() const {
        uint64_t number = first_;
        while (number != first_ + kInboxSlots &&
               InboxMemory::lap_of(word_at(number)) != InboxMemory::lap(number))
            ++number;
        return number;
    }
    // The words of slots that are claimed and not taken.
    template <class Look> void each(Look look) const {
        uint64_t begin = oldest();
        for (uint64_t number = begin; number != begin + kInboxSlots; ++number) {
            uint64_t word = word_at(number);
            if (word == InboxMemory::free(InboxMemory::lap(number))) return;
            if (InboxMemory::lap_of(word) == InboxMemory::lap(number)) look(word);
        }
    }
    uint64_t word_at(uint64_t number) const {
        return memory_.slot(number).word.load(std::memory_order_seq_cst);
    }

    InboxMemory& memory_;
    uint64_t first_ = 0;           // all slots before were taken
    std::vector<uint32_t> taken_;  // frames, by producer
    std::vector<int> passed_;      // producers, in this round
};

}  // namespace pomona
