// mpi/tools/network_file.cc: reading, writing and changing descriptions of clusters.
#include "mpi/tools/network_file.h"

#include "btl/base/asking.h"
#include "btl/base/format.h"
#include "mpi/tools/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace pomona {

namespace {

using nlohmann::json;
constexpr size_t kHostsMost = 1024;

// No link, latency or speed is less, and what is reckoned with it stays a number.
constexpr double kNumberLeast = 1e-6;

constexpr std::string_view kNetworkKeys[] = {"hosts", "pairs", "together_gigabits"};
constexpr std::string_view kHostKeys[] = {"host", "ranks", "speed", "gigabits"};
constexpr std::string_view kPairKeys[] = {"hosts", "latency_us", "gigabits", "cable"};

bool read_keys(const json& value, std::span<const std::string_view> known, const std::string& where,
               std::string& problem) {
    std::string mistake = mistaken_key(value, known);
    if (!mistake.empty()) problem = format("{}: {}", where, mistake);
    return mistake.empty();
}

// A number above 0 of `value[key]`, or `standard` where there is none.
bool read_number(const json& value, const char* key, double standard, double& out,
                 std::string& problem, const std::string& where) {
    out = standard;
    if (!value.contains(key)) return true;
    const json& each = value.at(key);
    if (each.is_number()) out = each.get<double>();
    if (each.is_number() && std::isfinite(out) && out >= kNumberLeast && out <= 1e9) return true;
    problem =
        format("{}: \"{}\" is a number above 0 (1e-6 to 1e9), not {}", where, key, each.dump());
    return false;
}

bool read_host(const json& value, NetworkFile& out, std::string& problem) {
    std::string where = format("hosts[{}]", out.hosts.size());
    NetworkHost host;
    if (!value.is_object() || !value.contains("host") || !value.at("host").is_string()) {
        problem = where + " has no name; write {\"host\": \"a\"}";
        return false;
    }
    host.name = value.at("host").get<std::string>();
    for (const NetworkHost& each : out.hosts)
        if (each.name == host.name) {
            problem = format("{}: the name {} stands twice", where, host.name);
            return false;
        }
    double ranks = 1;
    if (!read_keys(value, kHostKeys, where, problem)) return false;
    if (!read_number(value, "ranks", 1, ranks, problem, where) ||
        !read_number(value, "speed", 1, host.speed, problem, where) ||
        !read_number(value, "gigabits", 0, host.gigabits, problem, where))
        return false;
    if (ranks != std::floor(ranks) || ranks > 4096) {
        problem = format("{}: \"ranks\" is a whole number up to 4096", where);
        return false;
    }
    host.ranks = static_cast<int>(ranks);
    out.hosts.push_back(host);
    return true;
}

using HostNumbers = std::map<std::string, int>;

int host_number(const HostNumbers& numbers, const json& name) {
    if (!name.is_string()) return -1;
    auto found = numbers.find(name.get<std::string>());
    return found == numbers.end() ? -1 : found->second;
}

bool read_pair(const json& value, size_t number, const HostNumbers& numbers,
               std::set<std::pair<int, int>>& known, NetworkFile& out, std::string& problem) {
    std::string where = format("pairs[{}]", number);
    NetworkPair pair;
    bool two = value.is_object() && value.contains("hosts") && value.at("hosts").is_array() &&
               value.at("hosts").size() == 2;
    if (two) {
        pair.a = host_number(numbers, value.at("hosts").at(0));
        pair.b = host_number(numbers, value.at("hosts").at(1));
    }
    if (!two || pair.a < 0 || pair.b < 0 || pair.a == pair.b) {
        problem = where + " names no two of the hosts; write {\"hosts\": [\"a\", \"b\"], ...}";
        return false;
    }
    if (!read_keys(value, kPairKeys, where, problem)) return false;
    if (!value.contains("gigabits")) {
        problem = where + " has no \"gigabits\"";
        return false;
    }
    if (value.contains("cable") && !value.at("cable").is_boolean()) {
        problem = where + ": \"cable\" is true or false, not " + value.at("cable").dump();
        return false;
    }
    if (!read_number(value, "latency_us", 30, pair.latency_us, problem, where) ||
        !read_number(value, "gigabits", 0, pair.gigabits, problem, where))
        return false;
    pair.cable = value.value("cable", json(false)) == json(true);
    if (!known.insert(std::minmax(pair.a, pair.b)).second) {
        problem = where + ": these hosts stand in two pairs";
        return false;
    }
    out.pairs.push_back(pair);
    return true;
}

// Pairs that are not named go by both hosts' lines, where these are named.
bool complete(NetworkFile& network, std::string& problem) {
    auto count = static_cast<int>(network.hosts.size());
    std::vector<bool> there(static_cast<size_t>(count * count));
    for (const NetworkPair& each : network.pairs)
        there[static_cast<size_t>(each.a * count + each.b)] =
            there[static_cast<size_t>(each.b * count + each.a)] = true;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b) {
            if (there[static_cast<size_t>(a * count + b)]) continue;
            const NetworkHost& one = network.hosts[static_cast<size_t>(a)];
            const NetworkHost& other = network.hosts[static_cast<size_t>(b)];
            if (one.gigabits <= 0 || other.gigabits <= 0) {
                problem = format(
                    "How are {} and {} joined? Add a pair, or \"gigabits\" to both "
                    "hosts where a switch joins them",
                    one.name, other.name);
                return false;
            }
            network.pairs.push_back({a, b, 30, std::min(one.gigabits, other.gigabits), false});
        }
    return true;
}

}  // namespace

