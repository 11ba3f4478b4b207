// btl/send_offer.h: a word in shared memory by which the two ends of a message that is not read yet
// agree, without waiting for each other, on whether it is received or taken back.
// Idea: the sender writes the message's number with `open`. The receiver takes it for as long as it
// reads, and says so when it has read all; the sender can take it back while it is open. Who comes
// second sees it.
#pragma once

#include <atomic>
#include <cstdint>

namespace pomona {

class SendOffer {
public:
    enum class State : uint32_t { open, reading, received, withdrawn };

    // `generation`: tells the messages apart that use the word one after the other.
    explicit SendOffer(std::atomic<uint64_t>& word, uint32_t generation)
        : word_(word), generation_(generation) {}

    // By the sender, before the receiver can know of the message: that is told by a frame, which
    // publishes this too.
    void make() { word_.store(with(State::open), std::memory_order_relaxed); }
    // By the receiver: it may read now. False: it was taken back.
    bool take() { return change(State::open, State::reading); }
    // The same of what it has already.
    bool receive() { return change(State::open, State::received); }
    // By the receiver that has taken it. Release: it reads no more, or has what it needs.
    void leave(State state) { word_.store(with(state), std::memory_order_release); }
    // By the sender: where it is afterwards; `withdrawn` when the receiver will get nothing.
    State withdraw() {
        if (change(State::open, State::withdrawn)) return State::withdrawn;
        return static_cast<State>(word_.load(std::memory_order_acquire) & 3);
    }

private:
    uint64_t with(State state) const {
        return uint64_t{generation_} << 2 | static_cast<uint64_t>(state);
    }
    // Acquire and release: what each end does with the memory stays on its side of the change.
    bool change(State from, State to) {
        uint64_t expected = with(from);
        return word_.compare_exchange_strong(expected, with(to), std::memory_order_acq_rel);
    }

    std::atomic<uint64_t>& word_;
    uint32_t generation_;
};

inline constexpr uint32_t kOffers = 512;  // words of a process: of its messages under way

}  // namespace pomona
