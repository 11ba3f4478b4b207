// mpi/trace/completion.h: calls that complete what others have begun, and calls in vain.
#pragma once

#include "mpi/trace/recorder.h"

#define POMONA_TRACED extern "C" __attribute__((visibility("default")))

namespace pomona::trace {

// Ends a test that has said no. Such calls, one soon after the other, are one record.
void end_in_vain(Call& call);

}  // namespace pomona::trace
