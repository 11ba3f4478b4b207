// mpi/runtime/line_report.h: what this rank has seen of the lines to other hosts, for mpirun, which
// mends by it what later jobs reckon with (pmix/link_learning.h).
// Idea: it is looked at as MPI_Finalize begins, when nobody has gone. The peers are asked for an
// answer as well, so that a round trip is known that no payload was in the way of: before the first
// of its two barriers and between them. Nobody waits for the answers; who comes last to the first
// barrier has one by the end of the second, since others can only enter that when they have heard
// of it. What was found leaves in the frame before the good-bye.
#pragma once

#include "pmix/link_learning.h"

#include <vector>

namespace pomona {

class Process;

class LineReport {
public:
    explicit LineReport(Process& process) : process_(process) {}
    // With the engine held.
    void look();
    void ask();
    void tell();
    // Something has failed.
    void forget() { lines_.clear(); }

private:
    Process& process_;
    std::vector<LineTold> lines_;
};

}  // namespace pomona
