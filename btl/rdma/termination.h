// btl/rdma/termination.h: a rank that is asked to end (SIGTERM, SIGINT, SIGHUP) takes its queue
// pairs down before it does.
// Reason: a process that ends with queue pairs up is said to hang in Apple's driver, and to leave
// its protection domain behind until the power is switched off; mpirun sends SIGTERM a second
// before SIGKILL. Who is in MPI does it at the next look at RDMA; who is not ends without after
// kEndMost. Nothing is done where the program handles or ignores a signal itself.
#pragma once

namespace pomona::rdma {

// Of all cables of this process: one is about to be made, and one is gone.
void cable_begins();
void cable_ends();
// Such a signal has come: no cable is to be made, all are to go. Whoever has none left calls
// end_if_drained().
bool asked_to_end();
// Ends the process as the signal would have, if no cable is left.
void end_if_drained();

}  // namespace pomona::rdma
