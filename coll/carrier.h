// coll/carrier.h: what a schedule needs of the world: messages by (peer, slot).
// Idea: the engine and the simulator both implement Carrier, and a Runner executes a schedule on
// either. A Carrier belongs to one execution: it knows the communicator and which of its
// collectives this is, so `slot` needs to be unique only within the schedule. Peers are ranks
// within the schedule's shape.
//
// Rules: the k-th message from a to b has slot k on both sides; messages of one (peer, slot) never
// overlap. A completion is called exactly once, either inside send()/recv() or later from the
// engine's turn, possibly nested inside another completion. Lengths of both sides are equal, with
// one exception: an empty message in place of data says that the data is lost, and its receive
// completes with Code::data_lost.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

namespace pomona::coll {

// Intrusive: embedded in whatever waits. A null error means success.
struct Completion {
    void (*function)(Completion* self, const Error* error) = nullptr;
};

class Carrier {
public:
    virtual ~Carrier() = default;

    // The bytes stay valid until the completion is called.
    virtual void send(int peer, int slot, ConstBytes data, Completion& done) = 0;
    virtual void recv(int peer, int slot, Bytes data, Completion& done) = 0;

    // Withdraws an operation that may still be under way, after an error elsewhere. Its completion
    // is called (now or later) unless it was called before. A carrier that cannot withdraw leaves
    // the operation to run to its end.
    virtual void cancel(Completion& done) { (void)done; }

    // Memory that the ranks of one node share (steps of intra-node schedules): the part that `peer`
    // owns, `bytes` long; null when there is none.
    virtual std::byte* node_memory(int peer, size_t bytes) {
        (void)peer, (void)bytes;
        return nullptr;
    }

    // For simulated time. A carrier that models it returns true, and is then told of every local
    // step; the step is over when its completion is called.
    virtual bool models_time() const { return false; }
    // `reduce`: a reduction, else a copy.
    virtual void compute(bool reduce, size_t bytes, Completion& done) {
        (void)reduce, (void)bytes;
        done.function(&done, nullptr);
    }
};

}  // namespace pomona::coll
