// btl/link/window.h: the frames that a link keeps until they are acknowledged, and the numbers of
// those that have arrived.
// Idea: kept frames lie one behind the other in one buffer that is used round and round, and starts
// again at its beginning whenever it is empty, so that a link without a backlog stays in the caches.
#pragma once

#include "btl/link/wire.h"

#include <deque>
#include <map>
#include <memory>

namespace pomona::link {

inline constexpr int kUnsent = -1;  // Kept::path, Piece::path: it has to be sent (again)
inline constexpr int kArrived = -2;

struct Kept {
    size_t begin = 0, length = 0;  // in the buffer
    Kind kind = Kind::message;
    int path = kUnsent;       // by which it went last
    int sendings = 0;         // how often it went
    Nanoseconds sent_at = 0;  // the last time
};

class Window {
public:
    explicit Window(size_t most) : most_(most) {}

    // Memory for the next frame, to be filled by the caller; null when it would be too much.
    std::byte* add(Kind kind, size_t length);
    // All below `next` have arrived.
    void drop_below(uint64_t next);

    uint64_t first() const { return first_; }                  // the oldest one kept
    uint64_t next() const { return first_ + frames_.size(); }  // the next one to be added
    bool empty() const { return frames_.empty(); }
    Kept& operator[](uint64_t number) { return frames_[number - first_]; }
    ConstBytes bytes(const Kept& frame) const { return {data_.get() + frame.begin, frame.length}; }
    // More than half of what is allowed is taken.
    bool crowded() const { return used_ > most_ / 2; }
    void clear();

private:
    bool find_room(size_t length, size_t& begin);
    bool grow(size_t length);

    size_t most_;
    std::unique_ptr<std::byte[]> data_;
    size_t size_ = 0;
    size_t used_ = 0;  // bytes of frames
    std::deque<Kept> frames_;
    uint64_t first_ = 0;
};

// Which numbers have arrived: all below next(), and some beyond.
class Received {
public:
    uint64_t next() const { return next_; }
    bool has(uint64_t number) const;
    // False when it has arrived before.
    bool add(uint64_t number);
    // The lowest of those beyond, at most kRangesMost.
    std::vector<Range> beyond() const;
    bool in_order() const { return beyond_.empty(); }

private:
    uint64_t next_ = 0;
    std::map<uint64_t, uint64_t> beyond_;  // first number: end
};

}  // namespace pomona::link
