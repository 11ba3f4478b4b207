// pmix/launch/rankfile.h: files that say for each rank its host and its cores there.
// Idea: lines of 'rank 0=host slot=0-3'; as a host also its place in the list of hosts, +n0, and #
// begins a comment. The parser takes text; nothing here reads files.
#pragma once

#include "pmix/launch/hosts.h"

#include <map>
#include <string>
#include <vector>

namespace pomona {

// What a rankfile says, by rank. The mistake in it, with its line.
std::string parse_rankfile(const std::string& text, std::map<int, std::string>& rank_hosts,
                           std::map<int, std::vector<int>>& rank_cores);

// Puts names for +n0 and the like, and adds those hosts that the list lacks. A mistake as text.
std::string name_rank_hosts(std::map<int, std::string>& rank_hosts, std::vector<HostSlots>& hosts);

}  // namespace pomona
