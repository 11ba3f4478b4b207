// mpi/p2p/request.h: the state of one operation, from its start to the user's wait or test.
// Idea: `done` is the one word a waiter looks at; everything else is written before it is set.
// Kinds of requests are classes; what wait, test, start, cancel and free need is virtual.
#pragma once

#include "mpi/include/mpi.h"
#include "mpi/include/mpix.h"
#include "mpi/object/object.h"

#include <string>

namespace pomona {

class Communicator;
class Engine;
struct Waiting;  // btl/base/waiting.h

// What MPI_Status tells, in the engine's own terms.
struct Outcome {
    int source = MPI_ANY_SOURCE;
    int tag = MPI_ANY_TAG;
    int error = MPI_SUCCESS;  // an error class
    bool cancelled = false;
    MPI_Count bytes = 0;
    const char* reason = nullptr;  // a sentence for the error, static storage
};
// "peer 1, tag 3"; "" for what has neither, such as a collective operation's request.
std::string whom_text(const Outcome& outcome);
// What went wrong, and with whom: of an operation on `comm` that has failed.
std::string end_text(const Communicator& comm, const Outcome& outcome);

class Request : public Object {
public:
    explicit Request(Communicator* comm) : Object(Kind::request), comm_(comm) {}

    // Acquire: a thread that sees `done` also sees the outcome and the data; pairs with complete().
    // Waiting ends also for a stalled one, which is not complete: see stalled().
    bool done() const { return done_.load(std::memory_order_acquire); }
    bool complete() const { return done_.load(std::memory_order_acquire) == kComplete; }
    // A receive of any source, in whose communicator a process has failed: its end is reported as
    // MPIX_ERR_PROC_FAILED_PENDING, and it goes on when the failure is acknowledged or a message
    // comes.
    bool stalled() const { return done_.load(std::memory_order_acquire) == kStalled; }
    // An inactive persistent request, or one whose end has been reported.
    bool inactive() const { return inactive_; }
    bool persistent() const { return persistent_; }
    // Ending it for the user is telling the outcome, and no more.
    bool plain() const { return plain_; }
    const Outcome& outcome() const { return outcome_; }
    Communicator* comm() const { return comm_; }

    // Starts a persistent request, asks for cancellation: called with the engine held, unless the
    // request takes it itself or calls a user's function. start() returns an MPI error class.
    virtual bool calls_user() const { return false; }
    virtual int start() { return MPI_ERR_REQUEST; }
    virtual void cancel() {}
    // Called by the thread that reports the end to the user, without the engine: fills the status
    // (all but MPI_ERROR; it may be MPI_STATUS_IGNORE). Returns an MPI error class.
    virtual int finish(MPI_Status* status);
    // MPI_Request_free: the user gives the handle up; the operation itself goes on.
    virtual void give_up() { release(); }
    // For compound requests: one of the parts is complete; with the engine held.
    virtual void part_done(Engine&, Request&) {}

    // For reports of waits that last long: the function that made it, and whom it waits for. With
    // the engine held.
    virtual void describe(Waiting& out) const;

    void set_inactive(bool inactive) { inactive_ = inactive; }

    // Called once when the request completes (MPIX_Request_on_completion), by the engine's
    // completer, outside the lock.
    MPIX_Completion_function* callback_function = nullptr;
    void* callback_context = nullptr;

protected:
    friend class Engine;
    // recycle(), when the engine is held already.
    virtual void recycle_held() { delete this; }
    // Back to the state of a new one, for pools.
    void reset() {
        references_.store(1, std::memory_order_relaxed);  // nobody else refers to it
        done_.store(0, std::memory_order_relaxed);
        fortran_index = 0;
        callback_function = nullptr;
        callback_context = nullptr;
        engine_refers_ = persistent_ = inactive_ = false;
        outcome_ = {};
    }

    static constexpr uint32_t kComplete = 1, kStalled = 2;
    std::atomic<uint32_t> done_{0};
    bool plain_ = false;
    bool engine_refers_ = false;  // the engine has a reference until completion
    bool persistent_ = false;
    bool inactive_ = false;
    bool unsettled_ = false;  // see Engine::settle()
    Outcome outcome_;
    Communicator* comm_;
};

}  // namespace pomona
