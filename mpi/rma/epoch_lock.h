// mpi/rma/epoch_lock.h: MPI_Win_lock of one member's part of a window, in memory that all members
// share, so that the target need not be in MPI.
// Idea: each member has a word that says what it holds or wants, and since when. Whoever asks looks
// at the others' words under a lock, and has it at once, or stands in line behind those that wait
// already; then it looks by itself until nobody is before it. All that is known of a member stands
// in its own word, so when it ends that word is cleared, and nothing else. First come, first
// served, readers together, as agent.cc has it for other windows.
// Cost, of p members: to take it a compare-and-swap and a look at p words, to give it back a store
// and a look at p words.
#pragma once

#include "mpi/rma/shared_lock.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace pomona {

class EpochLock {
public:
    // Tells of a member whether it is known to have ended.
    using Ended = std::function<bool(int member)>;

    static size_t bytes(int members);
    // Over `bytes(members)` of shared memory that were zero before the first use, aligned as a
    // SharedLock is.
    EpochLock(std::byte* memory, int members);

    // True: `member` has it. False: it stands in line, and calls take_in_line() until that is true.
    bool take(int member, bool exclusive, const Ended& ended);
    bool take_in_line(int member);
    // Those that a member in line waits for: who holds it, and who asked before.
    std::vector<int> before(int member) const;
    void give(int member);
    // After give(): those in line that nobody is before any more. They may sleep.
    std::vector<int> next() const;
    // What a member that has ended holds or wants is nobody's.
    void forget(int member);

    // Of the member whose part it is: how often it has been sent a message that what it waits for
    // in this window's memory may have come; and whether it needs one, as another thread than the
    // one that waits may sleep.
    std::atomic<uint32_t>& wakes() { return head_->wakes; }
    std::atomic<uint32_t>& by_message() { return head_->by_message; }

private:
    struct Head {
        SharedLock guard;  // whoever takes a place in line
        alignas(128) std::atomic<uint32_t> wakes;
        std::atomic<uint32_t> by_message;
    };
    // The low bits of a word; above them its place in line, counted from 1.
    enum State : uint64_t { none, wants_shared, wants_exclusive, holds_shared, holds_exclusive };
    static constexpr int kStateBits = 3;
    using Word = std::atomic<uint64_t>;

    static State state(uint64_t word) { return State(word & ((1 << kStateBits) - 1)); }
    static bool waits(uint64_t word) {
        return state(word) == wants_shared || state(word) == wants_exclusive;
    }
    static bool is_before(uint64_t word, bool exclusive, uint64_t place);
    template <class Found> void for_each_before(int member, Found found) const;

    Head* head_;
    Word* words_;  // by member
    int members_;
};

}  // namespace pomona
