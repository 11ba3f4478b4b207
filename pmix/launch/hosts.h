// pmix/launch/hosts.h: host lists, from --host and from hostfiles, in the forms in use.
// Idea: `name`, `name:4`, `name slots=4 max_slots=8 prefix=/opt/pomona user=me`; # begins a
// comment; Open MPI's other words for slots and users are taken too. A name may be an IPv6 address
// in brackets, and a user may stand before it: me@name.
// Parsers take text and return lists; nothing here resolves names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

struct HostSlots {
    std::string name;
    int slots = 0;            // 0: not said
    int max_slots = 0;        // never more ranks than that; 0: not said
    std::string prefix = {};  // where Pomona is installed there; "": not said
    bool from_file = false;   // a hostfile names it
    bool operator==(const HostSlots&) const = default;
};

// Either hosts, or what is wrong (with the line) in `mistake`.
struct HostList {
    std::vector<HostSlots> hosts;
    std::string mistake;
};

// The words of each line that has any: without comments, with "slots = 4" as "slots=4", whichever
// system's editor wrote the text.
struct FileLine {
    int number;
    std::vector<std::string> words;
};
std::vector<FileLine> file_lines(std::string_view text);

HostList parse_hostfile(std::string_view text);
HostList parse_host_option(std::string_view text);  // a:2,b,c:4; a:* is a with all its cores

// Of hosts that several options name, each once; slots of a name that is given again add up.
void add_hosts(std::vector<HostSlots>& hosts, const std::vector<HostSlots>& more);

// Whether it can be one: a name or an address, perhaps with a user before it. No shell and no
// starter takes it for anything else.
bool is_host_name(std::string_view name);

// An address in brackets without them, me@[fd00::1] too; anything else as it is.
std::string without_brackets(std::string_view name);

// A name without the user before it.
std::string_view without_user(std::string_view name);

// Whether a name means this machine: localhost, a loopback address, or its host name in full or
// up to the first dot, in capitals or not.
bool is_this_host(std::string_view name, std::string_view own_name);

}  // namespace pomona