int NetworkFile::ranks() const {
    int sum = 0;
    for (const NetworkHost& each : hosts) sum += each.ranks;
    return sum;
}

const NetworkPair& NetworkFile::pair(int a, int b) const {
    auto of = [&](const NetworkPair& each) {
        return std::minmax(each.a, each.b) == std::minmax(a, b);
    };
    return *std::find_if(pairs.begin(), pairs.end(), of);
}

std::optional<NetworkFile> parse_network(const std::string& text, std::string& problem) {
    json value = parse_json(text, problem);
    if (value.is_discarded()) return std::nullopt;
    if (!value.is_object() || !value.contains("hosts") || !value.at("hosts").is_array()) {
        problem =
            "It is no JSON object with \"hosts\": see docs/predict.md, or take what `pomona "
            "links --host a,b --json` prints";
        return std::nullopt;
    }
    if (!read_keys(value, kNetworkKeys, "The network", problem)) return std::nullopt;
    NetworkFile out;
    const json& hosts = value.at("hosts");
    for (size_t i = 0; i < std::min(hosts.size(), kHostsMost); ++i)
        if (!read_host(hosts.at(i), out, problem)) return std::nullopt;
    if (hosts.empty() || hosts.size() > kHostsMost || out.ranks() > 1 << 16) {
        problem = format("There are {} hosts with {}{} ranks; 1 to {} hosts with up to 65536 serve",
                         hosts.size(), hosts.size() > kHostsMost ? "more than " : "", out.ranks(),
                         kHostsMost);
        return std::nullopt;
    }
    HostNumbers numbers;
    for (const NetworkHost& each : out.hosts)
        numbers.emplace(each.name, static_cast<int>(numbers.size()));
    std::set<std::pair<int, int>> known;
    json pairs = value.value("pairs", json::array());
    if (!pairs.is_array()) {
        problem = "\"pairs\" is a list";
        return std::nullopt;
    }
    for (size_t i = 0; i < pairs.size(); ++i)
        if (!read_pair(pairs.at(i), i, numbers, known, out, problem)) return std::nullopt;
    if (!complete(out, problem) ||
        !read_number(value, "together_gigabits", 0, out.together_gigabits, problem, "The network"))
        return std::nullopt;
    return out;
}

