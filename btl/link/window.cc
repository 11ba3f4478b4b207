// btl/link/window.cc: the buffer of kept frames, and sets of numbers.
#include "btl/link/window.h"

#include <algorithm>
#include <cstring>

namespace pomona::link {

static constexpr size_t kSmallest = 16 << 10;

std::byte* Window::add(Kind kind, size_t length) {
    size_t begin = 0;
    if (used_ + length > most_ && !frames_.empty()) return nullptr;
    while (!find_room(length, begin))
        if (!grow(length)) return nullptr;
    frames_.push_back({begin, length, kind, kUnsent, 0, 0});
    used_ += length;
    return data_.get() + begin;
}

// Where the next frame can lie in one piece. A frame of no bytes lies where the last one ended.
bool Window::find_room(size_t length, size_t& begin) {
    if (frames_.empty()) {
        begin = 0;
        return length <= size_;
    }
    size_t head = frames_.front().begin;
    size_t tail = frames_.back().begin + frames_.back().length;
    bool wrapped = frames_.back().begin < head;
    if (!wrapped && size_ - tail >= length) {
        begin = tail;
        return true;
    }
    // Never up to the head: a tail that meets it would look like an empty buffer.
    begin = wrapped ? tail : 0;
    return begin + length < head;
}

bool Window::grow(size_t length) {
    // Space at the ends is lost to frames that do not fit: hence more than `most`.
    size_t limit = 2 * most_ + 2 * length;
    if (size_ >= limit) return false;
    size_t size = std::min(limit, std::max({2 * size_, kSmallest, 2 * length}));
    std::unique_ptr<std::byte[]> larger(new std::byte[size]);
    size_t end = 0;
    for (Kept& each : frames_) {
        if (each.length != 0)
            std::memcpy(larger.get() + end, data_.get() + each.begin, each.length);
        each.begin = end;
        end += each.length;
    }
    data_ = std::move(larger);
    size_ = size;
    return true;
}

void Window::drop_below(uint64_t next) {
    while (first_ < next && !frames_.empty()) {
        used_ -= frames_.front().length;
        frames_.pop_front();
        ++first_;
    }
}

void Window::clear() {
    drop_below(next());
    data_.reset();
    size_ = 0;
}

// ---- numbers

bool Received::has(uint64_t number) const {
    if (number < next_) return true;
    auto after = beyond_.upper_bound(number);
    return after != beyond_.begin() && number < std::prev(after)->second;
}

bool Received::add(uint64_t number) {
    if (number == next_ && beyond_.empty()) return ++next_, true;
    if (has(number)) return false;
    auto after = beyond_.lower_bound(number);
    bool joins_after = after != beyond_.end() && after->first == number + 1;
    uint64_t end = joins_after ? after->second : number + 1;
    if (joins_after) after = beyond_.erase(after);
    bool joins_before = after != beyond_.begin() && std::prev(after)->second == number;
    if (joins_before) std::prev(after)->second = end;
    else beyond_.emplace(number, end);
    if (beyond_.begin()->first == next_) {
        next_ = beyond_.begin()->second;
        beyond_.erase(beyond_.begin());
    }
    return true;
}

std::vector<Range> Received::beyond() const {
    std::vector<Range> out;
    for (auto each = beyond_.begin(); each != beyond_.end() && out.size() < kRangesMost; ++each)
        out.push_back({each->first, each->second});
    return out;
}

}  // namespace pomona::link
