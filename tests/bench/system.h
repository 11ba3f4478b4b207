// system.h: what main.cc measures around MPI_Init, for the cases startup and memory.
#pragma once

namespace pomona::bench {

struct StartFacts {
    double init_us = 0;          // MPI_Init_thread of this rank
    double resident_before = 0;  // MiB, before it
    double resident_after = 0;   // MiB, after it
};

extern StartFacts g_start_facts;

}  // namespace pomona::bench
