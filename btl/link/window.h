// btl/link/window.h: the frames that a link keeps until they are acknowledged, and the numbers of
// those that have arrived.
// Idea: kept frames lie one behind the other in one buffer that is used round and round, and starts
// again at its beginning whenever it is empty, so that a link without a backlog stays in the
// caches. Before each is room for a transport's own head (Endpoint::push_behind_room).
#pragma once

#include "btl/link/wire.h"

#include <map>
#include <memory>
#include <vector>

namespace pomona::link {

inline constexpr int kUnsent = -1;  // Kept::path, Piece::path: it has to be sent (again)
inline constexpr int kArrived = -2;
inline constexpr Nanoseconds kLater = -1;  // Kept::sent_at, Path::heard_at: not taken yet
// What a peer takes of messages, and bytes of them, that come before their turn: more is nothing
// that a sender of ours can have on its way.
inline constexpr uint64_t kAheadMost = 1 << 20;
inline constexpr size_t kEarlyBytesMost = 256 << 20;

struct Kept {
    size_t begin = 0, length = 0;  // in the buffer, behind kHeadRoom bytes
    Kind kind = Kind::message;
    int path = kUnsent;       // by which it went last
    int sendings = 0;         // how often it went
    Nanoseconds sent_at = 0;  // the last time
    // The payload of a message that is not in the buffer, behind the engine's header, which is.
    // `own`: the link's copy of it.
    const std::byte* data = nullptr;
    size_t data_length = 0;  // also when it has arrived
    uint64_t ticket = 0;     // Sink::released() is owed
    std::unique_ptr<std::byte[]> own{};
};

class Window {
public:
    // `grew`: set whenever the buffer has become large().
    Window(size_t most, bool& grew) : most_(most), grew_(grew) {}

    // Memory for the next frame, to be filled by the caller; null when it would be too much.
    // `elsewhere`: of its payload, which is attached next.
    std::byte* add(Kind kind, size_t length, size_t elsewhere = 0) {
        if (!empty() || kHeadRoom + length > size_) return add_behind(kind, length, elsewhere);
        take_place(kind, kHeadRoom, length);
        return data_.get() + kHeadRoom;
    }
    // To the one added last belongs a payload that stays where it is.
    void attach(const std::byte* data, size_t length, uint64_t ticket);
    // It has arrived, and maybe not all before it: what it has elsewhere is given back.
    void drop_payload(Kept& frame);
    // All below `next` have arrived.
    void drop_below(uint64_t next) {
        for (; first_ < next && first_ < next_; ++first_) {
            Kept& oldest = frames_[first_ & mask_];
            used_ -= kHeadRoom + oldest.length;
            if (oldest.data_length != 0) forget_payload(oldest);
        }
    }

    uint64_t first() const { return first_; }  // the oldest one kept
    uint64_t next() const { return next_; }    // the next one to be added
    bool empty() const { return first_ == next_; }
    Kept& operator[](uint64_t number) { return frames_[number & mask_]; }
    const Kept& operator[](uint64_t number) const { return frames_[number & mask_]; }
    ConstBytes bytes(const Kept& frame) const { return {data_.get() + frame.begin, frame.length}; }
    Bytes with_room(const Kept& frame) {
        return {data_.get() + frame.begin - kHeadRoom, kHeadRoom + frame.length};
    }
    // More than half of what is allowed is taken.
    bool crowded() const { return used_ > most_ / 2; }
    // Its buffer is worth giving back when it is not used.
    bool large() const { return size_ > kSmall; }
    void give_back();  // when it is empty
    // Bytes of frames, wherever they lie.
    size_t in_flight() const { return used_ + attached_; }
    void clear();

private:
    void take_place(Kind kind, size_t begin, size_t length) {
        Kept& added = frames_[next_++ & mask_];
        added.begin = begin;
        added.length = length;
        added.kind = kind;
        added.path = kUnsent;
        added.sendings = 0;
        used_ += kHeadRoom + length;
    }
    std::byte* add_behind(Kind kind, size_t length, size_t elsewhere);
    void forget_payload(Kept& frame);
    bool find_room(size_t length, size_t& begin);
    bool grow(size_t length);
    void add_places();

    static constexpr size_t kSmall = 8 << 10;

    size_t most_;
    bool& grew_;
    std::unique_ptr<std::byte[]> data_;
    size_t size_ = 0;
    size_t used_ = 0;           // bytes of frames there, with their room
    size_t attached_ = 0;       // of their payloads elsewhere
    size_t elsewhere_ = 0;      // the same, with those that have arrived before their turn
    std::vector<Kept> frames_;  // by number, modulo their number, a power of two; some, if size_
    uint64_t mask_ = 0;
    uint64_t first_ = 0, next_ = 0;
};

// Which numbers have arrived: all below next(), and some beyond.
class Received {
public:
    uint64_t next() const { return next_; }
    bool has(uint64_t number) const;
    // False when it has arrived before.
    bool add(uint64_t number) {
        if (number == next_ && beyond_.empty()) return ++next_, true;
        return add_beyond(number);
    }
    // The lowest of those beyond, at most kRangesMost.
    std::vector<Range> beyond() const;
    bool in_order() const { return beyond_.empty(); }

private:
    bool add_beyond(uint64_t number);
    uint64_t next_ = 0;
    std::map<uint64_t, uint64_t> beyond_;  // first number: end
};

}  // namespace pomona::link
