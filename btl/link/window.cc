// btl/link/window.cc: the buffer of kept frames, and sets of numbers.
#include "btl/link/window.h"

#include <algorithm>
#include <cstring>

namespace pomona::link {

// What every peer costs that was ever spoken to; both double as they are needed.
static constexpr size_t kSmallest = 2 << 10;
static constexpr size_t kPlacesLeast = 8;

std::byte* Window::add_behind(Kind kind, size_t length, size_t elsewhere) {
    size_t begin = 0, whole = kHeadRoom + length;
    bool much = used_ + whole > most_ || next_ - first_ >= kAheadMost ||
                used_ + whole + elsewhere_ + elsewhere > kEarlyBytesMost;
    if (much && !empty()) return nullptr;
    while (size_ == 0 || !find_room(whole, begin))
        if (!grow(whole)) return nullptr;
    if (next_ - first_ == frames_.size()) add_places();
    take_place(kind, begin + kHeadRoom, length);
    return data_.get() + begin + kHeadRoom;
}

void Window::attach(const std::byte* data, size_t length, uint64_t ticket) {
    Kept& last = frames_[(next_ - 1) & mask_];
    last.data = data;
    last.data_length = length;
    last.ticket = ticket;
    attached_ += length;
    elsewhere_ += length;
}

void Window::add_places() {
    std::vector<Kept> larger(std::max(kPlacesLeast, 2 * frames_.size()));
    for (uint64_t number = first_; number < next_; ++number)
        larger[number & (larger.size() - 1)] = std::move(frames_[number & mask_]);
    frames_ = std::move(larger);
    mask_ = frames_.size() - 1;
}

// Where the next frame can lie in one piece, with its room.
bool Window::find_room(size_t length, size_t& begin) {
    if (empty()) {
        begin = 0;
        return length <= size_;
    }
    const Kept& oldest = frames_[first_ & mask_];
    const Kept& newest = frames_[(next_ - 1) & mask_];
    size_t head = oldest.begin - kHeadRoom;
    size_t tail = newest.begin + newest.length;
    bool wrapped = newest.begin < oldest.begin;
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
    for (uint64_t number = first_; number < next_; ++number) {
        Kept& each = frames_[number & mask_];
        end += kHeadRoom;
        if (each.length != 0)
            std::memcpy(larger.get() + end, data_.get() + each.begin, each.length);
        each.begin = end;
        end += each.length;
    }
    data_ = std::move(larger);
    size_ = size;
    grew_ |= large();
    if (frames_.empty()) add_places();
    return true;
}

void Window::drop_payload(Kept& frame) {
    attached_ -= frame.data_length;
    frame.data = nullptr;
    frame.ticket = 0;
    frame.own.reset();
}

// Its number is done with.
void Window::forget_payload(Kept& frame) {
    if (frame.data) drop_payload(frame);
    elsewhere_ -= frame.data_length;
    frame.data_length = 0;
}

void Window::clear() {
    drop_below(next());
    data_.reset();
    size_ = 0;
}

void Window::give_back() {
    data_.reset();
    size_ = 0;
    frames_ = std::vector<Kept>();
    mask_ = 0;
}

// ---- numbers

bool Received::has(uint64_t number) const {
    if (number < next_) return true;
    auto after = beyond_.upper_bound(number);
    return after != beyond_.begin() && number < std::prev(after)->second;
}

bool Received::add_beyond(uint64_t number) {
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
