// mpi/tools/links_report.cc: the report of `pomona links`: read, remembered, compared, printed.
// Plain values in and out; nothing here asks the system.
#include "mpi/tools/links.h"

#include "btl/base/format.h"
#include "btl/tcp/interfaces.h"
#include "btl/tcp/ip.h"
#include "mpi/runtime/machine_links.h"
#include "pmix/launch/ask.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <utility>

namespace pomona {

namespace {

constexpr double kMuchSlower = 0.6;  // of what was usual

using nlohmann::json;

void read_host(const json& value, LinkReport& out) {
    auto number = value.at("links_host").get<size_t>();
    if (number > 4096) return;
    if (out.hosts.size() <= number) out.hosts.resize(number + 1);
    LinkHost& host = out.hosts[number];
    host.name = value.at("name").get<std::string>();
    host.busy = value.value("busy", "");
    for (const json& each : value.at("interfaces"))
        host.interfaces.push_back(
            {each.value("name", ""), each.value("address", ""), each.value("kind", ""),
             each.value("why", ""), each.value("mtu", 0), each.value("taken", false),
             each.value("damaged", int64_t{-1}), each.value("dropped", int64_t{-1})});
    for (const json& each : value.value("devices", json::array()))
        host.devices.push_back({each.value("name", ""), each.value("state", ""),
                                each.value("address", ""), each.value("why", ""),
                                each.value("mend", ""), each.value("mtu", 0),
                                each.value("addresses", std::vector<std::string>())});
}

json counted(int64_t packets) { return packets < 0 ? json() : json(packets); }

// The device that an RDMA path's text, "rdma NAME ADDRESS, messages of ...", names; "": it goes by
// none.
std::string device_of(const PathSeen& path) {
    constexpr std::string_view kBy = "rdma ";
    if (path.name != "rdma" || !path.text.starts_with(kBy)) return "";
    std::string rest = path.text.substr(kBy.size());
    return rest.substr(0, rest.find_first_of(" ,"));
}

std::string use_of(const LinkReport& report, const LinkHost& host, const LinkDevice& device) {
    std::string peers;
    for (const PairMeasured& pair : report.pairs)
        for (const PathSeen& path : pair.paths) {
            const LinkHost &from = report.hosts.at(static_cast<size_t>(pair.from)),
                           &to = report.hosts.at(static_cast<size_t>(pair.to));
            bool here = (&host == &from && path.device == device.name) ||
                        (&host == &to && path.peer_device == device.name);
            if (here && path.state == "up")
                peers += (peers.empty() ? "" : ", ") + (&host == &from ? to : from).name;
        }
    if (!peers.empty() && !device.name.empty()) return format("used with {}", peers);
    if (device.why.empty()) return "can be used";
    return format("not used: {}{}{}", device.why, device.mend.empty() ? "" : "; ", device.mend);
}

// What the library does not know is "-" there.
std::string word_of(const json& value, const char* key) {
    std::string text = value.value(key, "");
    return text == "-" ? "" : text;
}

// The two have no interfaces for so many paths.
bool never_tried(const PathSeen& path) {
    return path.state != "up" && path.text.empty() && path.why.empty();
}

// "tcp 1 eth0 10.0.0.1 to 10.0.0.2", or as much as is known.
const std::string& text_of(const PathSeen& path) {
    return path.text.empty() ? path.name : path.text;
}

void read_pair(const json& value, LinkReport& out) {
    PairMeasured pair;
    pair.from = value.at("links_pair").at(0).get<int>();
    pair.to = value.at("links_pair").at(1).get<int>();
    pair.by = value.value("by", "");
    pair.latency_us = value.at("latency_us").get<double>();
    pair.gigabits = value.at("gigabits").get<double>();
    for (const json& each : value.at("paths"))
        pair.paths.push_back({each.value("name", ""), each.value("state", ""),
                              word_of(each, "kind"), word_of(each, "text"), each.value("why", ""),
                              each.value("first", false), each.value("round_trip_us", 0.0),
                              each.value("gigabits", 0.0)});
    for (PathSeen& path : pair.paths) path.device = device_of(path);
    out.pairs.push_back(std::move(pair));
}

// What the second of the two says: both number their paths by RDMA alike.
struct PairEnd {
    int from = 0, to = 0;
    std::vector<std::string> devices;  // of each path by RDMA
};

PairEnd read_pair_end(const json& value) {
    PairEnd out{value.at("links_pair_end").at(0).get<int>(),
                value.at("links_pair_end").at(1).get<int>(),
                {}};
    for (const json& each : value.at("paths")) {
        PathSeen path{each.value("name", ""), "", "", each.value("text", ""), ""};
        if (path.name == "rdma") out.devices.push_back(device_of(path));
    }
    return out;
}

void join_ends(const std::vector<PairEnd>& ends, PairMeasured& pair) {
    for (const PairEnd& end : ends) {
        if (end.from != pair.from || end.to != pair.to) continue;
        auto next = end.devices.begin();
        for (PathSeen& path : pair.paths)
            if (path.name == "rdma" && next != end.devices.end()) path.peer_device = *next++;
    }
}

// The library takes no rate of a path that nothing shares its payloads with: the pair's is its own.
void rate_of_only_path(PairMeasured& pair) {
    auto rated = [](const PathSeen& path) { return path.gigabits > 0; };
    if (std::any_of(pair.paths.begin(), pair.paths.end(), rated)) return;
    for (PathSeen& path : pair.paths)
        if (path.first && path.state == "up") path.gigabits = pair.gigabits;
}

// What one rank says of those that it does not reach; the other end may say it, too.
void read_unreached(const json& value, std::vector<PairUnreached>& out) {
    int rank = value.at("links_reached").get<int>();
    for (const json& each : value.at("not")) {
        int peer = each.at("rank").get<int>();
        PairUnreached pair{std::min(rank, peer), std::max(rank, peer), each.value("why", "")};
        auto same = [&](const PairUnreached& known) {
            return known.from == pair.from && known.to == pair.to;
        };
        if (std::none_of(out.begin(), out.end(), same)) out.push_back(std::move(pair));
    }
}

const std::string& name_of(const LinkReport& report, int number) {
    static const std::string unknown = "?";
    return number >= 0 && static_cast<size_t>(number) < report.hosts.size()
               ? report.hosts[static_cast<size_t>(number)].name
               : unknown;
}

// "through rank 2", as the library says it, has the host's name here.
std::string with_name(const LinkReport& report, const std::string& by) {
    constexpr std::string_view kThrough = "through rank ";
    if (!by.starts_with(kThrough)) return by;
    return "through " + name_of(report, std::atoi(by.c_str() + kThrough.size()));
}

bool relayed(const PairMeasured& pair) { return pair.by.starts_with("through "); }

// Is an address of one of them in a network of the other one? Those that systems give by themselves
// tell nothing.
bool may_share_network(const LinkHost& one, const LinkHost& other) {
    bool known = false;
    for (const LinkInterface& own : one.interfaces)
        for (const LinkInterface& theirs : other.interfaces) {
            if (!own.taken || !theirs.taken) continue;
            auto a = tcp::Network::parse(own.address), b = tcp::Network::parse(theirs.address);
            if (!a || !b || a->ip.link_local() || b->ip.link_local() || a->contains(b->ip))
                return true;
            known = true;
        }
    return !known;
}

tcp::InterfaceKind kind_of(const std::string& word) {
    for (int kind = 0; kind < tcp::kInterfaceKinds; ++kind)
        if (auto made = static_cast<tcp::InterfaceKind>(kind); word == interface_kind_name(made))
            return made;
    return tcp::InterfaceKind::wired;
}

// As ranks compute it from the addresses that they publish.
Roads roads_of(const LinkReport& report) {
    MachinePlaces places;
    for (const LinkHost& host : report.hosts) {
        auto& own = places.emplace_back();
        for (const LinkInterface& each : host.interfaces)
            if (auto at = tcp::Network::parse(each.address); at && each.taken)
                own.push_back({each.name, kind_of(each.kind), at->ip, at->prefix, 0, 0});
    }
    return roads_between(places);
}

// What helps two hosts to a connection of their own. A host that is silent for a firewall and one
// that is not there look alike.
std::string mend_of(const LinkReport& report, int from, int to) {
    return format(
        "is there a firewall between {} and {}, or no route (addresses in one network need none)? "
        "`pomona doctor` on each names its own firewall, `ping` shows whether any packet gets there",
        name_of(report, from), name_of(report, to));
}

// The same for two that are measured; "": nothing is wrong.
std::string mend_of(const LinkReport& report, const PairMeasured& pair) {
    if (relayed(pair)) {
        if (may_share_network(report.hosts.at(static_cast<size_t>(pair.from)),
                              report.hosts.at(static_cast<size_t>(pair.to))))
            return mend_of(report, pair.from, pair.to);
        return format(
            "{} and {} have no network in common, as the ends of a chain: a cable between them, or "
            "a network of both, would be a way of their own",
            name_of(report, pair.from), name_of(report, pair.to));
    }
    for (const PathSeen& path : pair.paths)  // as TCP describes itself
        if (path.text.find(", packets of ") != path.text.npos)
            return "longer packets vanish between them: give both cards and the switch one MTU";
    return "";
}

double median(std::vector<double> values) {
    auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

std::vector<HostLost> hosts_lost(const std::string& text) {
    constexpr std::string_view own = "mpirun: ", before = "mpirun: host ",
                               behind = " cannot be used: ";
    std::vector<HostLost> out;
    bool open = false;
    for (const std::string& line : lines_of(text)) {
        size_t end = line.find(behind);
        if (line.starts_with(before) && end != line.npos) {
            out.push_back({line.substr(before.size(), end - before.size()),
                           line.substr(end + behind.size())});
            open = true;
        } else if (line.starts_with(own) || line.starts_with('{')) {
            open = false;
        } else if (open) {  // what its ssh has printed
            out.back().why += " " + line;
        }
    }
    return out;
}

LinkReport read_link_report(const std::string& text) {
    LinkReport out;
    std::vector<PairEnd> ends;
    for (const std::string& line : lines_of(text)) {
        json value = line.starts_with('{') ? json::parse(line, nullptr, false) : json();
        try {
            if (value.is_object() && value.contains("links_host")) read_host(value, out);
            else if (value.is_object() && value.contains("links_pair")) read_pair(value, out);
            else if (value.is_object() && value.contains("links_pair_end"))
                ends.push_back(read_pair_end(value));
            else if (value.is_object() && value.contains("links_reached"))
                read_unreached(value, out.unreached);
            else out.failure += line + "\n";
        } catch (const json::exception&) { out.failure += line + "\n"; }
    }
    size_t hosts = out.hosts.size();
    auto known = [&](int number) { return number >= 0 && static_cast<size_t>(number) < hosts; };
    auto strange = [&](const auto& pair) { return !known(pair.from) || !known(pair.to); };
    std::erase_if(out.pairs, strange);
    std::erase_if(out.unreached, strange);
    std::sort(out.unreached.begin(), out.unreached.end(),
              [](const PairUnreached& a, const PairUnreached& b) {
                  return std::pair(a.from, a.to) < std::pair(b.from, b.to);
              });
    for (PairMeasured& pair : out.pairs) {
        join_ends(ends, pair);  // which count them all
        std::erase_if(pair.paths, never_tried);
        rate_of_only_path(pair);
        pair.by = with_name(out, pair.by);
        for (PathSeen& path : pair.paths) path.text = with_name(out, path.text);
    }
    // Their remarks on the way are of no more interest then.
    bool whole = hosts > 0 && out.pairs.size() + out.unreached.size() == hosts * (hosts - 1) / 2;
    if (whole) out.failure.clear();
    if (whole)
        for (const PairUnreached& pair : out.unreached)
            out.failure += format("{} - {} cannot connect: {}\n", name_of(out, pair.from),
                                  name_of(out, pair.to), pair.why);
    else if (out.failure.empty()) out.failure = "the ranks have not measured all pairs\n";
    return out;
}

std::string LinksDirector::heard(const std::string& line) {
    json value = line.starts_with('{') ? json::parse(line, nullptr, false) : json();
    if (!value.is_object()) return {};
    if (value.contains("links_pair")) return told_ > 0 ? next() : std::string();
    if (!value.contains("links_reached")) return {};
    try {
        read_unreached(value, unreached_);
    } catch (const json::exception&) { return {}; }
    if (++reports_ != hosts_) return {};
    if (unreached_.empty()) return "all\n";
    auto end = static_cast<int>(hosts_);
    for (int from = 0; from < end; ++from)
        for (int to = from + 1; to < end; ++to)
            if (std::none_of(unreached_.begin(), unreached_.end(), [&](const PairUnreached& pair) {
                    return pair.from == from && pair.to == to;
                }))
                pairs_.push_back(format("{} {}\n", from, to));
    return next();
}

std::string LinksDirector::next() { return told_ < pairs_.size() ? pairs_[told_++] : "end\n"; }

LinkMemory memory_of(const LinkReport& report, const PairMeasured& pair, const std::string& date) {
    std::string a = name_of(report, pair.from), b = name_of(report, pair.to);
    LinkMemory out{std::min(a, b) + " " + std::max(a, b), date, pair.latency_us, pair.gigabits, ""};
    for (const PathSeen& path : pair.paths)
        if (path.first) out.by = path.text;
    if (out.by.empty()) out.by = pair.by;
    return out;
}

static const char* source_name(LinkMemory::Source source) {
    static constexpr const char* kNames[] = {"measured", "job", "doubt"};
    return kNames[static_cast<size_t>(source)];
}

std::string seen_by_jobs(const LinkMemory& now, const std::vector<LinkMemory>& before) {
    std::string out;
    for (const LinkMemory& each : before) {
        if (each.hosts != now.hosts) continue;
        if (each.source == LinkMemory::Source::measured) out.clear();
        else if (each.source == LinkMemory::Source::job)
            out = format("{:.3g} Gb/s in a job on {}", each.gigabits, each.date);
        else
            out += format("{}{:.3g} Gb/s in a job on {}, which another one has to see as well",
                          out.empty() ? "" : ", then ", each.gigabits, each.date);
    }
    return out;
}

std::string compared_with_before(const LinkMemory& now, const std::vector<LinkMemory>& before) {
    std::vector<double> rates;
    const LinkMemory* best = nullptr;
    for (const LinkMemory& each : before)
        if (each.hosts == now.hosts && each.source != LinkMemory::Source::doubt) {
            rates.push_back(each.gigabits);
            if (!best || each.gigabits > best->gigabits) best = &each;
        }
    if (!best || now.gigabits >= kMuchSlower * median(rates)) return {};
    std::string out =
        format("gives {:.3g} Gb/s today, {:.3g} {}on {}", now.gigabits, best->gigabits,
               best->source == LinkMemory::Source::job ? "in a job " : "", best->date);
    if (best->by != now.by)
        return out + format(": it goes by {} now, by {} then", now.by, best->by);
    return out + ": is the cable, its port or the network's speed another one, or is it busy?";
}

std::string link_report_text(const LinkReport& report, const std::vector<LinkMemory>& before,
                             const std::string& date) {
    std::string out;
    for (const LinkHost& host : report.hosts) {
        out += host.name + "\n";
        for (const LinkInterface& each : host.interfaces) {
            if (each.kind == "loopback") continue;
            std::string use = each.taken ? "used" : "not used: " + each.why;
            if (each.damaged > 0) use += format(", {} damaged packets", each.damaged);
            if (each.dropped > 0) use += format(", {} dropped packets", each.dropped);
            out += format("  {:<10} {:<28} {:<12} MTU {:<6} {}\n", each.name, each.address,
                          each.kind, each.mtu, use);
        }
        for (const LinkDevice& each : host.devices) {
            if (each.name.empty()) {
                out += format("  RDMA {}\n", use_of(report, host, each));
                continue;
            }
            out += format("  {:<10} {:<28} {:<12} MTU {:<6} {}\n", each.name,
                          each.address.empty() ? "no address" : each.address, "RDMA, " + each.state,
                          each.mtu, use_of(report, host, each));
            std::string others;
            for (const std::string& address : each.addresses)
                if (address != each.address) others += (others.empty() ? "" : ", ") + address;
            if (!others.empty())
                out += format("  {:<10} {}{}\n", "", each.address.empty() ? "" : "and ", others);
        }
    }
    for (const HostLost& host : report.lost)
        out += format("{}\n  cannot be used: {}\n", host.name, host.why);
    for (const PairMeasured& pair : report.pairs) {
        out += format("{} - {}: {:.1f} us, {:.3g} Gb/s, {}\n", name_of(report, pair.from),
                      name_of(report, pair.to), pair.latency_us, pair.gigabits, pair.by);
        if (relayed(pair) && std::all_of(pair.paths.begin(), pair.paths.end(),
                                         [](const PathSeen& path) { return path.first; }))
            out += "  no connection of their own, nobody knows yet why\n";
        for (const PathSeen& path : pair.paths) {
            if (relayed(pair) && !path.first) {
                out += format("  no connection of their own: {}\n",
                              path.text.empty() ? path.name + ": " + path.why : path.text);
                continue;
            }
            out += format("  {}: {}", path.state, text_of(path));
            if (!path.peer_device.empty())
                out += format(", to {} of {}", path.peer_device, name_of(report, pair.to));
            std::string remarks = path.kind;
            if (path.first) remarks += remarks.empty() ? "messages take it" : ", messages take it";
            if (!remarks.empty()) out += format(" ({})", remarks);
            if (path.round_trip_us > 0) out += format(", round trip {:.0f} us", path.round_trip_us);
            if (path.gigabits > 0) out += format(", {:.3g} Gb/s", path.gigabits);
            if (!path.why.empty()) out += ": " + path.why;
            out += "\n";
        }
        for (const DeviceIdle& each : idle_devices(report, pair))
            out += format("  not between them: {} of {}: {}\n", each.device, each.host, each.why);
        std::string mend = mend_of(report, pair);
        if (!mend.empty()) out += format("  -> {}\n", mend);
        std::string slower = compared_with_before(memory_of(report, pair, date), before);
        if (!slower.empty()) out += "  " + slower + "\n";
        std::string jobs = seen_by_jobs(memory_of(report, pair, date), before);
        if (!jobs.empty()) out += "  before: " + jobs + "\n";
    }
    for (const PairUnreached& pair : report.unreached)
        out += format("{} - {}: no connection: {}\n  -> {}\n", name_of(report, pair.from),
                      name_of(report, pair.to), pair.why, mend_of(report, pair.from, pair.to));
    if (report.hosts.size() == 1 && report.failure.empty())
        out += "One host has no links; pomona links --host a,b measures those between hosts.\n";
    return out;
}

std::string link_report_json(const LinkReport& report, const std::vector<LinkMemory>& before,
                             const std::string& date) {
    json hosts = json::array(), pairs = json::array();
    for (const LinkHost& host : report.hosts) {
        json interfaces = json::array();
        for (const LinkInterface& each : host.interfaces)
            interfaces.push_back({{"name", each.name},
                                  {"address", each.address},
                                  {"kind", each.kind},
                                  {"mtu", each.mtu},
                                  {"damaged_packets", counted(each.damaged)},
                                  {"dropped_packets", counted(each.dropped)},
                                  {"used", each.taken},
                                  {"why_not", each.why}});
        json devices = json::array();
        for (const LinkDevice& each : host.devices)
            devices.push_back({{"name", each.name},
                               {"state", each.state},
                               {"address", each.address},
                               {"addresses", each.addresses},
                               {"mtu", each.mtu},
                               {"why_not", each.why},
                               {"mend", each.mend}});
        hosts.push_back({{"host", host.name}, {"interfaces", interfaces}, {"devices", devices}});
    }
    Roads roads = roads_of(report);
    std::vector<int> all_hosts(report.hosts.size());
    std::iota(all_hosts.begin(), all_hosts.end(), 0);
    for (const PairMeasured& pair : report.pairs) {
        json paths = json::array();
        for (const PathSeen& path : pair.paths)
            paths.push_back({{"name", path.name},
                             {"state", path.state},
                             {"first", path.first},
                             {"kind", path.kind},
                             {"by", path.text},
                             {"round_trip_us", path.round_trip_us},
                             {"gigabits", path.gigabits},
                             {"device", path.device},
                             {"peer_device", path.peer_device},
                             {"why_not", path.why}});
        json idle = json::array();
        for (const DeviceIdle& each : idle_devices(report, pair))
            idle.push_back({{"host", each.host}, {"device", each.device}, {"why_not", each.why}});
        LinkMemory now = memory_of(report, pair, date);
        json history = json::array();
        for (const LinkMemory& each : before)
            if (each.hosts == now.hosts)
                history.push_back({{"date", each.date},
                                   {"source", source_name(each.source)},
                                   {"latency_us", each.latency_us},
                                   {"gigabits", each.gigabits},
                                   {"by", each.by}});
        pairs.push_back({{"hosts", {name_of(report, pair.from), name_of(report, pair.to)}},
                         {"latency_us", pair.latency_us},
                         {"gigabits", pair.gigabits},
                         {"by", pair.by},
                         {"cable", roads.own_line(pair.from, pair.to, all_hosts)},
                         {"paths", paths},
                         {"devices_not_used", idle},
                         {"before", history},
                         {"slower", compared_with_before(now, before)},
                         {"jobs", seen_by_jobs(now, before)},
                         {"mend", mend_of(report, pair)}});
    }
    json unreached = json::array();
    for (const PairUnreached& pair : report.unreached)
        unreached.push_back({{"hosts", {name_of(report, pair.from), name_of(report, pair.to)}},
                             {"why", pair.why},
                             {"mend", mend_of(report, pair.from, pair.to)}});
    json lost = json::array();
    for (const HostLost& host : report.lost)
        lost.push_back({{"host", host.name}, {"why", host.why}});
    json all{{"hosts", hosts},
             {"pairs", pairs},
             {"unreached", unreached},
             {"lost", lost},
             {"failure", report.failure}};
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace pomona
