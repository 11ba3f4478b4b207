// mpi/tools/trace.h: `pomona trace`: what a recorded job has spent its time on, as tables.
#pragma once

#include <string>

namespace pomona {

struct TraceOptions {
    std::string file;
    std::string heat;  // a PNG of the bytes by pair; "": none
    bool json = false;
};
int trace_command(const TraceOptions& options);

}  // namespace pomona
