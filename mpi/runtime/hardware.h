// mpi/runtime/hardware.h: which hardware this process is bound to, by hwloc.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pomona {

// ("hwloc://Core", "true" or "false") and so on: whether the process is bound to a single one of
// each kind. Empty when hwloc cannot be opened. Takes tens of milliseconds.
std::vector<std::pair<std::string, std::string>> describe_hardware();

}  // namespace pomona
