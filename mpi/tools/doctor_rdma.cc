// mpi/tools/doctor_rdma.cc: what stands in the way of this machine's RDMA devices, with the mend:
// for `pomona doctor` and `pomona links` alike. The library tells the state of a device; what
// macOS's own commands tell besides is added here. What they print is taken from their manual pages
// and public reports; the tests play it.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"

#include <algorithm>
#include <string>
#include <vector>

namespace pomona::doctor {

namespace {

// Thunderbolt 5 says 80 or 120 Gb/s of its ports, or of what is at them; it alone has RDMA, though
// macOS may list devices, and say "enabled", without.
bool has_older_thunderbolt(const Probes& probes) {
    std::string ports = probes.run("system_profiler SPThunderboltDataType");
    bool newer = ports.find("80 Gb/s") != ports.npos || ports.find("120 Gb/s") != ports.npos;
    return !newer && ports.find(" Gb/s") != ports.npos;
}

const char* const kOlderThunderbolt =
    "Thunderbolt at 40 Gb/s or less has no RDMA, whatever rdma_ctl says: Thunderbolt 5 is needed at "
    "both ends, and in the cable; TCP is used over this one";

// Without any device TCP does; a person can do something about it where RDMA is not enabled.
void advise_without_device(const Probes& probes, rdma::Survey& seen) {
    if (has_older_thunderbolt(probes)) {
        seen.why = kOlderThunderbolt;
        seen.mend.clear();
        return;
    }
    std::string enabled = probes.run("rdma_ctl status");
    if (enabled.find("disabled") != enabled.npos) {
        seen.why = "RDMA over Thunderbolt is not enabled";
        seen.mend = "start macOS Recovery, open its Terminal, say `rdma_ctl enable`";
        seen.can_be_mended = true;
    } else if (enabled.find("enabled") != enabled.npos) {
        seen.why = "RDMA is enabled, but there is no device for it";
        seen.mend = "Thunderbolt 5 is needed; restart the Mac if it has that";
        seen.can_be_mended = true;
    }
}

}  // namespace

std::string port_of(const rdma::DeviceSeen& device) {
    return device.name.substr(device.name.find('_') + 1);
}

std::string member_of(const rdma::DeviceSeen& device) { return "member: " + port_of(device) + " "; }

rdma::Survey advised_rdma(const Probes& probes) {
    rdma::Survey seen = probes.rdma_devices();
    if (probes.system() != System::macos) return seen;
    if (seen.devices.empty()) {
        advise_without_device(probes, seen);
        return seen;
    }
    auto usable = [](const rdma::DeviceSeen& each) { return each.why.empty(); };
    if (std::all_of(seen.devices.begin(), seen.devices.end(), usable)) return seen;
    bool older = has_older_thunderbolt(probes);
    std::string bridge = probes.run("ifconfig bridge0");
    for (rdma::DeviceSeen& each : seen.devices) {
        if (usable(each)) continue;
        if (older) each.mend = kOlderThunderbolt;
        else if (bridge.find(member_of(each)) != bridge.npos)
            each.mend = pomona::format(
                "{} is a member of bridge0: take it out (System Settings > "
                "Network > Manage Virtual Interfaces)",
                port_of(each));
    }
    return seen;
}

// One finding for each device.
std::vector<Finding> rdma_checks(const Probes& probes) {
    rdma::Survey seen = advised_rdma(probes);
    if (seen.devices.empty() && seen.can_be_mended)
        return {{"RDMA", State::hint, seen.why, seen.mend}};
    if (seen.devices.empty())
        return {
            {"RDMA", State::good,
             pomona::format("not used: {}{}{}", seen.why, seen.mend.empty() ? "" : "; ", seen.mend),
             ""}};
    std::vector<Finding> out;
    for (const rdma::DeviceSeen& each : seen.devices) {
        bool good = each.why.empty();
        out.push_back(
            {"RDMA", good ? State::good : State::hint,
             good ? pomona::format("{} is {}, {}", each.name, each.state, each.address) : each.why,
             each.mend});
    }
    return out;
}

}  // namespace pomona::doctor
