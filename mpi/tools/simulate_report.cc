// mpi/tools/simulate_report.cc: time, traffic and waits of a simulated job, as text and JSON.
#include "mpi/tools/simulate_report.h"

#include "btl/base/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace pomona {

namespace {

using nlohmann::json;
constexpr size_t kRowsMost = 8;  // of people's tables

sim::Traffic sum_of(const SimulatedJob& job, bool only_far) {
    sim::Traffic sum;
    for (const auto& [pair, traffic] : job.hub.traffic()) {
        bool far = job.hosts[static_cast<size_t>(pair.first)] !=
                   job.hosts[static_cast<size_t>(pair.second)];
        if (only_far && !far) continue;
        sum.frames += traffic.frames;
        sum.bytes += traffic.bytes;
    }
    return sum;
}

// The largest first; of equal ones the lower ranks.
template <class Value, class Size>
std::vector<std::pair<sim::Hub::Pair, Value>> largest(const std::map<sim::Hub::Pair, Value>& all,
                                                      Size size) {
    std::vector<std::pair<sim::Hub::Pair, Value>> out(all.begin(), all.end());
    std::stable_sort(out.begin(), out.end(),
                     [&](const auto& a, const auto& b) { return size(a.second) > size(b.second); });
    out.resize(std::min(out.size(), kRowsMost));
    return out;
}

std::string time_text(sim::Time ns) {
    return ns < 1e6   ? format("{:.3f} us", ns / 1e3)
           : ns < 1e9 ? format("{:.6f} ms", ns / 1e6)
                      : format("{:.6f} s", ns / 1e9);
}

}  // namespace

std::string simulated_text(const SimulatedJob& job) {
    sim::Traffic all = sum_of(job, false), far = sum_of(job, true);
    std::string out = format(
        "simulated: {} ranks on {} hosts: {} of virtual time\n"
        "  {} frames with {:.6f} MB; between hosts {} with {:.6f} MB\n",
        job.hub.ranks(), job.host_names.size(), time_text(job.hub.now()), all.frames,
        static_cast<double>(all.bytes) / 1e6, far.frames, static_cast<double>(far.bytes) / 1e6);
    if (!job.chosen_by.empty()) out += format("  algorithms chosen by {}\n", job.chosen_by);
    out += "  most bytes:\n";
    for (const auto& [pair, traffic] :
         largest(job.hub.traffic(), [](const sim::Traffic& each) { return each.bytes; }))
        out += format("    rank {} to {}: {} frames, {:.6f} MB\n", pair.first, pair.second,
                      traffic.frames, static_cast<double>(traffic.bytes) / 1e6);
    out += "  longest waits, by whose message ended them:\n";
    for (const auto& [pair, time] : largest(job.hub.waits(), [](sim::Time each) { return each; }))
        out += format("    rank {} for {}: {}\n", pair.first, pair.second, time_text(time));
    return out + format("  seed {}, {} events, event hash {:016x}\n", job.seed, job.hub.events(),
                        job.hub.hash());
}

std::string simulated_json(const SimulatedJob& job) {
    json traffic = json::array(), waits = json::array();
    for (const auto& [pair, each] : job.hub.traffic())
        traffic.push_back({{"from", pair.first},
                           {"to", pair.second},
                           {"frames", each.frames},
                           {"bytes", each.bytes}});
    for (const auto& [pair, ns] : job.hub.waits())
        waits.push_back({{"rank", pair.first}, {"for", pair.second}, {"seconds", ns * 1e-9}});
    sim::Traffic all = sum_of(job, false), far = sum_of(job, true);
    json out{{"ranks", job.hub.ranks()},
             {"hosts", job.host_names},
             {"host_of_rank", job.hosts},
             {"chosen_by", job.chosen_by},
             {"end", job.end},
             {"seconds", job.hub.now() * 1e-9},
             {"frames", all.frames},
             {"bytes", all.bytes},
             {"frames_between_hosts", far.frames},
             {"bytes_between_hosts", far.bytes},
             {"seed", job.seed},
             {"events", job.hub.events()},
             {"event_hash", format("{:016x}", job.hub.hash())},
             {"traffic", traffic},
             {"waits", waits},
             {"deadlock", job.deadlock}};
    return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace pomona
