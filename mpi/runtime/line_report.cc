// mpi/runtime/line_report.cc: see line_report.h.
#include "mpi/runtime/line_report.h"

#include "btl/link/link.h"
#include "mpi/runtime/policy.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstddef>

namespace pomona {

namespace {

// Of all ranks together mpirun gets about so many times, and of each a few at least.
constexpr size_t kTimesOfAll = 64 << 10, kTimesLeast = 32, kTimesMost = 512;

Nanoseconds expected_between(const coll::Links& links, int a, int b) {
    coll::Link link = links.net;
    for (const coll::PairLink& pair : links.pairs)
        if (pair.a == std::min(a, b) && pair.b == std::max(a, b)) link = pair.link;
    return static_cast<Nanoseconds>(std::clamp(link.message_ns(), 0.0, 1e12));
}

}  // namespace

// Each begins with another peer: where not all of it can be told, others tell the rest.
void LineReport::look() {
    const Job& job = process_.job();
    bool wanted = process_.params.learn_links && job.origin == Origin::mpirun && job.hosts > 1 &&
                  !job.oversubscribed && !process_.simulated;
    if (!wanted || process_.engine.any_failed()) return;
    int known = process_.engine.known_peers(), own = job.node(job.rank);
    size_t room = std::clamp(kTimesOfAll / static_cast<size_t>(known), kTimesLeast, kTimesMost);
    for (int step = 1; step < known && room > 0; ++step) {
        int peer = (job.rank + step) % known;
        Endpoint* endpoint = process_.engine.peer(peer).endpoint;
        if (!endpoint || job.node(peer) == own) continue;
        LinkSeen seen = seen_of(*endpoint);
        if (seen.times.empty()) continue;
        if (seen.times.size() > room)
            seen.times.erase(seen.times.begin(), seen.times.end() - static_cast<ptrdiff_t>(room));
        room -= seen.times.size();
        LineTold& line = lines_.emplace_back();
        line.peer = peer;
        line.expected = expected_between(process_.policy->links, own, job.node(peer));
        line.by = std::move(seen.by);
        line.times = std::move(seen.times);
    }
    ask();
}

void LineReport::ask() {
    for (const LineTold& line : lines_)
        if (Endpoint* endpoint = process_.engine.peer(line.peer).endpoint)
            ask_for_round_trip(*endpoint);
}

void LineReport::tell() {
    if (lines_.empty()) return;
    for (LineTold& line : lines_) {
        Endpoint* endpoint = process_.engine.peer(line.peer).endpoint;
        if (endpoint) line.round_trip = shortest_round_trip(*endpoint);
    }
    Writer words;
    write_lines(words, lines_);
    process_.wireup->tell_lines(words.bytes());
    forget();
}

}  // namespace pomona
