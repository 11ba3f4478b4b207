// coll/reducing_receive.cc: see reducing_receive.h.
#include "coll/reducing_receive.h"

#include <algorithm>
#include <cstring>

namespace pomona::coll {

void ReducingReceive::reduce(const std::byte* arrived, size_t offset, size_t count) {
    const std::byte* other = is_.other + offset;
    const Reducer& with = *is_.reducer;
    if (is_.arrives_left) with.to(&with, is_.target + offset, arrived, other, count);
    else with.to(&with, is_.target + offset, other, arrived, count);
}

void ReducingReceive::keep(size_t offset, ConstBytes part) {
    if (part.empty()) return;
    std::memcpy(is_.landing + offset, part.data(), part.size());
    cut_.push_back(offset / is_.element * is_.element);
}

void ReducingReceive::take(size_t offset, ConstBytes piece) {
    size_t head = std::min(piece.size(), (is_.element - offset % is_.element) % is_.element);
    size_t count = (piece.size() - head) / is_.element, whole = count * is_.element;
    keep(offset, piece.first(head));
    if (count != 0) reduce(piece.data() + head, offset + head, count);
    keep(offset + head + whole, piece.subspan(head + whole));
}

void ReducingReceive::finish() {
    std::sort(cut_.begin(), cut_.end());
    cut_.erase(std::unique(cut_.begin(), cut_.end()), cut_.end());
    for (size_t offset : cut_) reduce(is_.landing + offset, offset, 1);
    cut_.clear();
}

}  // namespace pomona::coll
