// mpi/tools/links_devices.cc: what a host says of its RDMA devices, and which of them carry nothing
// between two hosts, with the reason.
#include "mpi/tools/links.h"

#include "btl/base/comma_list.h"
#include "btl/base/format.h"
#include "btl/base/params.h"
#include "btl/rdma/survey.h"
#include "mpi/tools/doctor.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pomona {

std::vector<LinkDevice> devices_of(const doctor::Probes& probes, const Params& params) {
    rdma::Survey seen = doctor::advised_rdma(probes);
    bool wanted = lists(params.transports, "rdma");
    std::string unwanted = format("transports={}", params.transports);
    std::vector<LinkDevice> out;
    for (rdma::DeviceSeen& each : seen.devices) {
        LinkDevice made{each.name, each.state, each.address, each.why, each.mend, each.mtu};
        made.addresses = std::move(each.addresses);
        bool named = params.rdma_devices.empty() || lists(params.rdma_devices, each.name);
        if (!wanted) made.why = unwanted;
        else if (!named) made.why = "rdma_devices=" + params.rdma_devices;
        if (!wanted || !named) made.mend.clear();
        out.push_back(std::move(made));
    }
    if (seen.devices.empty())
        out.push_back({"", "", "", wanted ? seen.why : unwanted, wanted ? seen.mend : "", 0});
    return out;
}

// Those that a pair's paths name of one of its hosts.
static bool carries(const PairMeasured& pair, int host, const std::string& device) {
    return std::any_of(pair.paths.begin(), pair.paths.end(), [&](const PathSeen& path) {
        return (host == pair.from && path.device == device) ||
               (host == pair.to && path.peer_device == device);
    });
}

std::vector<DeviceIdle> idle_devices(const LinkReport& report, const PairMeasured& pair) {
    std::vector<DeviceIdle> out;
    for (int host : {pair.from, pair.to}) {
        const LinkHost& of = report.hosts.at(static_cast<size_t>(host));
        for (const LinkDevice& each : of.devices) {
            if (each.name.empty() || carries(pair, host, each.name)) continue;
            std::string why = each.why, others;
            for (const PairMeasured& other : report.pairs)
                if (carries(other, host, each.name))
                    others +=
                        (others.empty() ? "" : ", ") +
                        report.hosts
                            .at(static_cast<size_t>(other.from == host ? other.to : other.from))
                            .name;
            if (why.empty() && !others.empty()) why = format("its cable leads to {}", others);
            // What the library says of a path that it has tried.
            for (const PathSeen& path : pair.paths)
                if (why.empty() && path.name == "rdma" && path.text.starts_with("rdma: "))
                    why = "no path by it has come up: " + path.text.substr(6);
            if (why.empty()) why = "no path by it has come up";
            out.push_back({of.name, each.name, why});
        }
    }
    return out;
}

}  // namespace pomona
