// mpi/rma/epoch_lock.cc: see epoch_lock.h.
#include "mpi/rma/epoch_lock.h"

#include <algorithm>
#include <limits>

namespace pomona {

size_t EpochLock::bytes(int members) {
    size_t all = sizeof(Head) + sizeof(Word) * static_cast<size_t>(members);
    return (all + alignof(Head) - 1) / alignof(Head) * alignof(Head);
}

EpochLock::EpochLock(std::byte* memory, int members)
    : head_(reinterpret_cast<Head*>(memory)),
      words_(reinterpret_cast<Word*>(memory + sizeof(Head))), members_(members) {}

// Whether somebody with this word is before one who stands at `place`.
bool EpochLock::is_before(uint64_t word, bool exclusive, uint64_t place) {
    switch (state(word)) {
    case none: return false;
    case holds_shared: return exclusive;
    case holds_exclusive: return true;
    case wants_shared: return exclusive && word >> kStateBits < place;
    case wants_exclusive: return word >> kStateBits < place;
    }
    return false;
}

bool EpochLock::take(int member, bool exclusive, const Ended& ended) {
    if (!head_->guard.take_at_once(member)) head_->guard.take(member, ended);
    uint64_t last = 0;
    bool free = true;
    for (int each = 0; each < members_; ++each) {
        // Acquire: pairs with give(), whose stores are seen.
        uint64_t word = words_[each].load(std::memory_order_acquire);
        if (word == none || each == member) continue;
        if (waits(word)) last = std::max(last, word >> kStateBits);
        free = free && !is_before(word, exclusive, std::numeric_limits<uint64_t>::max());
    }
    uint64_t word = free ? (exclusive ? holds_exclusive : holds_shared)
                         : (exclusive ? wants_exclusive : wants_shared) | (last + 1) << kStateBits;
    words_[member].store(word, std::memory_order_relaxed);  // published by the guard
    head_->guard.give();
    // Either give() of another member finds this one in line, or this one finds that it has given.
    if (!free) std::atomic_thread_fence(std::memory_order_seq_cst);
    return free;
}

template <class Found> void EpochLock::for_each_before(int member, Found found) const {
    uint64_t own = words_[member].load(std::memory_order_relaxed);
    if (!waits(own)) return;
    for (int each = 0; each < members_; ++each) {
        uint64_t word = words_[each].load(std::memory_order_acquire);
        if (each != member && is_before(word, state(own) == wants_exclusive, own >> kStateBits) &&
            !found(each))
            return;
    }
}

// Without the guard: whoever comes meanwhile finds this one in line, or holding it, which is alike.
bool EpochLock::take_in_line(int member) {
    bool free = true;
    for_each_before(member, [&](int) { return free = false; });
    if (!free) return false;
    uint64_t own = words_[member].load(std::memory_order_relaxed);
    if (waits(own))
        words_[member].store(state(own) == wants_exclusive ? holds_exclusive : holds_shared,
                             std::memory_order_release);
    return true;
}

std::vector<int> EpochLock::before(int member) const {
    std::vector<int> found;
    for_each_before(member, [&](int each) {
        found.push_back(each);
        return true;
    });
    return found;
}

void EpochLock::give(int member) {
    words_[member].store(none, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see take()
}

std::vector<int> EpochLock::next() const {
    std::vector<int> found;
    for (int each = 0; each < members_; ++each) {
        if (!waits(words_[each].load(std::memory_order_relaxed))) continue;
        bool first = true;
        for_each_before(each, [&](int) { return first = false; });
        if (first) found.push_back(each);
    }
    return found;
}

void EpochLock::forget(int member) { words_[member].store(none, std::memory_order_release); }

}  // namespace pomona
