// mpi/runtime/first_connections.cc: see first_connections.h.
#include "mpi/runtime/first_connections.h"

#include "btl/link/link.h"
#include "mpi/runtime/process.h"
#include "mpi/runtime/transport_named.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace pomona {

namespace {

constexpr Nanoseconds kPatience = 1'000'000'000;
// Both would dial and one connection of each two be in vain, so one of them comes first. A firewall
// may let only the other one through.
constexpr Nanoseconds kOthersTurn = 100'000'000;

// Of all pairs each rank has about half.
bool dials_first(int rank, int peer) { return ((rank + peer) % 2 != 0) == (rank < peer); }

std::vector<int> peers_by_links(const Process& process) {
    const Job& job = process.job();
    bool shares_memory = transport_named(process.transports, "shm") != nullptr;
    std::vector<int> out;
    for (int rank = job.first; rank < job.size; ++rank) {
        bool near = shares_memory && job.node(rank) == job.node(job.rank);
        if (rank != job.rank && !near) out.push_back(rank);
    }
    return out;
}

void dial(Process& process, Transport& links, const std::vector<int>& peers) {
    for (int peer : peers) {
        auto address = process.wireup->lookup(peer, "tcp");
        if (address.ok()) reach(links, peer, *address);
    }
}

}  // namespace

void connect_to_all(Process& process) {
    Transport* links = transport_named(process.transports, "link");
    const Job& job = process.job();
    if (!links || static_cast<uint64_t>(job.world_size()) > process.params.connect_at_start) return;
    std::vector<int> missing = peers_by_links(process), mine;
    for (int peer : missing)
        if (dials_first(job.rank, peer)) mine.push_back(peer);
    dial(process, *links, mine);
    Nanoseconds begin = process.clock.now();
    bool dialled_all = false;
    process.engine.wait_until([&] {
        std::erase_if(missing, [&](int peer) { return is_reached(*links, peer); });
        Nanoseconds passed = process.clock.now() - begin;
        if (passed > kOthersTurn && !std::exchange(dialled_all, true))
            dial(process, *links, missing);
        return missing.empty() || passed > kPatience;
    });
}

}  // namespace pomona
