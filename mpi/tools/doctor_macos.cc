// mpi/tools/doctor_macos.cc: the doctor's checks that only macOS has.
// What the commands print is taken from their manual pages and public reports; the tests play it.
// None of this has run on a Mac: an answer that is not understood is no finding.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace pomona::doctor {

namespace {

int number(const std::string& text) { return std::atoi(text.c_str()); }

struct Version {
    int major = 0, minor = 0;
};
Version version(const Probes& probes) {
    Version out;
    (void)std::sscanf(probes.run("sw_vers -productVersion").c_str(), "%d.%d", &out.major,
                      &out.minor);
    return out;
}

Finding system_version(const Probes& probes) {
    Version v = version(probes);
    std::string text = v.major == 0 ? "unknown" : pomona::format("{}.{}", v.major, v.minor);
    if (v.major != 0 && v.major < 14)
        return {"macOS", State::bad, text, "Pomona needs macOS 14: Software Update"};
    return {"macOS", State::good, text, ""};
}

// sysctl.proc_translated is 1 in a translated process.
Finding translation(const Probes& probes) {
    if (number(probes.run("sysctl -in sysctl.proc_translated")) != 1)
        return {"processor", State::good, "native", ""};
    return {"processor", State::bad, "this shell runs Intel programs under Rosetta",
            "use an arm64 terminal and Homebrew's /opt/homebrew: arch -arm64 zsh"};
}

// hw.perflevel0 are the performance cores.
Finding performance_cores(const Probes& probes) {
    int fast = number(probes.run("sysctl -in hw.perflevel0.physicalcpu"));
    int slow = number(probes.run("sysctl -in hw.perflevel1.physicalcpu"));
    if (fast == 0 || slow == 0) return {"performance cores", State::good, "all cores alike", ""};
    return {"performance cores", State::good,
            pomona::format("{}, and {} efficiency cores; for figures start at most {} ranks", fast,
                           slow, fast),
            ""};
}

// Of a bridge "mtu 1500" is the default; a larger one saves packets on both ends.
std::string with_mtu(const Probes& probes, const std::string& name) {
    std::string state = probes.run("ifconfig " + name);
    size_t at = state.find("mtu ");
    int mtu = at == state.npos ? 0 : number(state.substr(at + 4));
    return mtu ? pomona::format("{} has an address; MTU {}", name, mtu)
               : pomona::format("{} has an address", name);
}

// Cables serve in two ways: in the bridge, for TCP alone, or each port by itself with an address of
// its own, as RDMA needs it. What a port lacks for RDMA is told by device (doctor_rdma.cc).
Finding thunderbolt(const Probes& probes) {
    std::vector<std::string> names;
    bool port_without_cable = false;
    const std::vector<rdma::DeviceSeen> devices = probes.rdma_devices().devices;
    for (const tcp::Interface& each : probes.interfaces()) {
        bool bridge = each.name.starts_with("bridge");
        bool cable =
            tcp::interface_kind(each, System::macos) == tcp::InterfaceKind::thunderbolt ||
            std::any_of(devices.begin(), devices.end(), [&](const rdma::DeviceSeen& device) {
                return port_of(device) == each.name;
            });
        if (!cable || !each.up) continue;
        if (!bridge && !each.carrier) port_without_cable = true;
        // Ports have link-local addresses of IPv6, which do for RDMA and for TCP.
        else if ((!bridge || !each.ip().six) &&
                 std::find(names.begin(), names.end(), each.name) == names.end())
            names.push_back(each.name);
    }
    std::string text;
    for (const std::string& name : names)
        text += pomona::format("{}{}", text.empty() ? "" : ", ", with_mtu(probes, name));
    if (!text.empty()) return {"Thunderbolt", State::good, text, ""};
    std::string bridge = probes.run("ifconfig bridge0");
    for (const rdma::DeviceSeen& each : devices)
        if (each.state == "active" && bridge.find(member_of(each)) == bridge.npos)
            return {"Thunderbolt", State::hint,
                    pomona::format("a cable is in {}, which is in no bridge and has no address",
                                   port_of(each)),
                    "System Settings > Network: configure IPv4 of this port, by hand with a "
                    "network for each cable (10.0.12.1 and 10.0.12.2), or link-local"};
    if (bridge.find("status: active") != bridge.npos)
        return {"Thunderbolt", State::hint, "a cable is in, but bridge0 has no address",
                "for TCP alone: System Settings > Network > Thunderbolt Bridge: configure IPv4, by "
                "hand with one address of a private network a Mac (10.0.7.1, 10.0.7.2, ...); for "
                "RDMA take the ports out of it and give each an address (docs/thunderbolt.md)"};
    bool none = bridge.empty() && !port_without_cable;
    return {
        "Thunderbolt", State::hint,
        none ? "there is no Thunderbolt Bridge, and no port outside one has an address"
             : "no cable is in",
        "only a cluster by cable needs one: for TCP alone a bridge (System Settings > Network > "
        "... > Manage Virtual Interfaces; docs/macos.md), for RDMA ports that are in none, each "
        "with an address of its own (docs/thunderbolt.md)"};
}

Finding firewall(const Probes& probes) {
    std::string state =
        probes.run("/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate");
    std::string all = probes.run("/usr/libexec/ApplicationFirewall/socketfilterfw --getblockall");
    if (state.find("State = 0") != state.npos || state.find("disabled") != state.npos)
        return {"firewall", State::good, "off", ""};
    if (state.empty()) return {"firewall", State::good, "unknown", ""};
    if (state.find("State = 2") != state.npos || all.find("enabled") != all.npos ||
        all.find("set to block all") != all.npos)
        return {
            "firewall", State::bad, "blocks all incoming connections",
            "other Macs cannot reach ranks here: System Settings > Network > Firewall > Options, "
            "switch \"Block all incoming connections\" off"};
    return {
        "firewall", State::hint, "on",
        "jobs over several Macs: answer its question with Allow, or System Settings > Network > "
        "Firewall > Options, add the program that ranks run (python3, your binary)"};
}

// Terminal and ssh sessions are exempt; programs that other applications start need the permission.
Finding local_network(const Probes& probes) {
    if (version(probes).major < 15)
        return {"local network", State::good, "needs no permission before macOS 15", ""};
    std::string program = probes.variable("TERM_PROGRAM");
    if (!probes.variable("SSH_CONNECTION").empty() && probes.variable("TMUX").empty())
        return {"local network", State::good, "sessions through ssh need no permission", ""};
    if (program == "Apple_Terminal" && probes.variable("TMUX").empty())
        return {"local network", State::good, "Terminal needs no permission", ""};
    if (!probes.variable("TMUX").empty()) program = "tmux";
    return {"local network", State::hint,
            pomona::format("jobs over several Macs need a permission for {}",
                           program.empty() ? "the program that starts them" : program),
            "allow it in System Settings > Privacy & Security > Local Network, or start jobs from "
            "Terminal or through ssh; without it connections end with errno 65, No route to host"};
}

Finding loader_paths(const Probes& probes) {
    for (const char* name :
         {"DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"})
        if (!probes.variable(name).empty())
            return {"loader", State::hint, pomona::format("{} is set", name),
                    "macOS drops it in programs under /usr and /bin (System Integrity Protection), "
                    "so ranks started through a script may not see it; link with mpicc, which sets "
                    "@rpath, instead"};
    return {"loader", State::good, "no DYLD_ variables", ""};
}

Finding metal(const Probes& probes) {
    std::string failure = probes.try_metal();
    if (failure.empty()) return {"Metal", State::good, "a GPU accepts the reduction kernels", ""};
    return {"Metal", State::hint, failure,
            "reductions stay on the CPU; `pomona info --accel` shows which"};
}

// Power Nap and App Nap apart, a sleeping Mac ends jobs over the network.
Finding sleep(const Probes& probes) {
    std::string settings = probes.run("pmset -g");
    size_t at = settings.find("\n sleep ");
    if (at == settings.npos || number(settings.substr(at + 8)) == 0 ||
        settings.find("sleep prevented", at) != settings.npos)
        return {"sleep", State::good, "not soon", ""};
    return {"sleep", State::hint,
            pomona::format("this Mac sleeps after {} minutes", number(settings.substr(at + 8))),
            "long jobs: caffeinate -i mpirun ..."};
}

}  // namespace

std::vector<Finding> macos_checks(const Probes& probes) {
    return {system_version(probes), translation(probes), performance_cores(probes),
            thunderbolt(probes),    firewall(probes),    local_network(probes),
            loader_paths(probes),   metal(probes),       sleep(probes)};
}

}  // namespace pomona::doctor
