// mpi/tools/doctor_linux.cc: the doctor's checks that only Linux has.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace pomona::doctor {

namespace {

// A rank's rings take about 1 MiB a peer on the machine; containers often have 64 MiB in all.
Finding shared_memory_room(const Probes& probes) {
    int64_t room = probes.free_bytes("/dev/shm");
    if (room < 0) return {"/dev/shm", State::bad, "is not there", "mount -t tmpfs tmpfs /dev/shm"};
    std::string text = pomona::format("{} MiB left", room >> 20);
    if (room < (int64_t{16} << 20))
        return {"/dev/shm", State::bad, text,
                "remove what is stale there, or mount -o remount,size=1G /dev/shm; in a container: "
                "docker run --shm-size=1g"};
    if (room < (int64_t{256} << 20))
        return {"/dev/shm", State::hint, text,
                "enough for a few ranks; more need docker run --shm-size=1g or a larger tmpfs"};
    return {"/dev/shm", State::good, text, ""};
}

Finding attach(const Probes& probes) {
    std::string scope = probes.read("/proc/sys/kernel/yama/ptrace_scope");
    int value = std::atoi(scope.c_str());
    if (value <= 1) return {"debugging", State::good, "gdb can look at ranks it starts", ""};
    return {"debugging", State::hint, pomona::format("kernel.yama.ptrace_scope is {}", value),
            "gdb cannot attach to ranks: sysctl kernel.yama.ptrace_scope=1 (as root)"};
}

// The first libmpi_abi of LD_LIBRARY_PATH is the one programs get.
Finding library_path(const Probes& probes) {
    std::string path = probes.variable("LD_LIBRARY_PATH");
    std::string found;
    for (size_t begin = 0; begin < path.size() && found.empty();) {
        size_t end = std::min(path.find(':', begin), path.size());
        std::string file = path.substr(begin, end - begin) + "/libmpi_abi.so.1";
        if (!probes.run("test -e '" + file + "' && echo yes").empty()) found = file;
        begin = end + 1;
    }
    if (found.empty()) return {"library path", State::good, "LD_LIBRARY_PATH names no MPI", ""};
    return {"library path", State::hint, pomona::format("LD_LIBRARY_PATH leads to {}", found),
            "programs run with that library; unset it if it is another MPI's"};
}

// Whether a rule, as nft or iptables prints it, ends connections that other hosts make to ranks.
bool keeps_out(const std::string& rule) {
    auto has = [&](const char* word) { return (" " + rule + " ").find(word) != rule.npos; };
    bool ends = has(" drop ") || has(" reject ") || has(" DROP ") || has(" REJECT ");
    return ends && !has("invalid") && !has("INVALID") && !has(" udp ") && !has("icmp") &&
           !has(" lo ") && !has("\"lo\"");
}

struct Wall {
    std::string rule;   // "" if there is none
    std::string place;  // "inet filter input", as nft names a chain
};

// The first rule, or policy, of chains through which all that comes in goes. Those that they call
// are not followed.
Wall first_wall(const std::string& rules) {
    std::string table, chain;
    bool incoming = false;
    for (size_t begin = 0; begin < rules.size();) {
        size_t end = std::min(rules.find('\n', begin), rules.size());
        std::string line = rules.substr(begin, end - begin);
        begin = end + 1;
        line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
        auto name = [&](size_t skip) { return line.substr(skip, line.rfind(" {") - skip); };
        if (line.starts_with("table ")) table = name(6);
        else if (line.starts_with("chain ")) chain = name(6), incoming = false;
        else if (line.starts_with("type filter hook input")) incoming = true;
        bool policy = line.find("policy drop") != line.npos;
        if (incoming && (policy || keeps_out(line)))
            return {policy ? "policy drop" : line, pomona::format("{} {}", table, chain)};
        if (line == "-P INPUT DROP" || (line.starts_with("-A INPUT ") && keeps_out(line)))
            return {line, ""};
    }
    return {};
}

Finding firewall(const Probes& probes) {
    std::string rules = probes.run("nft list ruleset 2>/dev/null && echo read");
    if (rules.empty()) rules = probes.run("iptables -S INPUT 2>/dev/null && echo read");
    if (rules.empty())
        return {"firewall", State::good, "its rules cannot be read: run the doctor as root", ""};
    Wall wall = first_wall(rules);
    if (wall.rule.empty()) return {"firewall", State::good, "no rule keeps other hosts out", ""};
    std::string mend =
        wall.place.empty()
            ? "iptables -I INPUT -s NETWORK -j ACCEPT"
            : pomona::format("nft insert rule {} ip saddr NETWORK accept", wall.place);
    return {
        "firewall", State::hint,
        pomona::format("{}{}{} ends connections that no rule lets in", wall.place,
                       wall.place.empty() ? "" : ": ", wall.rule),
        pomona::format("ranks listen at free ports, so let the job's hosts in by address, as root: "
                       "{} (ufw allow from NETWORK; firewall-cmd --zone=trusted "
                       "--add-source=NETWORK); pomona links --host tries it",
                       mend)};
}

}  // namespace

std::vector<Finding> linux_checks(const Probes& probes) {
    return {shared_memory_room(probes), attach(probes), library_path(probes), firewall(probes)};
}

}  // namespace pomona::doctor
