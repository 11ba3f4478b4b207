// pmix/link_history.cc: see link_history.h. Plain values in and out; nothing here asks the system.
#include "pmix/link_history.h"

#include "btl/base/decimal.h"
#include "btl/base/format.h"
#include "btl/base/kept_file.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <system_error>

namespace pomona {

namespace {

// Of a line: what it means.
constexpr std::string_view kVersion = "v1", kOfJobs = "v2", kJob = "job", kDoubt = "doubt";
constexpr size_t kKept = 16;  // of each pair
// Of a message of 8 bytes between machines, at most so much keeps either side busy.
constexpr double kOverheadNs = 2500, kOverheadShare = 0.25;
constexpr double kMessageLeastNs = 100;

// Pairs whose numbers are within these factors are taken for one kind of link. Latencies depend
// more on what else a host does, and between kinds are farther apart.
constexpr double kAlike = 1.5, kAlikeLatency = 4;
constexpr size_t kPairedHostsMost = 32;

struct PairCost {
    double message_ns, byte_ns;
    std::string text() const {
        double overhead = std::min(kOverheadNs, kOverheadShare * message_ns);
        return format("{:.0f}:{:.0f}:{:.5f}", message_ns - 2 * overhead, overhead, byte_ns);
    }
};

// The next of a few numbers in each power of ten.
double stepped(double value) {
    double scale = 1;
    while (scale > value) scale /= 10;
    while (scale * 10 < value) scale *= 10;
    for (double step : {1.0, 1.5, 2.2, 3.3, 4.7, 6.8})
        if (value <= step * scale) return step * scale;
    return 10 * scale;
}

// "user@mac1.local" is what calls itself mac1.
std::string_view own_name(std::string_view host) {
    host = host.substr(host.find('@') == host.npos ? 0 : host.find('@') + 1);
    bool address =
        host.find_first_not_of("0123456789.") == host.npos || host.find(':') != host.npos;
    return address ? host : host.substr(0, host.find('.'));
}

bool is_doubt(const LinkMemory& each) { return each.source == LinkMemory::Source::doubt; }

bool read_source(std::string_view& line, LinkMemory& out) {
    std::string_view word = take_piece(line, ' ');
    out.source = word == kDoubt ? LinkMemory::Source::doubt : LinkMemory::Source::job;
    std::string_view at = take_piece(line, ' ');
    auto [end, error] = std::from_chars(at.data(), at.data() + at.size(), out.at);
    bool good = error == std::errc() && end == at.data() + at.size() && out.at >= 0;
    return good && (word == kDoubt || word == kJob);
}

}  // namespace

bool is_pair(std::string_view pair, std::string_view a, std::string_view b) {
    size_t blank = pair.find(' ');
    if (blank == pair.npos) return false;
    std::string_view x = own_name(pair.substr(0, blank)), y = own_name(pair.substr(blank + 1));
    std::string_view own_a = own_name(a), own_b = own_name(b);
    return (x == own_a && y == own_b) || (x == own_b && y == own_a);
}

std::string pair_key(std::string_view pair) {
    size_t blank = pair.find(' ');
    std::string_view x = own_name(pair.substr(0, blank)), y;
    if (blank != pair.npos) y = own_name(pair.substr(blank + 1));
    return format("{} {}", std::min(x, y), std::max(x, y));
}

const LinkMemory* latest_of(const std::vector<LinkMemory>& memory, std::string_view a,
                            std::string_view b) {
    const LinkMemory* found = nullptr;
    for (const LinkMemory& each : memory) {
        if (!(each.gigabits > 0) || !(each.latency_us > 0)) continue;
        if (!is_doubt(each) && is_pair(each.hosts, a, b)) found = &each;
    }
    return found;
}

std::vector<LinkMemory> read_link_memory(const std::string& text) {
    std::vector<LinkMemory> out;
    for (std::string_view left = text; !left.empty();) {
        std::string_view line = take_piece(left, '\n');
        std::string_view version = take_piece(line, ' ');
        if (version != kVersion && version != kOfJobs) continue;
        LinkMemory each;
        std::string_view a = take_piece(line, ' '), b = take_piece(line, ' ');
        each.hosts = format("{} {}", a, b);
        each.date = take_piece(line, ' ');
        bool good = read_decimal(take_piece(line, ' '), each.latency_us);
        good = read_decimal(take_piece(line, ' '), each.gigabits) && good;
        if (version == kOfJobs) good = read_source(line, each) && good;
        each.by = line;
        if (good && !a.empty() && !b.empty() && !each.date.empty()) out.push_back(std::move(each));
    }
    return out;
}

std::string link_memory_text(const std::vector<LinkMemory>& memory) {
    std::string out;
    for (const LinkMemory& each : memory) {
        bool measured = each.source == LinkMemory::Source::measured;
        std::string line = format("{} {} {} {:.3f} {:.6f} ", measured ? kVersion : kOfJobs,
                                  each.hosts, each.date, each.latency_us, each.gigabits);
        if (!measured) line += format("{} {} ", is_doubt(each) ? kDoubt : kJob, each.at);
        line += each.by;
        std::replace(line.begin(), line.end(), '\n', ' ');
        out += line + "\n";
    }
    return out;
}

std::vector<LinkMemory> latest_of_each(const std::vector<LinkMemory>& memory) {
    std::vector<LinkMemory> out;
    for (size_t i = 0; i < memory.size(); ++i) {
        auto later = memory.begin() + static_cast<ptrdiff_t>(i) + 1;
        auto same = [&](const LinkMemory& each) {
            return each.hosts == memory[i].hosts && !is_doubt(each);
        };
        if (!is_doubt(memory[i]) && std::none_of(later, memory.end(), same))
            out.push_back(memory[i]);
    }
    return out;
}

void remember(std::vector<LinkMemory>& memory, const LinkMemory& now) {
    // With the digits that are kept, so that all who reckon by it reckon alike.
    std::vector<LinkMemory> kept = read_link_memory(link_memory_text({now}));
    size_t blank = now.hosts.find(' ');
    if (blank != now.hosts.npos)
        std::erase_if(memory, [&](const LinkMemory& each) {
            return is_doubt(each) &&
                   is_pair(each.hosts, std::string_view(now.hosts).substr(0, blank),
                           std::string_view(now.hosts).substr(blank + 1));
        });
    memory.push_back(kept.empty() ? now : kept.front());
    auto same = [&](const LinkMemory& each) { return each.hosts == now.hosts; };
    while (static_cast<size_t>(std::count_if(memory.begin(), memory.end(), same)) > kKept)
        memory.erase(std::find_if(memory.begin(), memory.end(), same));
}

std::string net_costs(const std::vector<LinkMemory>& memory, const std::vector<std::string>& hosts,
                      std::string& missing) {
    struct Pair {
        size_t a, b;
        PairCost cost;
    };
    std::vector<Pair> pairs;
    PairCost slowest{0, 0}, quickest{1e9, 1e9};
    std::map<std::string, std::vector<LinkMemory>> by_pair;
    for (const LinkMemory& each : memory) by_pair[pair_key(each.hosts)].push_back(each);
    missing.clear();
    for (size_t i = 0; i < hosts.size(); ++i)
        for (size_t j = i + 1; j < hosts.size(); ++j) {
            const auto& known = by_pair[pair_key(hosts[i] + " " + hosts[j])];
            const LinkMemory* pair = latest_of(known, hosts[i], hosts[j]);
            if (!pair) {
                missing = hosts[i] + " and " + hosts[j];
                continue;
            }
            // Of fractions of a nanosecond the text of `links` would say nothing.
            PairCost cost{std::max(kMessageLeastNs, 1e3 * pair->latency_us), 8 / pair->gigabits};
            if (cost.message_ns > 1e9 || cost.byte_ns > 1e9) continue;
            pairs.push_back({i, j, cost});
            slowest = {std::max(slowest.message_ns, cost.message_ns),
                       std::max(slowest.byte_ns, cost.byte_ns)};
            quickest = {std::min(quickest.message_ns, cost.message_ns),
                        std::min(quickest.byte_ns, cost.byte_ns)};
        }
    if (pairs.empty()) return "";
    bool one_latency = slowest.message_ns <= kAlikeLatency * quickest.message_ns;
    bool alike = one_latency && slowest.byte_ns <= kAlike * quickest.byte_ns;
    if (alike && missing.empty()) return "net=" + slowest.text();
    // Of many hosts the pairs' list would be too long; the slowest stands for all.
    if (hosts.size() > kPairedHostsMost) return missing.empty() ? "net=" + slowest.text() : "";
    std::string out = missing.empty() ? "net=" + slowest.text() : "";
    for (const Pair& pair : pairs) {
        double message = one_latency ? slowest.message_ns : pair.cost.message_ns;
        PairCost rounded{stepped(message), stepped(pair.cost.byte_ns)};
        out += format("{}{}-{}={}", out.empty() ? "" : ",", pair.a, pair.b, rounded.text());
    }
    return out;
}

}  // namespace pomona
