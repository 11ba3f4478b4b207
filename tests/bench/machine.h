// machine.h: what the operating system tells about the machine and this process.
// Idea: everything in mpi-bench that differs between Linux and macOS stands behind this file:
// clock, processor name, memory in use, processor time, pinning, path of the program.
#pragma once

#include <cstddef>
#include <string>

namespace pomona::bench {

struct Machine {
    std::string cpu, system, compiler;
    int cores = 0;
    double memory_gib = 0;
};

Machine describe_machine();
double now_us();                    // monotonic; equal for all processes of one machine
void set_clock(double (*clock)());  // what now_us() asks instead, in us; null: the system
bool is_simulated();         // in Pomona's simulator (mpirun --simulate), where no real time counts
double timer_cost_ns();      // what one now_us() costs, the least of many
double resident_mib();       // memory of this process, shared pages counted whole
double proportional_mib();   // shared pages divided among their users; < 0 where unknown
double cpu_time_us();        // processor time of this process, user and system
bool pin_to_core(int core);  // false where the system offers no binding (macOS)
std::string program_path();

}  // namespace pomona::bench
