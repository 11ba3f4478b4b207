// btl/tcp/not_inherited.h: descriptors that a forked child does not keep.
// Idea: a child that executes no program (a worker of a data loader) would go on with all sockets
// that its parent had open. When the parent dies, its system would then go on to take connections
// and to acknowledge what is sent, and nobody could tell that the rank is gone. Close-on-exec does
// not help, and Linux knows no close-on-fork: so the child closes them itself, before anything else
// (pthread_atfork).
#pragma once

namespace pomona::tcp {

// Until it is closed by the function below, whose caller it belongs to.
void do_not_inherit(int descriptor);
// close(2); nothing in a child that has closed it, where the number may be another file's now.
void close_not_inherited(int descriptor);

}  // namespace pomona::tcp
