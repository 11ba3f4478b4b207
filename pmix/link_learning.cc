// pmix/link_learning.cc: see link_learning.h. Plain values in and out, nothing asks the system.
#include "pmix/link_learning.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace pomona {

namespace {

constexpr size_t kLinesMost = 256, kTimesMost = 256, kTextMost = 256;
constexpr Nanoseconds kTimeMost = 3'600'000'000'000;  // of one; longer ones nobody has written
constexpr uint64_t kBytesMost = uint64_t{1} << 44;

// The best rate is what so much went at, or quicker.
constexpr double kEnoughBytes = 4 << 20, kEnoughNs = 20e6;

// Beyond these it was no line; the file could not say it either.
constexpr double kGigabitsMost = 1e6, kLatencyMost = 1e8;

// What differs by more is another rate, or another kind of latency (kAlike of link_history.cc).
constexpr double kClear = 1.5, kClearLatency = 4;

bool plausible(const FullTime& time) {
    return time.begin >= 0 && time.end > time.begin && time.end - time.begin <= kTimeMost &&
           time.bytes > 0 && time.bytes <= kBytesMost;
}

bool may_be_named(const std::string& host) {
    return !host.empty() && std::all_of(host.begin(), host.end(),
                                        [](unsigned char c) { return c > ' ' && c != 127; });
}

double latency_of(const LinkMemory& kept, const LinkMemory& seen) {
    if (!(seen.latency_us > 0)) return kept.latency_us;
    bool alike = seen.latency_us <= kClearLatency * kept.latency_us &&
                 kept.latency_us <= kClearLatency * seen.latency_us;
    return alike ? kept.latency_us : seen.latency_us;
}

}  // namespace

void write_lines(Writer& out, const std::vector<LineTold>& lines) {
    out.put(static_cast<uint32_t>(std::min(lines.size(), kLinesMost)));
    for (size_t i = 0; i < std::min(lines.size(), kLinesMost); ++i) {
        const LineTold& line = lines[i];
        size_t count = std::min(line.times.size(), kTimesMost);
        out.put(static_cast<int32_t>(line.peer));
        out.put(line.round_trip);
        out.put(line.expected);
        out.put_text(std::string_view(line.by).substr(0, kTextMost));
        out.put(static_cast<uint32_t>(count));
        for (size_t k = 0; k < count; ++k) {
            out.put(line.times[k].begin);
            out.put(line.times[k].end);
            out.put(line.times[k].bytes);
        }
    }
}

std::optional<std::vector<LineTold>> read_lines(Reader& from) {
    std::vector<LineTold> out;
    auto lines = from.get<uint32_t>();
    if (lines > kLinesMost) return std::nullopt;
    for (uint32_t i = 0; i < lines && !from.failed(); ++i) {
        LineTold& line = out.emplace_back();
        line.peer = from.get<int32_t>();
        line.round_trip = from.get<Nanoseconds>();
        line.expected = from.get<Nanoseconds>();
        line.by = from.get_text(kTextMost);
        auto count = from.get<uint32_t>();
        bool good = line.round_trip >= 0 && line.round_trip <= kTimeMost && line.expected >= 0 &&
                    line.expected <= kTimeMost && count <= kTimesMost;
        if (!good) return std::nullopt;
        for (uint32_t k = 0; k < count && !from.failed(); ++k) {
            FullTime time;
            time.begin = from.get<Nanoseconds>();
            time.end = from.get<Nanoseconds>();
            time.bytes = from.get<uint64_t>();
            if (!from.failed() && !plausible(time)) return std::nullopt;
            line.times.push_back(time);
        }
    }
    if (from.failed() || from.left() != 0) return std::nullopt;
    return out;
}

double best_rate(const std::vector<FullTime>& times) {
    // The rate changes where a time begins or ends.
    std::vector<std::pair<Nanoseconds, double>> steps;
    for (const FullTime& each : times) {
        double rate = static_cast<double>(each.bytes) / static_cast<double>(each.end - each.begin);
        steps.emplace_back(each.begin, rate);
        steps.emplace_back(each.end, -rate);
    }
    std::sort(steps.begin(), steps.end());
    struct Stretch {
        double rate, length;
    };
    std::vector<Stretch> stretches;
    double rate = 0;
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
        rate += steps[i].second;
        auto length = static_cast<double>(steps[i + 1].first - steps[i].first);
        if (length > 0 && rate > 0) stretches.push_back({rate, length});
    }
    std::sort(stretches.begin(), stretches.end(),
              [](const Stretch& a, const Stretch& b) { return a.rate > b.rate; });
    // What was reached for so long: a burst that a system took in at once is no line.
    double length = 0;
    for (const Stretch& each : stretches) {
        length += each.length;
        if (length >= kEnoughNs && each.rate * length >= kEnoughBytes) return each.rate;
    }
    return 0;
}

