// mpi/tools/synthesize.h: `pomona synthesize`: a forest for a described network, which jobs there
// use.
#pragma once

#include "coll/cost.h"
#include "mpi/tools/network_file.h"

#include <cstdint>
#include <string>

namespace pomona {

struct SynthesizeOptions {
    std::string collective;
    std::string network;  // a file
    std::string size;     // "" tries several
    int root = 0;         // of a bcast
    uint64_t seed = 1;
    int tries = 1500;
    bool keep = false;  // for jobs on these hosts; else it is printed only
};

int synthesize_command(const SynthesizeOptions& options, const coll::Links& links,
                       const std::string& kept);

}  // namespace pomona
