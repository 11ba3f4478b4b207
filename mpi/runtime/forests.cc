// mpi/runtime/forests.cc: see forests.h.
#include "mpi/runtime/forests.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "mpi/runtime/machine_links.h"

#include <algorithm>

namespace pomona {

namespace {

// Links measured now may be so many times as quick, or as slow, as when a forest was made.
constexpr double kAlike = 2;

std::string names_of(const coll::ForestNetwork& network) {
    std::string text;
    for (size_t host = 0; host < network.hosts.size(); ++host)
        text += format("{}{}:{}", host ? " " : "", network.hosts[host], network.ranks[host]);
    return text;
}

// "" or why the network's links are not those of this job. What was never measured is not compared.
std::string unlike_links(const coll::ForestNetwork& network, const std::vector<int>& machines,
                         const coll::Policy& policy) {
    if (policy.links.net == coll::Links().net) return {};
    for (const auto& pair : network.pairs) {
        int a = machines[static_cast<size_t>(pair.a)], b = machines[static_cast<size_t>(pair.b)];
        if (a > b) std::swap(a, b);
        const coll::Link* link = &policy.links.net;
        for (const coll::PairLink& each : policy.links.pairs)
            if (each.a == a && each.b == b) link = &each.link;
        double now = 8 / link->byte_ns, then = pair.gigabits;
        if (now <= kAlike * then && then <= kAlike * now) continue;
        return format(messages::forests_stale, network.hosts[static_cast<size_t>(pair.a)],
                      network.hosts[static_cast<size_t>(pair.b)], now, then);
    }
    return {};
}

}  // namespace

void learn_forests(Wireup& wireup, const Params& params, coll::Policy& policy) {
    const Job& job = wireup.job();
    if (params.forests.empty()) return;
    add_forests(params.forests, machine_names(wireup), policy, [&](const std::string& told) {
        if (job.rank == job.first) LOG(warn, coll, "{}", told);
    });
}

void add_forests(std::string_view text, std::span<const std::string> hosts, coll::Policy& policy,
                 const std::function<void(const std::string&)>& tell) {
    std::string problem;
    auto read = coll::parse_forests(text, problem);
    if (!read.ok()) return tell(format("{} is ignored: {}", param_variable("forests"), problem));
    for (coll::ForestNetwork& network : *read) {
        std::string names = names_of(network), wrong;
        std::vector<int> machines;
        for (std::string& host : network.hosts) {
            auto at = std::find(hosts.begin(), hosts.end(), host);
            if (at != hosts.end()) host = std::to_string(at - hosts.begin());
            bool number =
                !host.empty() && host.size() < 6 &&
                std::all_of(host.begin(), host.end(), [](char c) { return c >= '0' && c <= '9'; });
            if (!number) {
                wrong = format("{} is no host of this job", host);
                break;
            }
            machines.push_back(std::stoi(host));
        }
        if (wrong.empty()) wrong = unlike_links(network, machines, policy);
        for (const coll::Forest& forest : network.forests) {
            if (!wrong.empty()) break;
            wrong = coll::verify_forest(forest);
            if (!wrong.empty())
                wrong = format("{} in line {}: {}", coll::collective_name(forest.collective),
                               forest.line, wrong);
        }
        if (wrong.empty()) policy.forests.push_back(std::move(network));
        else tell(format("The forests for {} are not used: {}", names, wrong));
    }
}

coll::Forests forests_among(const coll::Policy& policy, std::span<const int> nodes) {
    if (nodes.empty()) return nullptr;
    for (const coll::ForestNetwork& network : policy.forests) {
        auto found = coll::forests_for(network, nodes);
        if (!found.empty())
            return std::make_shared<const std::vector<coll::Forest>>(std::move(found));
    }
    return nullptr;
}

}  // namespace pomona
