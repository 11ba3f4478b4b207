// btl/rdma/termination.h: a process that is asked to end (SIGTERM, SIGINT, SIGHUP), ends its job
// (MPI_Abort), or exits without MPI_Finalize, gives back what it has of RDMA devices before.
// Reason: a process that ends with queue pairs up is said to hang in Apple's driver, and to leave
// its protection domain behind until the power is switched off; mpirun sends SIGTERM a second
// before SIGKILL.
// Idea: who is in MPI does it when it next looks at RDMA. After 0.4 s a thread of its own does
// it for whoever computes: the program's thread stands still in the signal's handler meanwhile.
// Nothing is done where the program handles or ignores a signal itself.
#pragma once

#include <atomic>

namespace pomona::rdma {

// What has something of a device.
class Holder {
public:
    // From another thread than its own, which does not go on: only calls of the verbs library.
    virtual void give_back() = 0;

protected:
    Holder() = default;
    ~Holder() = default;
    Holder(const Holder&) = default;
    Holder& operator=(const Holder&) = default;
};

// From when it has something until it has nothing more. What was held last is given back first.
void holds(Holder& holder);
// False: it has been given back already, by another thread.
bool holds_nothing(Holder& holder);

// Such a signal has come: no cable is to be made, all are to go. Whoever has nothing left calls
// end_if_drained().
bool asked_to_end();
// Ends the process as the signal would have, if nothing is held any more.
void end_if_drained();
// The process ends now, by its own wish: gives all back, in half a second at the most.
void give_all_back();

// All is being given back, or was: the verbs library is not called any more but for that.
extern std::atomic<bool> all_goes;
inline bool is_given_back() { return all_goes.load(std::memory_order_relaxed); }

}  // namespace pomona::rdma
