// pmix/launch/hosts.h: host lists, from --host and from hostfiles, in the forms in use.
// Idea: `name`, `name:4`, `name slots=4 max_slots=8`; # begins a comment. A name may be an IPv6
// address in brackets. Parsers take text and return lists; nothing here resolves names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

struct HostSlots {
    std::string name;
    int slots = 0;  // 0: not said
    bool operator==(const HostSlots&) const = default;
};

// Either hosts, or what is wrong (with the line) in `mistake`.
struct HostList {
    std::vector<HostSlots> hosts;
    std::string mistake;
};

HostList parse_hostfile(std::string_view text);
HostList parse_host_option(std::string_view text);  // a:2,b,c:4

// Whether a name means this machine: localhost, a loopback address, or its host name in full or
// up to the first dot.
bool is_this_host(std::string_view name, std::string_view own_name);

}  // namespace pomona
