// btl/base/forests_file.h: the file of forests (coll/forest.h), written by `pomona synthesize`,
// edited by people, handed to all ranks by mpirun as the parameter `forests`: those of the job's
// hosts, whose names become their numbers in the job.
#pragma once

#include "btl/base/result.h"

#include <span>
#include <string>
#include <string_view>

namespace pomona {

// In one line, ';' for each end of a line, so that numbers of lines stay, comments gone; networks
// whose hosts are not all among these are left out. "" where nothing is left.
Result<std::string> handed_forests(std::string_view file, std::span<const std::string> hosts);

// `file` with this line and the comment `why` in place of the forests for the same hosts, of the
// same collective and range. `network` are the lines before forests: "network ..." and "gigabits
// ...".
std::string with_forest(std::string_view file, std::string_view network, std::string_view forest,
                        std::string_view why);

}  // namespace pomona
