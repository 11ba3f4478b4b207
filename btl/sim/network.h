// btl/sim/network.h: how long messages take among simulated ranks, and what goes wrong.
// Idea: the ports and lines of btl/base/ports.h in a World's time. Faults change times; death cuts
// a rank off.
#pragma once

#include "btl/base/ports.h"
#include "btl/sim/world.h"

#include <cstddef>
#include <utility>

namespace pomona::sim {

using pomona::LinkCost;

struct Faults {
    double jitter_ns = 0;       // each message is late by up to this; so messages overtake others
    double reorder_chance = 0;  // a message is late by up to 20 latencies more
    int slow_rank = -1;         // its ports and its processor take slow_factor times as long
    double slow_factor = 10;
    int clogged_from = -1, clogged_to = -1;  // a path that holds all messages until clogged_until
    Time clogged_until = 0;
    int partition_below = 0;  // ranks below and the others do not hear each other until ...
    Time partition_until = 0;
    int dead_rank = -1;  // falls silent at dead_at
    Time dead_at = 0;
};

class Network {
public:
    Network(World& world, int ranks, LinkMap links, Faults faults)
        : world_(world), faults_(faults), ports_(ranks, std::move(links)) {}

    struct Departure {
        Time sent;  // the sender's port is free again, its buffer was read
        Time head;  // the first byte reaches the receiver's port
    };
    // What a message waits for its question's answer before it departs; 0: it does not ask.
    Time answer(int from, int to, size_t bytes) {
        return ports_.answer_ns(world_.now(), from, to, bytes);
    }
    // Where ranks share lines a message departs when its rank's port is free: btl/base/ports.h.
    bool must_wait(int from) const {
        return ports_.lines_shared() && ports_.out_free(from) > world_.now();
    }
    Time port_free(int from) const { return ports_.out_free(from); }
    void wait(int from, int to, size_t bytes) { ports_.wait(from, to, bytes); }
    void wait_no_more(int from, int to, size_t bytes) { ports_.wait_no_more(from, to, bytes); }
    Departure depart(int from, int to, size_t bytes);
    // Called at `head`; when the message is wholly there and taken in by the receiver.
    Time arrive(int from, int to, size_t bytes);
    // Local work: when it is over, if the rank's processor begins it as soon as it is free.
    Time compute(int rank, double work_ns);

    bool dead(int rank) const {
        return rank == faults_.dead_rank && world_.now() >= faults_.dead_at;
    }
    const Faults& faults() const { return faults_; }

private:
    double slowness(int rank) const { return rank == faults_.slow_rank ? faults_.slow_factor : 1; }

    World& world_;
    Faults faults_;
    Ports ports_;
};

}  // namespace pomona::sim
