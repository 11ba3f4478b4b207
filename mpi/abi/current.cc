// mpi/abi/current.cc: where the process pointer lives and how the first one is made.
#include "mpi/abi/current.h"

#include "mpi/abi/handle.h"
#include "mpi/check/checker.h"

#include <cstdlib>

#if defined(__APPLE__)
#include <crt_externs.h>
char** pomona::environment() { return *_NSGetEnviron(); }
#else
extern char** environ;
char** pomona::environment() { return environ; }
#endif

namespace pomona {

namespace {
Process* new_process() {
    auto* made = new Process(environment());
    if (made->checker) look_up_all_handles();
    return made;
}
}  // namespace

#if defined(POMONA_RANKS_AS_THREADS)
constinit thread_local Process* current_process = nullptr;
Process& make_process() {
    objects_shared.store(true, std::memory_order_relaxed);  // predefined ones, by all ranks
    current_process = new_process();
    return *current_process;
}
#else
Process* current_process = nullptr;
// Lives until the process ends: MPI may be asked things after MPI_Finalize, from anywhere.
Process& make_process() {
    static Process* made = current_process = new_process();
    return *made;
}
#endif

}  // namespace pomona
