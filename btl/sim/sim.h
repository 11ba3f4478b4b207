// btl/sim/sim.h: the transport over the simulator: real ranks, virtual network.
// Idea: ranks are threads of one program that run one at a time. A rank that polls and finds
// nothing hands on its turn; when nobody has anything to do, virtual time moves to the next event.
// So a whole job, with its engine and matching, is a function of the seed.
//
// Without enter() (tests of the transport alone) a poll that finds nothing makes one event happen.
#pragma once

#include "btl/sim/wires.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace pomona::sim {

struct FabricOptions {
    int ranks = 2;
    std::vector<int> nodes;
    LinkCost near, far;
    Faults faults;  // dead_rank has no effect: a rank dies by leave()
    size_t eager_max = 4096;
    size_t fragment_max = 65536;
    size_t window = 64;      // frames under way from one rank to another before push says busy
    double busy_chance = 0;  // a push is refused without a reason, as full rings do
    bool pulls = false;      // ranks can read one another's memory
    double pull_failure_chance = 0;  // how often that fails, with half of it written
};

// What the transports of one job share.
class Fabric {
public:
    Fabric(uint64_t seed, FabricOptions options);
    ~Fabric();

    // Serves all peers, the rank itself included. The Fabric must outlive it.
    std::unique_ptr<Transport> make_transport(int rank);

    // Called by the rank's thread: waits until all ranks have entered and it is this one's turn.
    void enter(int rank);
    // The rank's thread is over. Dead: the others are told that it is gone.
    void leave(int rank, bool dead);
    // Nobody had anything to do although some rank waited: all were told that all peers are gone.
    bool stuck() const { return stuck_; }
    World& world() { return world_; }

private:
    friend class SimTransport;
    struct Path {  // from one rank to another
        int from, to;
        size_t unread = 0;  // in the receiver's inbox
        bool told_gone = false;
        bool given_up = false;  // by its sender, which hears nothing more from the receiver either
    };
    enum class Life { outside, running, idle, over };

    Path& path(int from, int to) { return paths_[static_cast<size_t>(from * options_.ranks + to)]; }
    Push push(Path& path, const FrameHeader& header, size_t length, ConstBytes payload,
              FillFunction fill, void* context);
    bool pull(const Path& path, uint64_t address, Bytes target);
    void give_up(Path& path);
    int poll(int rank, Sink& sink, int most);
    void arrived(int to, Frame frame);
    void wake_later(size_t rank);
    void wake(int rank);
    void pass_turn(int rank, std::unique_lock<std::mutex>& lock);
    int choose_next();

    FabricOptions options_;
    World world_;
    Network network_;
    Wires wires_;
    std::vector<Path> paths_;
    std::vector<std::deque<Frame>> inboxes_;
    std::vector<Time> retry_at_;  // when a rank with a full path looks again, by rank
    std::vector<uint8_t> acted_;  // since it looked last, it has sent or read something
    std::vector<Life> lives_;
    bool stuck_ = false;
    bool threads_ = false;
    std::mutex mutex_;  // hands the turn on; all else belongs to whoever has it
    std::condition_variable turned_;
    int turn_ = -1, entered_ = 0;
};

}  // namespace pomona::sim
