// mpi/tools/top.h: `pomona top`: the ranks of a running job, and whom they wait for, again and
// again.
// Idea: mpirun knows who waits for whom (pmix/launch/table.h) and writes it when it is asked
// (pmix/job_directory.h); of processes on this host the system tells how busy and how large they
// are.
#pragma once

#include <string>

namespace pomona {

struct TopOptions {
    int job = 0;          // the process of mpirun; 0: the only one
    double interval = 1;  // seconds
    bool once = false;    // print it and end
    bool json = false;    // as JSON, once
};
// The exit code.
int top(const TopOptions& options);

}  // namespace pomona
