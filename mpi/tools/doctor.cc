// mpi/tools/doctor.cc: all checks together, as text or JSON, and those that both systems share.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"
#include "mpi/tools/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include <nlohmann/json.hpp>

namespace pomona::doctor {

namespace {

Finding good(std::string check, std::string text) {
    return {std::move(check), State::good, std::move(text), ""};
}

// Something tried, with the mend if it fails.
Finding tried(std::string check, const std::string& failure, std::string text, State state,
              std::string mend) {
    if (failure.empty()) return good(std::move(check), std::move(text));
    return {std::move(check), state, failure, std::move(mend)};
}

Finding cores(const Probes& probes) {
    int all = probes.cores(), usable = probes.usable_cores();
    if (usable < all)
        return {"cores", State::hint, pomona::format("{} of {} may be used", usable, all),
                "more ranks than that share cores; widen the container's or the shell's set of "
                "processors (taskset -p $$, docker --cpuset-cpus) if that was not meant"};
    return good("cores", pomona::format("{}", all));
}

Finding descriptors(const Probes& probes) {
    uint64_t most = probes.descriptors_max();
    if (most < 1024)
        return {"open files", State::hint, pomona::format("at most {} a process", most),
                "jobs of more than about 100 ranks need more: ulimit -n 4096"};
    return good("open files", pomona::format("at most {} a process", most));
}

// A job's folder holds sockets, whose paths are limited to 104 bytes on macOS, 108 on Linux.
Finding temporary(const Probes& probes) {
    std::string given = probes.variable("TMPDIR"), used = probes.temporary_folder();
    while (given.size() > 1 && given.back() == '/') given.pop_back();
    int64_t room = probes.free_bytes(used);
    if (room >= 0 && room < (int64_t{64} << 20))
        return {"temporary files", State::bad,
                pomona::format("{} has {} MiB left", used, room >> 20),
                "make room there, or set TMPDIR to a short path with room"};
    if (!given.empty() && given != used)
        return {"temporary files", State::hint,
                pomona::format("TMPDIR is {}, but jobs use {}", given, used),
                given.size() > 52
                    ? "TMPDIR is too long for the paths of sockets; a shorter one would "
                      "be used"
                    : "TMPDIR cannot be written to"};
    return good("temporary files", used);
}

// Where a parameter was set, of those that are.
std::string places_of(const Params& params, std::initializer_list<const char*> names) {
    std::string out;
    for (const char* name : names)
        if (!get_param(params, name).empty())
            out += (out.empty() ? "" : " or ") + params.source(name);
    return out;
}

Finding interfaces(const Probes& probes) {
    Params params = probes.params();
    tcp::InterfaceFilter filter;
    std::string mistake, text;
    tcp::NetworkWish wish = interfaces_wanted(probes, params, filter, mistake);
    if (!mistake.empty())
        return {"network", State::bad, mistake,
                pomona::format("correct {}", places_of(params, {"if_include", "if_exclude"}))};
    std::vector<tcp::Interface> all = probes.interfaces();
    for (const tcp::Interface& each : tcp::choose_interfaces(all, filter, probes.system())) {
        auto kind = tcp::interface_kind(each, probes.system());
        text += pomona::format("{}{} {} ({})", text.empty() ? "" : ", ", each.name, each.address,
                               tcp::interface_kind_name(kind));
    }
    if (!text.empty()) return good("network", text);
    if (!params.if_include.empty())
        return {"network", State::bad,
                pomona::format("if_include={} names no interface that is up", params.if_include),
                pomona::format("correct or unset it ({}); `ifconfig` or `ip address` lists what "
                               "there is",
                               places_of(params, {"if_include"}))};
    if (!tcp::choose_interfaces(all, {}, probes.system()).empty())
        return {
            "network", State::hint,
            pomona::format("{} leaves no interface by which other machines are reached", wish.said),
            "enough for jobs on this machine; else correct it" +
                (params.if_exclude.empty()
                     ? std::string()
                     : pomona::format(" ({})", places_of(params, {"if_exclude"})))};
    return {"network", State::hint, "no interface that reaches other machines has an address",
            "enough for jobs on this machine; else give one an address, or name a tunnel with "
            "POMONA_IF_INCLUDE"};
}

Finding host_name(const Probes& probes) {
    std::string name = probes.host_name();
    if (probes.resolves(name)) return good("host name", name);
    return {"host name", State::hint, pomona::format("{} does not resolve", name),
            "Pomona does not need it; other programs may: add it to /etc/hosts"};
}

Finding leftovers(const Probes& probes) {
    std::vector<std::string> found = probes.leftovers();
    if (found.empty()) return good("leftovers", "none");
    std::string list;
    for (size_t i = 0; i < found.size() && i < 5; ++i) list += " " + found[i];
    return {"leftovers", State::hint, pomona::format("{} of jobs that ended badly", found.size()),
            pomona::format("if no job runs: rm -r{}{}", list, found.size() > 5 ? " ..." : "")};
}

// "3.12.4\n2.13.0" from the first python3.
Finding python(const Probes& probes) {
    std::string answer = probes.run(
        "python3 -c \"import sys, importlib.metadata as m; "
        "print(sys.version.split()[0]); print(m.version('torch'))\"");
    if (answer.empty())
        answer = probes.run("python3 -c \"import sys; print(sys.version.split()[0])\"");
    size_t end = answer.find('\n');
    std::string version = answer.substr(0, end);
    std::string torch = end == answer.npos ? "" : answer.substr(end + 1);
    while (!torch.empty() && torch.back() == '\n') torch.pop_back();
    if (version.empty())
        return {"Python", State::hint, "there is no python3", "only PyTorch needs it"};
    if (torch.empty())
        return {"Python", State::hint, pomona::format("{}, without torch", version),
                "only training needs it: pip install 'torch>=2.10' in the environment you use"};
    int major = 0, minor = 0;
    if (std::sscanf(torch.c_str(), "%d.%d", &major, &minor) == 2 && major == 2 && minor < 10)
        return {"Python", State::bad, pomona::format("{} with torch {}", version, torch),
                "the torch backend needs 2.10 or later: pip install -U torch"};
    return good("Python", pomona::format("{} with torch {}", version, torch));
}

const char* word(State state) {
    return state == State::good ? "ok" : state == State::hint ? "hint" : "bad";
}

}  // namespace

tcp::NetworkWish interfaces_wanted(const Probes& probes, const Params& params,
                                   tcp::InterfaceFilter& filter, std::string& mistake) {
    tcp::NetworkWish wish = tcp::network_choice(
        params.if_include, params.if_exclude, probes.variable("GLOO_SOCKET_IFNAME"),
        probes.variable("NCCL_SOCKET_IFNAME"), probes.interfaces());
    mistake = filter.parse(wish.include, wish.exclude);
    return wish;
}

std::vector<Finding> common_checks(const Probes& probes) {
    bool macos = probes.system() == System::macos;
    std::vector<Finding> out;
    out.push_back(cores(probes));
    out.push_back(tried("shared memory", probes.try_shared_memory(), "works", State::bad,
                        macos ? "restart the Mac if names are left over; `sysctl kern.posix` shows "
                                "limits"
                              : "see that /dev/shm is mounted, writable and not full"));
    out.push_back(tried("loopback", probes.try_loopback(), "works", State::bad,
                        "ranks of one machine talk over 127.0.0.1: bring the loopback interface up "
                        "and let the firewall pass it"));
    out.push_back(interfaces(probes));
    for (Finding& each : rdma_checks(probes)) out.push_back(std::move(each));
    out.push_back(host_name(probes));
    out.push_back(descriptors(probes));
    out.push_back(temporary(probes));
    out.push_back(leftovers(probes));
    out.push_back(tried("hwloc", probes.try_hwloc(), "opens", State::hint,
                        macos ? "ranks run without it: brew install hwloc"
                              : "ranks run without it, unbound: apt install libhwloc15"));
    out.push_back(
        tried("PMIx", probes.try_pmix(), "opens", State::hint,
              macos ? "only other launchers (prterun, srun) need it: brew install pmix"
                    : "only other launchers (prterun, srun) need it: apt install libpmix2"));
    out.push_back(python(probes));
    return out;
}

std::vector<Finding> examine(const Probes& probes) {
    std::vector<Finding> out = common_checks(probes);
    auto more = probes.system() == System::macos ? macos_checks(probes) : linux_checks(probes);
    out.insert(out.end(), more.begin(), more.end());
    for (Finding& each : card_checks(probes)) out.push_back(std::move(each));
    return out;
}

std::string as_text(const std::vector<Finding>& findings) {
    std::string out;
    int bad = 0, hints = 0;
    for (const Finding& each : findings) {
        out += pomona::format("{:<5} {:<18} {}\n", word(each.state), each.check, each.text);
        if (!each.mend.empty()) out += pomona::format("{:24} -> {}\n", "", each.mend);
        bad += each.state == State::bad;
        hints += each.state == State::hint;
    }
    return out + pomona::format("{} checks: {} bad, {} hints\n", findings.size(), bad, hints);
}

std::string as_json(const std::vector<Finding>& findings) {
    nlohmann::json out = nlohmann::json::array();
    for (const Finding& each : findings)
        out.push_back({{"check", each.check},
                       {"state", word(each.state)},
                       {"text", each.text},
                       {"mend", each.mend}});
    // Names of files may hold anything.
    return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int command(bool json) {
    std::vector<Finding> findings = examine(real_probes());
    if (json) print_report(as_json(findings));
    else std::fputs(as_text(findings).c_str(), stdout);
    bool bad = std::any_of(findings.begin(), findings.end(),
                           [](const Finding& each) { return each.state == State::bad; });
    return bad ? 1 : 0;
}

}  // namespace pomona::doctor
