// mpi/abi/current.h: the one global pointer: which process the calling thread is a rank of.
// In the library it is a plain global. In tests that run ranks as threads (POMONA_RANKS_AS_THREADS)
// it is per thread; threads that such a rank starts must set it for themselves.
#pragma once

#include "mpi/runtime/process.h"

namespace pomona {

#if defined(POMONA_RANKS_AS_THREADS)
// constinit: read without the compiler's check for initialisers of other files.
extern constinit thread_local Process* current_process;
#else
extern Process* current_process;
#endif

char** environment();  // NAME=VALUE, ended by a null pointer

// The calling rank; made at the first call. Never null.
Process& make_process();
inline Process& process() {
    Process* known = current_process;
    return __builtin_expect(known != nullptr, 1) ? *known : make_process();
}

}  // namespace pomona
