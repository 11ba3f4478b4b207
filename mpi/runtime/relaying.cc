// mpi/runtime/relaying.cc: see relaying.h.
#include "mpi/runtime/relaying.h"

#include "btl/link/link.h"

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

// Where a rank is reached by TCP; nothing where that is not known.
static std::vector<tcp::Place> places_of(Wireup& wireup, int rank) {
    auto published = wireup.lookup(rank, "tcp");
    if (!published.ok()) return {};
    auto all = parse_link_addresses(*published);
    if (!all || all->empty()) return {};
    // All of a process's TCP transports are reached at the same places.
    auto address = tcp::parse_address(all->front().second);
    return address ? std::move(address->places) : std::vector<tcp::Place>{};
}

Roads find_roads(Wireup& wireup) {
    const Job& job = wireup.job();
    std::vector<std::vector<tcp::Place>> places;  // by machine
    for (int rank = job.first; rank < job.size; ++rank) {
        auto node = static_cast<size_t>(job.node(rank));
        if (node >= kCandidatesMost) return {};
        if (node >= places.size()) places.resize(node + 1);
        if (places[node].empty()) places[node] = places_of(wireup, rank);
    }
    size_t machines = places.size();
    if (machines < 3) return {};
    std::vector<bool> direct(machines * machines, true);
    for (size_t a = 0; a < machines; ++a)
        for (size_t b = 0; b < machines; ++b)
            direct[a * machines + b] = a == b || places[a].empty() || places[b].empty() ||
                                       tcp::share_network(places[a], places[b]);
    return {static_cast<int>(machines), std::move(direct)};
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
        if (auto theirs = places_of(wireup, rank); !theirs.empty())
            others.push_back(std::move(theirs));
    }
    return tcp::stands_between(places, others);
}

}  // namespace pomona
