// pmix/launch/link_history.cc: see link_history.h. Plain values in and out; nothing here asks the system.
#include "pmix/launch/link_history.h"

#include "btl/base/format.h"
#include "pmix/launch/ask.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>

namespace pomona {

namespace {

using nlohmann::json;

constexpr size_t kKept = 16;  // of each pair
// Of a message of 8 bytes between machines, at most so much keeps either side busy.
constexpr double kOverheadNs = 2500, kOverheadShare = 0.25;

// "user@mac1.local" is what calls itself mac1.
std::string own_name(std::string_view host) {
    host = host.substr(host.find('@') == host.npos ? 0 : host.find('@') + 1);
    bool address =
        host.find_first_not_of("0123456789.") == host.npos || host.find(':') != host.npos;
    return std::string(address ? host : host.substr(0, host.find('.')));
}

// The latest measurement of a pair; null where there is none.
const LinkMemory* latest(const std::vector<LinkMemory>& memory, const std::string& a,
                         const std::string& b) {
    const LinkMemory* found = nullptr;
    for (const LinkMemory& each : memory) {
        size_t blank = each.hosts.find(' ');
        if (blank == each.hosts.npos || !(each.gigabits > 0) || !(each.latency_us > 0)) continue;
        std::string x = own_name(std::string_view(each.hosts).substr(0, blank));
        std::string y = own_name(std::string_view(each.hosts).substr(blank + 1));
        if ((x == a && y == b) || (x == b && y == a)) found = &each;
    }
    return found;
}

}  // namespace

std::vector<LinkMemory> read_link_memory(const std::string& text) {
    std::vector<LinkMemory> out;
    for (const std::string& line : lines_of(text)) {
        json value = json::parse(line, nullptr, false);
        if (!value.is_object()) continue;  // of a later version, or damaged: the rest serves
        try {
            out.push_back({value.at("hosts").get<std::string>(),
                           value.at("date").get<std::string>(),
                           value.at("latency_us").get<double>(), value.at("gigabits").get<double>(),
                           value.value("by", "")});
        } catch (const json::exception&) {}
    }
    return out;
}

std::string link_memory_text(const std::vector<LinkMemory>& memory) {
    std::string out;
    for (const LinkMemory& each : memory) {
        json value{{"hosts", each.hosts},
                   {"date", each.date},
                   {"latency_us", each.latency_us},
                   {"gigabits", each.gigabits},
                   {"by", each.by}};
        out += value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    }
    return out;
}

void remember(std::vector<LinkMemory>& memory, const LinkMemory& now) {
    memory.push_back(now);
    auto same = [&](const LinkMemory& each) { return each.hosts == now.hosts; };
    while (static_cast<size_t>(std::count_if(memory.begin(), memory.end(), same)) > kKept)
        memory.erase(std::find_if(memory.begin(), memory.end(), same));
}

std::optional<std::string> net_costs(const std::vector<LinkMemory>& memory,
                                     const std::vector<std::string>& hosts, std::string& missing) {
    double message_ns = 0, byte_ns = 0;
    for (size_t i = 0; i < hosts.size(); ++i)
        for (size_t j = i + 1; j < hosts.size(); ++j) {
            const LinkMemory* pair = latest(memory, own_name(hosts[i]), own_name(hosts[j]));
            if (!pair) {
                missing = hosts[i] + " and " + hosts[j];
                return {};
            }
            message_ns = std::max(message_ns, 1e3 * pair->latency_us);
            byte_ns = std::max(byte_ns, 8 / pair->gigabits);
        }
    if (!(message_ns > 0) || message_ns > 1e9 || byte_ns > 1e9) return {};
    double overhead = std::min(kOverheadNs, kOverheadShare * message_ns);
    return format("net={:.0f}:{:.0f}:{:.5f}", message_ns - 2 * overhead, overhead, byte_ns);
}

}  // namespace pomona
