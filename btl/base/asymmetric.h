// btl/base/asymmetric.h: a fence that costs the one who rarely needs it.
// Idea: "publish, then see whether the other sleeps" against "say that I sleep, then see whether
// anything was published" needs a full fence on both sides, which costs the publisher a round trip
// to the other core's cache for every message. The system can interrupt all running threads of the
// processes that agreed to it instead (Linux membarrier, GLOBAL_EXPEDITED), so that the sleeper
// pays for both. Where it cannot (macOS, old kernels, sandboxes), the publisher fences.
#pragma once

namespace pomona {

// True when this process agreed to be interrupted and may call asymmetric_fence(). The first call
// asks the system.
bool asymmetric_fence_available();

// A full fence in this thread and in every thread of the processes that agreed. Microseconds.
void asymmetric_fence();

}  // namespace pomona
