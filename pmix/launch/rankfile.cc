// pmix/launch/rankfile.cc: see rankfile.h.
#include "pmix/launch/rankfile.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

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
    for (const auto& [number, words] : file_lines(text)) {
        int rank = -1;
        size_t equals = words.size() == 3 ? words[1].find('=') : std::string::npos;
        bool right = equals != std::string::npos && words[0] == "rank" &&
                     words[2].starts_with("slot=") &&
                     parse_place(words[1].substr(0, equals), rank) && rank < kRanksMax;
        std::vector<int> cores = right ? parse_cpu_list(words[2].substr(5)) : std::vector<int>();
        if (cores.empty()) {
            std::string line;
            for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
            return format("line {}: '{}' is not 'rank NUMBER=HOST slot=CORES' (0-3,8)", number,
                          line);
        }
        std::string host = without_brackets(words[1].substr(equals + 1));
        if (!host.starts_with('+') && !is_host_name(host))
            return format("line {}: '{}' is not a host name", number, host);
        if (!rank_hosts.emplace(rank, host).second)
            return format("line {}: rank {} has a place already", number, rank);
        rank_cores[rank] = std::move(cores);
    }
    if (rank_hosts.empty()) return "names no rank";
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
                return format(messages::no_such_host, name, named);
            name = hosts[static_cast<size_t>(place)].name;
        }
        // As it is said there, or as `me@name`.
        auto find = [&](auto&& said) {
            return std::find_if(hosts.begin(), hosts.end(),
                                [&](const HostSlots& each) { return said(each.name) == name; });
        };
        auto found = find([](const std::string& each) { return std::string_view(each); });
        if (found == hosts.end())
            found = find([](const std::string& each) { return without_user(each); });
        if (found != hosts.end()) name = found->name;
        else hosts.push_back({name, 0, 0, "", true});
    }
    return {};
}

}  // namespace pomona
