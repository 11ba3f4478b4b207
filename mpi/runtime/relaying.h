// mpi/runtime/relaying.h: which processes may stand between two others that have no path of their
// own (btl/link/relays.h), and whether this one probably does.
#pragma once

#include "btl/tcp/pairs.h"
#include "pmix/wireup/wireup.h"

#include <vector>

namespace pomona {

// One process of each host, since all of a host share its cables: the lowest rank. Where all are on
// one machine, each may have a network of its own (network namespaces): any of them.
std::vector<int> relay_candidates(const Job& job);

// Does this process, at these addresses, join others that share no network? It must then look after
// its links while its program computes. After the fence that published the addresses.
bool probably_relays(Wireup& wireup, const std::vector<tcp::Place>& places);

}  // namespace pomona