void LinesSeen::add(int from, int to, LineTold told) {
    if (from == to || told.times.empty()) return;
    Way& way = ways_[{from, to}];
    way.times.insert(way.times.end(), told.times.begin(), told.times.end());
    Nanoseconds half = told.round_trip / 2;
    if (half > 0 && (way.latency == 0 || half < way.latency)) way.latency = half;
    if (way.expected == 0) way.expected = told.expected;
    if (way.by.empty()) way.by = std::move(told.by);
}

std::vector<LinkMemory> LinesSeen::pairs(const std::vector<std::string>& hosts,
                                         const std::string& date) const {
    std::map<std::pair<int, int>, LinkMemory> found;
    for (const auto& [ends, way] : ways_) {
        auto [from, to] = ends;
        auto count = static_cast<int>(hosts.size());
        if (from < 0 || to < 0 || from >= count || to >= count) continue;
        double rate = best_rate(way.times);
        if (!(rate > 0)) continue;
        const std::string& a = hosts[static_cast<size_t>(from)];
        const std::string& b = hosts[static_cast<size_t>(to)];
        if (!may_be_named(a) || !may_be_named(b) || a == b) continue;
        LinkMemory& pair = found[{std::min(from, to), std::max(from, to)}];
        Nanoseconds latency = way.latency != 0 ? way.latency : way.expected;
        double latency_us = static_cast<double>(latency) / 1e3;
        if (pair.latency_us == 0 || (latency_us > 0 && latency_us < pair.latency_us))
            pair.latency_us = latency_us;
        // One figure stands for both directions, as of what is measured: the better one.
        if (pair.gigabits >= 8 * rate) continue;
        pair.gigabits = 8 * rate;
        pair.hosts = std::min(a, b) + " " + std::max(a, b);
        pair.date = date;
        pair.by = way.by;
        pair.source = LinkMemory::Source::job;
    }
    std::vector<LinkMemory> out;
    for (auto& [ends, pair] : found) out.push_back(std::move(pair));
    return out;
}

Learnt learn(std::vector<LinkMemory>& memory, LinkMemory seen, int64_t began, int64_t now) {
    size_t blank = seen.hosts.find(' ');
    bool sane = seen.gigabits > 0 && seen.gigabits <= kGigabitsMost && seen.latency_us >= 0 &&
                seen.latency_us <= kLatencyMost;
    if (blank == seen.hosts.npos || !sane) return {};
    std::string a = seen.hosts.substr(0, blank), b = seen.hosts.substr(blank + 1);
    std::optional<LinkMemory> doubt;
    for (const LinkMemory& each : memory)
        if (each.source == LinkMemory::Source::doubt && is_pair(each.hosts, a, b)) doubt = each;
    auto keep = [&](Learnt::What what, double before) {
        seen.source = LinkMemory::Source::job;
        seen.at = now;
        remember(memory, seen);
        return Learnt{what, before, seen.gigabits, true};
    };
    const LinkMemory* kept = latest_of(memory, a, b);
    if (!kept) return seen.latency_us > 0 ? keep(Learnt::What::first, 0) : Learnt{};
    double before = kept->gigabits;
    seen.hosts = kept->hosts;  // as `pomona links` has written them
    seen.latency_us = latency_of(*kept, seen);
    if (seen.gigabits > kClear * before) return keep(Learnt::What::mended, before);
    bool lower = seen.gigabits * kClear < before;
    if (lower && doubt && doubt->at <= began) {
        if (doubt->gigabits > seen.gigabits) seen.gigabits = doubt->gigabits;
        return keep(Learnt::What::mended, before);
    }
    if (lower && doubt && doubt->gigabits >= seen.gigabits) return {};
    bool changed = std::erase_if(memory, [&](const LinkMemory& each) {
                       return each.source == LinkMemory::Source::doubt && is_pair(each.hosts, a, b);
                   }) > 0;
    if (!lower) return {Learnt::What::nothing, before, before, changed};
    seen.source = LinkMemory::Source::doubt;
    seen.at = doubt ? doubt->at : now;
    memory.push_back(seen);
    return {Learnt::What::doubted, before, seen.gigabits, true};
}

std::vector<Learnt> learn_all(std::vector<LinkMemory>& memory, const std::vector<LinkMemory>& seen,
                              int64_t began, int64_t now) {
    std::map<std::string, std::vector<LinkMemory>> by_pair;
    for (LinkMemory& each : memory) {
        auto& own = by_pair[pair_key(each.hosts)];
        own.push_back(std::move(each));
    }
    std::vector<Learnt> out;
    for (const LinkMemory& pair : seen)
        out.push_back(learn(by_pair[pair_key(pair.hosts)], pair, began, now));
    memory.clear();
    for (auto& [key, own] : by_pair) std::move(own.begin(), own.end(), std::back_inserter(memory));
    return out;
}

}  // namespace pomona
