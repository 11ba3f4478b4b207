// pmix/launch/rankfile.cc: see rankfile.h.
#include "pmix/launch/rankfile.h"

#include "btl/base/format.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/options.h"
#include "pmix/launch/options_table.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace pomona {

namespace {
bool parse_place(std::string_view text, int& place) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), place);
    return error == std::errc() && end == text.data() + text.size() && place >= 0 &&
           place <= kRanksMax;
}
}  // namespace

std::string parse_rankfile(const std::string& text, std::map<int, std::string>& rank_hosts,
                           std::map<int, std::vector<int>>& rank_cores) {
    std::stringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        std::vector<std::string> words = words_of(line.substr(0, line.find('#')));
        if (words.empty()) continue;
        int rank = -1;
        size_t equals = words.size() == 3 ? words[1].find('=') : std::string::npos;
        bool right = equals != std::string::npos && words[0] == "rank" &&
                     words[2].starts_with("slot=") && parse_place(words[1].substr(0, equals), rank);
        std::vector<int> cores = right ? parse_cpu_list(words[2].substr(5)) : std::vector<int>();
        if (cores.empty())
            return format("line {}: '{}' is not 'rank NUMBER=HOST slot=CORES' (0-3,8)", number,
                          line);
        std::string host = words[1].substr(equals + 1);
        if (!host.starts_with('+') && !is_host_name(host))
            return format("line {}: '{}' is not a host name", number, host);
        rank_hosts[rank] = host;
        rank_cores[rank] = std::move(cores);
    }
    return {};
}

std::string name_rank_hosts(std::map<int, std::string>& rank_hosts, std::vector<HostSlots>& hosts) {
    const size_t named = hosts.size();
    for (auto& [rank, name] : rank_hosts) {
        if (name.starts_with('+')) {
            int place = -1;
            bool right = (name.starts_with("+n") || name.starts_with("+N")) &&
                         parse_place(std::string_view(name).substr(2), place);
            if (!right || static_cast<size_t>(place) >= named)
                return format(
                    "the rankfile names host {}, and there are {}: +n0 is the first of --host or "
                    "--hostfile",
                    name, named);
            name = hosts[static_cast<size_t>(place)].name;
        }
        auto is_it = [&host = name](const HostSlots& each) { return each.name == host; };
        if (std::none_of(hosts.begin(), hosts.end(), is_it))
            hosts.push_back({name, 0, 0, "", true});
    }
    return {};
}

}  // namespace pomona