std::string network_text(const NetworkFile& network) {
    json hosts = json::array(), pairs = json::array();
    for (const NetworkHost& each : network.hosts) {
        json host{{"host", each.name}, {"ranks", each.ranks}, {"speed", each.speed}};
        if (each.gigabits > 0) host["gigabits"] = each.gigabits;
        hosts.push_back(host);
    }
    auto name = [&](int number) { return network.hosts[static_cast<size_t>(number)].name; };
    for (const NetworkPair& each : network.pairs)
        pairs.push_back({{"hosts", {name(each.a), name(each.b)}},
                         {"latency_us", each.latency_us},
                         {"gigabits", each.gigabits},
                         {"cable", each.cable}});
    json all{{"hosts", hosts}, {"pairs", pairs}};
    if (network.together_gigabits > 0) all["together_gigabits"] = network.together_gigabits;
    return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<int> hosts_of_ranks(const NetworkFile& network) {
    std::vector<int> out;
    for (size_t host = 0; host < network.hosts.size(); ++host)
        out.insert(out.end(), static_cast<size_t>(network.hosts[host].ranks),
                   static_cast<int>(host));
    return out;
}

LinkMap link_map(const NetworkFile& network, const coll::Links& links) {
    LinkMap map;
    size_t count = network.hosts.size();
    map.hosts = hosts_of_ranks(network);
    map.near = {links.shm.latency_ns, links.shm.overhead_ns, links.shm.byte_ns};
    map.far = {links.net.latency_ns, links.net.overhead_ns, links.net.byte_ns};
    map.within.assign(count, map.near);
    // The processor hands over what TCP carries within a machine, where it does both ends.
    map.port_byte_ns = links.tcp.byte_ns;
    map.between.assign(count * count, {map.far, -1});
    std::vector<double> quickest(count);
    int cables = 0;
    for (const NetworkPair& pair : network.pairs) {
        // What `pomona links` measures is a half round trip: latency and an overhead at either end.
        double whole = pair.latency_us * 1e3;
        double overhead = std::min(links.net.overhead_ns, whole / 4);
        double byte_ns = 8 / pair.gigabits;
        LinkMap::Between between{
            {whole - 2 * overhead, overhead, byte_ns, asking::ask_ns(whole, byte_ns)},
            pair.cable ? cables++ : -1};
        auto a = static_cast<size_t>(pair.a), b = static_cast<size_t>(pair.b);
        map.between[a * count + b] = map.between[b * count + a] = between;
        if (pair.cable) continue;
        quickest[a] = std::max(quickest[a], pair.gigabits);
        quickest[b] = std::max(quickest[b], pair.gigabits);
    }
    for (size_t host = 0; host < count; ++host) {
        double line =
            network.hosts[host].gigabits > 0 ? network.hosts[host].gigabits : quickest[host];
        map.line_byte_ns.push_back(line > 0 ? 8 / line : 0);
    }
    if (network.together_gigabits > 0) map.together_byte_ns = 8 / network.together_gigabits;
    return map;
}

double lines_gigabits(const LinkMap& map) {
    double sum = 0;
    for (double byte_ns : map.line_byte_ns) sum += byte_ns > 0 ? 8 / byte_ns : 0;
    return sum;
}

coll::Links links_as_tuned(const NetworkFile& network, const LinkMap& map, coll::Links links) {
    links.pairs.clear();
    auto count = static_cast<int>(network.hosts.size());
    if (count < 2) return links;
    const LinkCost& first = map.host_link(0, 1);
    links.net = {first.latency_ns, first.overhead_ns, first.byte_ns};
    bool unlike = false;
    std::vector<coll::PairLink> pairs;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b) {
            const LinkCost& cost = map.host_link(a, b);
            bool cable = map.host_cable(a, b) >= 0;
            unlike = unlike || cable || cost != first;
            links.net = {std::max(links.net.latency_ns, cost.latency_ns),
                         std::max(links.net.overhead_ns, cost.overhead_ns),
                         std::max(links.net.byte_ns, cost.byte_ns)};
            if (b >= coll::kPairedNodesMost) continue;
            pairs.push_back({a, b, {cost.latency_ns, cost.overhead_ns, cost.byte_ns}, cable});
        }
    if (unlike) links.pairs = std::move(pairs);
    return links;
}

NetworkFile with_lines(NetworkFile network, double times) {
    for (NetworkHost& each : network.hosts) each.gigabits *= times;
    for (NetworkPair& each : network.pairs) each.gigabits *= times;
    return network;
}

NetworkFile with_rate(NetworkFile network, double gigabits) {
    for (NetworkHost& each : network.hosts) each.gigabits = each.gigabits > 0 ? gigabits : 0;
    for (NetworkPair& each : network.pairs) each.gigabits = gigabits;
    return network;
}

NetworkFile with_another_host(const NetworkFile& network) {
    NetworkFile out = network;
    auto last = static_cast<int>(network.hosts.size()) - 1;
    NetworkHost host = network.hosts.back();
    host.name += "'";
    out.hosts.push_back(host);
    for (int other = 0; other < last; ++other) {
        NetworkPair pair = network.pair(other, last);
        pair.a = other, pair.b = last + 1;
        out.pairs.push_back(pair);
    }
    if (last > 0) {
        NetworkPair pair = network.pair(0, last);
        pair.a = last, pair.b = last + 1;
        out.pairs.push_back(pair);
    }
    return out;
}

NetworkFile without_a_host(const NetworkFile& network) {
    size_t slowest = 0;
    for (size_t i = 0; i < network.hosts.size(); ++i)
        if (network.hosts[i].speed <= network.hosts[slowest].speed) slowest = i;
    NetworkFile out = network;
    out.hosts.erase(out.hosts.begin() + static_cast<ptrdiff_t>(slowest));
    auto gone = static_cast<int>(slowest);
    std::erase_if(out.pairs,
                  [&](const NetworkPair& each) { return each.a == gone || each.b == gone; });
    for (NetworkPair& each : out.pairs) each.a -= each.a > gone, each.b -= each.b > gone;
    return out;
}

}  // namespace pomona
