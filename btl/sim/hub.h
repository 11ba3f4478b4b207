// btl/sim/hub.h: the simulator of a job whose ranks are processes: virtual time, the network, and
// whose turn it is.
// Idea: one rank runs at a time, drawn from the seed among those that can; when none can, virtual
// time moves to the next event. So all that ranks can see of each other is a function of the seed.
#pragma once

#include "btl/base/waiting.h"
#include "btl/sim/turns.h"
#include "btl/sim/wires.h"

#include <map>
#include <string>

namespace pomona::sim {

struct HubOptions {
    uint64_t seed = 1;
    LinkMap links;  // with the hosts of all ranks
    Faults faults;  // dead_rank: its process is killed
    std::vector<std::string> host_names;
    std::vector<double> compute;  // by host: how many times processor time counts
    bool survivors = false;       // when a rank dies the others go on
};

struct Traffic {
    uint64_t frames = 0, bytes = 0;
};

// Who is told of waits that last long.
class WaitListener {
public:
    virtual ~WaitListener() = default;
    virtual void waiting(int rank, uint32_t number, int64_t waited, Time now,
                         const Waiting& waiting) = 0;
    virtual void waited(int rank, uint32_t number, Time now) = 0;
    virtual void gone(int rank) = 0;
};

class Hub {
public:
    Hub(HubOptions options, WaitListener& listener);
    ~Hub();

    int ranks() const { return static_cast<int>(ranks_.size()); }
    // A connection of a rank, which says who it is. False: nobody that is expected.
    bool admit(int descriptor);
    bool complete() const { return admitted_ == ranks(); }

    enum class End {
        over,   // all ranks have left
        death,  // a rank has died, and nobody goes on without it
        stuck,  // nobody can go on: all wait for each other
    };
    End run();

    uint64_t hash() const { return world_.hash(); }
    uint64_t events() const { return world_.events(); }
    Time now() const { return world_.now(); }
    int dead() const { return dead_; }  // the first; -1: none
    int process_of(int rank) const { return ranks_[static_cast<size_t>(rank)].process; }
    bool over(int rank) const { return ranks_[static_cast<size_t>(rank)].state == State::over; }
    using Pair = std::pair<int, int>;
    const std::map<Pair, Traffic>& traffic() const { return traffic_; }  // from, to
    // How long a rank had nothing to do until something of another one arrived.
    const std::map<Pair, Time>& waits() const { return waits_; }

private:
    enum class State { runnable, working, testing, waiting, over };
    struct Sent {
        int to;
        Frame frame;
    };
    struct Rank {
        std::unique_ptr<Channel> channel;
        int process = -1;
        State state = State::runnable, next = State::waiting;  // next: when its work is done
        uint32_t turn = 0;
        Time since = 0;    // when it began to wait
        Time longest = 0;  // of a test
        Time free_at = 0;  // its port, by what it has sent
        bool refused = false;
        std::deque<Frame> inbox;
        std::deque<Sent> to_send;  // in this turn, later than its beginning
    };
    static uint64_t name_of(int rank, uint32_t turn) {
        return static_cast<uint64_t>(rank) << 32 | turn;
    }

    void give_turn(int rank);
    bool take_answer(int rank, Time began);
    void send(int from, int to, Frame frame);
    void work_over(int rank);
    void make_runnable(int rank);
    void arrived(int to, Frame frame);
    void died(int rank);
    bool let_time_pass();
    bool only_tests() const;
    void wake_at(Time time, int rank);

    HubOptions options_;
    WaitListener& listener_;
    World world_;
    Network network_;
    Wires wires_;
    std::vector<Rank> ranks_;
    std::vector<int> runnable_;
    int admitted_ = 0, living_ = 0, dead_ = -1, idle_rounds_ = 0;
    Time moved_at_ = 0;  // when something was sent or arrived last
    std::map<Pair, Traffic> traffic_;
    std::map<Pair, Time> waits_;
};

}  // namespace pomona::sim
