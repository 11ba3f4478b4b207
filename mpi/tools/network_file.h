// mpi/tools/network_file.h: a cluster as a file: hosts with ranks and speeds, and what joins them.
// Idea: what `pomona links --json` prints is such a file already; people add to it, or write their
// own:
//   {"hosts": [{"host": "a", "ranks": 2, "speed": 1.5, "gigabits": 10}, ...],
//    "pairs": [{"hosts": ["a", "b"], "latency_us": 30, "gigabits": 9.4, "cable": true}, ...],
//    "together_gigabits": 20}
// docs/predict.md says what may be left out.
#pragma once

#include "btl/base/ports.h"
#include "coll/cost.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

struct NetworkHost {
    std::string name;
    int ranks = 1;
    double speed = 1;     // of its ranks' computing
    double gigabits = 0;  // of its line to the switch; 0: as its quickest pair
};
struct NetworkPair {
    int a = 0, b = 0;  // numbers of hosts
    double latency_us = 0, gigabits = 0;
    bool cable = false;  // one of their own, not by the hosts' lines
};
struct NetworkFile {
    std::vector<NetworkHost> hosts;
    std::vector<NetworkPair> pairs;  // every two hosts once
    // What all hosts send to each other at once, where that is less than their lines carry: a
    // switch, or cores that they share. 0: as much as the lines.
    double together_gigabits = 0;

    int ranks() const;
    const NetworkPair& pair(int a, int b) const;
};

// `problem` gets a sentence that names the place and the mend.
std::optional<NetworkFile> parse_network(const std::string& text, std::string& problem);
std::string network_text(const NetworkFile& network);

// The hosts of the ranks, host by host.
std::vector<int> hosts_of_ranks(const NetworkFile& network);
// `links`: what a message costs within a host, and its overhead at either end of a link.
LinkMap link_map(const NetworkFile& network, const coll::Links& links);
// What a job on these hosts is handed after `pomona tune --host`: the slowest pair as the one
// number for all, and where pairs are unlike each by itself.
coll::Links links_as_tuned(const NetworkFile& network, const LinkMap& map, coll::Links links);

// What the hosts' lines carry, all at once; cables apart.
double lines_gigabits(const LinkMap& map);

// Changes that predictions ask about; what all hosts carry together stays.
NetworkFile with_lines(NetworkFile network,
                       double times);  // each line and cable is so much quicker
NetworkFile with_rate(NetworkFile network, double gigabits);  // each line and cable has this rate
NetworkFile with_another_host(const NetworkFile& network);    // like the last one
NetworkFile without_a_host(const NetworkFile& network);       // the slowest, of these the last

}  // namespace pomona
