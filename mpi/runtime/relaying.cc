// mpi/runtime/relaying.cc: see relaying.h.
#include "mpi/runtime/relaying.h"

#include "mpi/runtime/machine_links.h"

#include <algorithm>
#include <set>

namespace pomona {

static constexpr size_t kCandidatesMost = 64;

std::vector<int> relay_candidates(const Job& job) {
    std::vector<int> out;
    std::set<int> nodes;
    bool one_node = job.local_size == job.world_size();
    for (int rank = job.first; rank < job.size && out.size() < kCandidatesMost; ++rank)
        if (one_node || nodes.insert(job.node(rank)).second) out.push_back(rank);
    return out;
}

bool probably_relays(Wireup& wireup, const std::vector<tcp::Place>& places) {
    auto candidates = relay_candidates(wireup.job());
    int self = wireup.job().rank;
    if (candidates.size() < 3 ||
        std::find(candidates.begin(), candidates.end(), self) == candidates.end())
        return false;
    std::vector<std::vector<tcp::Place>> others;
    for (int rank : candidates) {
        if (rank == self) continue;
        if (auto theirs = published_places(wireup, rank); !theirs.empty())
            others.push_back(std::move(theirs));
    }
    return tcp::stands_between(places, others);
}

}  // namespace pomona
