// btl/sim/remote.h: a rank that is a process of its own, in a simulated job.
// Idea: the network, the time and whose turn it is are the simulator's (hub.h). A rank runs until
// it looks for something that is not there, and then waits for its next turn: a look by a test
// costs a little virtual time, arm(), which only waiting ranks call, lasts until something arrives.
#pragma once

#include "btl/sim/turns.h"

#include <deque>
#include <memory>

namespace pomona::sim {

class Remote {
public:
    explicit Remote(std::string socket) : socket_(std::move(socket)), clock_(*this) {}

    // Returns when all ranks have come and it is this one's turn. Once in a process.
    Status enter(int rank);
    const Beginning& beginning() const { return beginning_; }
    std::unique_ptr<Transport> make_transport();  // the rank leaves with its end

    // Virtual. Stands still in a turn, but for processor time where that counts.
    Clock& clock() { return clock_; }
    // The rank has looked at the clock: a loop that does so must come to its end.
    void spend(Nanoseconds time) { spent_ += time; }

    // A wait that lasts long, as described in `waiting`; and its end.
    void tell_waiting(uint32_t number, int64_t waited, ConstBytes waiting);
    void tell_waited(uint32_t number);

private:
    friend class RemoteTransport;
    class VirtualClock final : public Clock {
    public:
        explicit VirtualClock(Remote& remote) : remote_(remote) {}
        Nanoseconds now() override { return remote_.began_ + remote_.turn_ns(); }

    private:
        Remote& remote_;
    };
    struct Arrived {
        int from;
        FrameHeader header;
        std::vector<std::byte> payload;
        bool gone = false;
    };

    Nanoseconds turn_ns() const;
    void hand_over(Word why, Nanoseconds longest);
    Status take_turn();

    std::string socket_;
    VirtualClock clock_;
    std::unique_ptr<Channel> channel_;  // null: before enter(), and when the rank has left
    bool entered_ = false;
    Beginning beginning_;
    Nanoseconds began_ = 0, spent_ = 0;  // this turn; what was spent in it
    Nanoseconds processor_began_ = 0;    // processor time then
    size_t pushed_ = 0;                  // bytes in this turn
    bool refused_ = false;               // a push in this turn
    std::deque<Arrived> inbox_;
};

}  // namespace pomona::sim
