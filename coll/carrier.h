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
#include "coll/schedule.h"

namespace pomona::coll {

// Intrusive: embedded in whatever waits. A null error means success.
struct Completion {
    void (*function)(Completion* self, const Error* error) = nullptr;
};

inline constexpr size_t kPostBytes = 4096;  // the longest post

class ReducingReceive;  // coll/reducing_receive.h
struct AsideReduction;  // coll/reducer.h

class Carrier {
public:
    virtual ~Carrier() = default;

    // The bytes stay valid until the completion is called.
    virtual void send(int peer, int slot, ConstBytes data, Completion& done) = 0;
    virtual void recv(int peer, int slot, Bytes data, Completion& done) = 0;

    // Does what comes from this peer lie in memory that is lent out, so that it is better reduced
    // from there than received first? Then recv_reducing() is recv() to its landing, and reduces.
    virtual bool lends(int peer) {
        (void)peer;
        return false;
    }
    virtual void recv_reducing(int peer, int slot, size_t length, ReducingReceive& receive,
                               Completion& done) {
        (void)peer, (void)slot, (void)length, (void)receive;
        done.function(&done, &kLendsNothing);
    }

    // Calls the completion once, in the engine's next turn and after that has looked at the
    // transports: so a long computation lets messages pass between its parts. False: it cannot.
    virtual bool later(Completion& next) {
        (void)next;
        return false;
    }

    // A long reduction that another thread helps with (coll/helper.h); the completion is called
    // once in a later turn. False: it is to be done here.
    virtual bool aside(const AsideReduction& reduction, Completion& done) {
        (void)reduction, (void)done;
        return false;
    }

    // Withdraws an operation that may still be under way, after an error elsewhere. Its completion
    // is called (now or later) unless it was called before. A carrier that cannot withdraw leaves
    // the operation to run to its end.
    virtual void cancel(Completion& done) { (void)done; }

    // The board, for schedules of shapes with one. A rank posts once at most in an execution,
    // others look at it or not. post() is over when the data may change again; look() when `target`
    // has the bytes from `offset` of the peer's post. `said`: see said_of(); a post that says
    // something else ends a look with Code::truncated or data_lost, one that says 0 with data_lost.
    virtual void post(ConstBytes data, size_t said, Completion& done) {
        (void)data, (void)said;
        done.function(&done, &kNoBoard);
    }
    virtual void look(int peer, size_t offset, size_t said, Bytes target, Completion& done) {
        (void)peer, (void)offset, (void)said, (void)target;
        done.function(&done, &kNoBoard);
    }

    // Chunks, for the same schedules: any number of them a rank, numbered within the execution and
    // shown in this order. Chunk `index` has room when every rank has passed chunk index -
    // kChunksAhead. see() is over when the peer has shown its chunk; with Code::truncated when it
    // is said to be a piece of a vector of another length, with Code::data_lost when it was shown
    // as lost.
    virtual void room(int index, size_t bytes, Completion& done) {
        (void)index, (void)bytes;
        done.function(&done, &kNoBoard);
    }
    virtual void see(int peer, int index, size_t said, Completion& done) {
        (void)peer, (void)index, (void)said;
        done.function(&done, &kNoBoard);
    }
    virtual void show(int index, size_t said, bool lost) { (void)index, (void)said, (void)lost; }
    // `read`: the bytes of others' chunks that this rank has read since the pass before.
    virtual void pass(int index, size_t read) { (void)index, (void)read; }
    // Where a rank's chunk is.
    virtual std::byte* chunk(int rank, int index) {
        (void)rank, (void)index;
        return nullptr;
    }

    // For simulated time. A carrier that models it returns true, and is then told of every local
    // step; the step is over when its completion is called.
    virtual bool models_time() const { return false; }
    virtual void compute(const Step& step, Completion& done) {
        (void)step;
        done.function(&done, nullptr);
    }

private:
    static constexpr Error kNoBoard{Code::internal, "This carrier has no board", -1, 0};
    static constexpr Error kLendsNothing{Code::internal, "This carrier lends nothing", -1, 0};
};

}  // namespace pomona::coll
