// pmix/launch/placement.h: which rank runs on which host.
// Idea: numbers in, numbers out; nothing here asks a host. Ranks fill hosts one after the other (by
// slot) or go around (by node). Where no host was given slots, `-n 4 --host a,b` means two on each.
#pragma once

#include "pmix/launch/options.h"

#include <map>
#include <string>
#include <vector>

namespace pomona {

// What is known of a host when ranks are placed.
struct PlaceHost {
    std::string name;
    int slots = 0;           // as said; 0: not said
    int max_slots = 0;       // never more; 0: no such limit
    bool from_file = false;  // named in a hostfile: without slots it has one for each core
    int cores = 1;           // that ranks are started on where nothing was said
    int processors = 1;      // hardware threads
    std::vector<std::string> also = {};  // its names, as they were said
};

struct PlaceWish {
    MapBy map = MapBy::slot;
    int per_node = 0;  // on each host, at most; 0: not said
    bool refuse_oversubscribe = false;
    std::map<int, std::string> rank_hosts;  // of a rankfile
};

// How many processes a program gets whose number was not said.
int default_count(const std::vector<PlaceHost>& hosts, const PlaceWish& wish);

// Slots of a host, where it was said or not.
int slots_of(const PlaceHost& host, size_t hosts);

struct Placement {
    std::vector<int> host_of;  // by rank
    std::string mistake;       // else this
};
Placement place_ranks(int count, const std::vector<PlaceHost>& hosts, const PlaceWish& wish);

// Of several programs with hosts of their own (none: all), each with so many processes.
Placement place_programs(const std::vector<int>& counts,
                         const std::vector<std::vector<HostSlots>>& own,
                         const std::vector<PlaceHost>& hosts, const PlaceWish& wish);

// Processes that are added while `used` run on each host: free slots first, host by host, then
// where the fewest run for each slot. `allowed`: the hosts that may be taken (empty: all).
Placement place_more(int count, const std::vector<PlaceHost>& hosts, std::vector<int> used,
                     const std::vector<bool>& allowed);

}  // namespace pomona
