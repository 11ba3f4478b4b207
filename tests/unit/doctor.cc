// tests/unit/doctor.cc: `pomona doctor` on machines that are played.
// Goal: each ailment is seen, with its mend, and a healthy machine has none; for macOS too, on
// Linux.
// Method: Probes whose answers are set by the test; those of a Mac follow the commands' manual
// pages.
#include "btl/base/params.h"
#include "mpi/tools/doctor.h"
#include "mpi/tools/links.h"
#include "pmix/job_directory.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

using namespace pomona;
using namespace pomona::doctor;

namespace {

struct Machine : Probes {
    System kind = System::linux_kernel;
    std::map<std::string, std::string> files, outputs, variables, failures;
    std::map<std::string, int64_t> room = {{"/dev/shm", int64_t{4} << 30},
                                           {"/tmp", int64_t{4} << 30}};
    uint64_t descriptors = 65536;
    int all_cores = 8, own_cores = 8;
    std::vector<tcp::Interface> network = {{"lo", "127.0.0.1", true, true},
                                           {"eth0", "10.1.2.3", true, false}};
    bool name_resolves = true;
    std::vector<std::string> left;
    rdma::Survey devices = {"", {}, "librdma.dylib cannot be opened", ""};

    static std::string get(const std::map<std::string, std::string>& map, const std::string& key) {
        auto found = map.find(key);
        return found == map.end() ? "" : found->second;
    }
    System system() const override { return kind; }
    std::string read(const std::string& path) const override { return get(files, path); }
    // By the start of the command.
    std::string run(const std::string& command) const override {
        for (const auto& [start, output] : outputs)
            if (command.starts_with(start)) return output;
        return "";
    }
    std::string variable(const std::string& name) const override { return get(variables, name); }
    Params params() const override {
        std::vector<std::string> texts;
        for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
        std::vector<const char*> environment;
        for (const std::string& each : texts) environment.push_back(each.c_str());
        environment.push_back(nullptr);
        return read_params(environment.data(), [](const std::string&) {});
    }
    int64_t free_bytes(const std::string& folder) const override {
        auto found = room.find(folder);
        return found == room.end() ? -1 : found->second;
    }
    uint64_t descriptors_max() const override { return descriptors; }
    int cores() const override { return all_cores; }
    int usable_cores() const override { return own_cores; }
    std::string temporary_folder() const override { return "/tmp"; }
    std::vector<tcp::Interface> interfaces() const override { return network; }
    std::map<std::string, CardCounts> counts;  // of a Mac
    CardCounts card_counts(const std::string& name) const override {
        if (kind == System::linux_kernel)
            return linux_card_counts(name, [&](const std::string& path) { return read(path); });
        auto found = counts.find(name);
        return found == counts.end() ? CardCounts() : found->second;
    }
    std::string host_name() const override { return "orchard"; }
    bool resolves(const std::string&) const override { return name_resolves; }
    std::string try_shared_memory() const override { return get(failures, "shared memory"); }
    std::string try_loopback() const override { return get(failures, "loopback"); }
    std::string try_hwloc() const override { return get(failures, "hwloc"); }
    std::string try_pmix() const override { return get(failures, "PMIx"); }
    std::string try_metal() const override { return get(failures, "Metal"); }
    rdma::Survey rdma_devices() const override { return devices; }
    std::vector<std::string> leftovers() const override { return left; }

    Finding find(const std::string& check) const {
        for (const Finding& each : examine(*this))
            if (each.check == check) return each;
        return {"missing", State::bad, "", ""};
    }
    int count(State state) const {
        int n = 0;
        for (const Finding& each : examine(*this)) n += each.state == state;
        return n;
    }
};

Machine healthy_linux() {
    Machine machine;
    machine.outputs = {{"python3", "3.12.4\n2.13.0\n"}};
    machine.files = {{"/proc/sys/kernel/yama/ptrace_scope", "1\n"}};
    return machine;
}

Machine healthy_mac() {
    Machine machine = healthy_linux();
    machine.kind = System::macos;
    machine.network = {{"lo0", "127.0.0.1", true, true},
                       {"en0", "192.168.1.20", true, false},
                       {"bridge0", "10.0.7.1", true, false}};
    machine.outputs["sw_vers"] = "15.5\n";
    machine.outputs["sysctl -in sysctl.proc_translated"] = "0\n";
    machine.outputs["sysctl -in hw.perflevel0.physicalcpu"] = "8\n";
    machine.outputs["sysctl -in hw.perflevel1.physicalcpu"] = "2\n";
    machine.outputs["ifconfig bridge0"] =
        "bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n"
        "\tinet 10.0.7.1 netmask 0xffffff00 broadcast 10.0.7.255\n\tmember: en1 flags=3<LEARNING>\n"
        "\tmedia: <unknown type>\n\tstatus: active\n";
    machine.outputs["/usr/libexec/ApplicationFirewall/socketfilterfw --getglobalstate"] =
        "Firewall is disabled. (State = 0)\n";
    machine.variables = {{"TERM_PROGRAM", "Apple_Terminal"}};
    return machine;
}

void expect(const Machine& machine, const char* check, State state, const char* words) {
    Finding found = machine.find(check);
    EXPECT_EQ(found.check, check);
    EXPECT_EQ(static_cast<int>(found.state), static_cast<int>(state))
        << check << ": " << found.text;
    EXPECT_NE((found.text + found.mend).find(words), std::string::npos)
        << found.text << " -> " << found.mend;
    EXPECT_EQ(found.mend.empty(), state == State::good) << check;
}

}  // namespace

TEST(doctor, counts_of_network_cards) {
    Machine machine = healthy_linux();
    std::string folder = "/sys/class/net/eth0/statistics/";
    machine.files[folder + "rx_packets"] = "1000000\n";
    machine.files[folder + "tx_packets"] = "1000000\n";
    machine.files[folder + "rx_dropped"] = "3\n";
    EXPECT_EQ(machine.find("network card").state, State::good);
    EXPECT_NE(machine.find("network card").text.find("eth0"), std::string::npos);
    machine.files[folder + "rx_dropped"] = "50000\n";
    EXPECT_EQ(machine.find("network card").state, State::hint);
    EXPECT_NE(machine.find("network card").text.find("rx_dropped 50000"), std::string::npos);
    EXPECT_NE(machine.find("network card").mend.find("MTU"), std::string::npos);
    machine.files[folder + "rx_errors"] = "77\n";
    EXPECT_NE(machine.find("network card").text.find("rx_errors 77"), std::string::npos);
    EXPECT_NE(machine.find("network card").mend.find("cable"), std::string::npos);
}

// Goal: what macOS counts is told alike. Method: a structure with the members of its if_data.
TEST(doctor, counts_of_network_cards_of_a_mac) {
    struct Data {
        uint32_t ifi_ipackets = 900'000, ifi_opackets = 100'000, ifi_ierrors = 0, ifi_oerrors = 0,
                 ifi_collisions = 0, ifi_iqdrops = 3;
    } data;
    Machine machine = healthy_mac();
    EXPECT_EQ(machine.find("network card").text, "no counts to read");
    machine.counts["en0"] = macos_card_counts(data);
    expect(machine, "network card", State::good, "few errors, few drops: en0");
    data.ifi_iqdrops = 4'000'000'000;
    machine.counts["en0"] = macos_card_counts(data);
    EXPECT_EQ(sum_of(machine.counts["en0"].dropped), 4'000'000'000);
    expect(machine, "network card", State::hint, "input drops 4000000000 (input 900000, output ");
    EXPECT_EQ(machine.find("network card").mend.find("ethtool"), std::string::npos);
    data.ifi_oerrors = 7;
    data.ifi_collisions = 2;
    machine.counts["en0"] = macos_card_counts(data);
    EXPECT_EQ(sum_of(machine.counts["en0"].damaged), 9);
    expect(machine, "network card", State::hint, "output errors 7, collisions 2");
    expect(machine, "network card", State::hint, "netstat -I en0");
    EXPECT_EQ(sum_of(CardCounts().damaged), -1);
}

// Of this machine, where the system tells.
TEST(doctor, counts_of_the_loopback) {
    CardCounts lo = card_counts(this_system == System::macos ? "lo0" : "lo");
    EXPECT_EQ(sum_of(lo.damaged), 0);
    EXPECT_GE(sum_of(lo.packets), 0);
    EXPECT_EQ(sum_of(card_counts("nosuch0").packets), -1);
}

TEST(doctor, firewall_rules) {
    Machine machine = healthy_linux();
    auto seen = [&](const char* command, const std::string& rules) {
        machine.outputs.erase("nft");
        machine.outputs.erase("iptables");
        machine.outputs[command] = rules + "read\n";
        return machine.find("firewall");
    };
    EXPECT_EQ(machine.find("firewall").state, State::good);  // cannot be read
    EXPECT_EQ(seen("nft", "").state, State::good);
    auto chain = [](const std::string& hook, const std::string& policy, const std::string& rules) {
        return "table inet filter {\n\tchain first {\n\t\ttype filter hook " + hook +
               " priority filter; policy " + policy + ";\n\t\t" + rules + "\n\t}\n}\n";
    };
    EXPECT_EQ(seen("nft", chain("input", "accept", "ct state invalid drop")).state, State::good);
    EXPECT_EQ(seen("nft", chain("forward", "drop", "")).state, State::good);
    EXPECT_EQ(seen("nft", chain("input", "accept", "udp dport 53 drop")).state, State::good);
    Finding found = seen("nft", chain("input", "drop", "iifname \"lo\" accept"));
    EXPECT_EQ(found.state, State::hint);
    EXPECT_NE(found.mend.find("nft insert rule inet filter first ip saddr"), std::string::npos);
    found = seen("nft", chain("input", "accept", "tcp dport 1024-65535 reject"));
    EXPECT_EQ(found.state, State::hint);
    EXPECT_NE(found.text.find("tcp dport 1024-65535 reject"), std::string::npos);
    EXPECT_EQ(seen("iptables", "-P INPUT ACCEPT\n-A INPUT -p udp -j DROP\n").state, State::good);
    EXPECT_EQ(seen("iptables", "-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n").state, State::hint);
    EXPECT_EQ(
        seen("iptables", "-P INPUT ACCEPT\n-A INPUT -j REJECT --reject-with tcp-reset\n").state,
        State::hint);
}

TEST(doctor, healthy_machines_have_no_findings) {
    for (const Machine& machine : {healthy_linux(), healthy_mac()}) {
        EXPECT_EQ(machine.count(State::bad), 0) << as_text(examine(machine));
        EXPECT_EQ(machine.count(State::hint), 0) << as_text(examine(machine));
        EXPECT_GE(machine.count(State::good), 14);
    }
}

TEST(doctor, what_does_not_work_is_bad_or_a_hint) {
    Machine machine = healthy_linux();
    machine.failures = {{"shared memory", "Cannot make shared memory"},
                        {"loopback", "Cannot connect"},
                        {"hwloc", "cannot be opened"},
                        {"PMIx", "cannot be opened"}};
    expect(machine, "shared memory", State::bad, "/dev/shm");
    expect(machine, "loopback", State::bad, "127.0.0.1");
    expect(machine, "hwloc", State::hint, "apt install libhwloc15");
    expect(machine, "PMIx", State::hint, "apt install libpmix2");
    machine.kind = System::macos;
    expect(machine, "hwloc", State::hint, "brew install hwloc");
}

TEST(doctor, limits_of_the_machine) {
    Machine machine = healthy_linux();
    machine.own_cores = 2;
    machine.descriptors = 256;
    machine.room = {{"/dev/shm", int64_t{64} << 20}, {"/tmp", int64_t{1} << 20}};
    machine.name_resolves = false;
    machine.left = {"/tmp/pomona-0-abcdefgh"};
    machine.files["/proc/sys/kernel/yama/ptrace_scope"] = "3\n";
    expect(machine, "cores", State::hint, "2 of 8");
    expect(machine, "open files", State::hint, "ulimit -n");
    expect(machine, "/dev/shm", State::hint, "64 MiB");
    expect(machine, "temporary files", State::bad, "1 MiB left");
    expect(machine, "host name", State::hint, "orchard does not resolve");
    expect(machine, "leftovers", State::hint, "rm -r /tmp/pomona-0-abcdefgh");
    expect(machine, "debugging", State::hint, "ptrace_scope is 3");
    machine.room["/dev/shm"] = int64_t{8} << 20;
    expect(machine, "/dev/shm", State::bad, "remount");
    machine.room.erase("/dev/shm");
    expect(machine, "/dev/shm", State::bad, "mount -t tmpfs");
}

TEST(doctor, places_named_by_variables) {
    Machine machine = healthy_linux();
    machine.variables["TMPDIR"] = "/" + std::string(80, 'x');
    expect(machine, "temporary files", State::hint, "too long");
    machine.variables["TMPDIR"] = "/nowhere/";
    expect(machine, "temporary files", State::hint, "cannot be written");
    machine.variables["TMPDIR"] = "/tmp//";
    expect(machine, "temporary files", State::good, "/tmp");
    machine.variables["POMONA_IF_INCLUDE"] = "eth7";
    expect(machine, "network", State::bad, "POMONA_IF_INCLUDE");
    machine.variables["LD_LIBRARY_PATH"] = "/a:/opt/mpi/lib";
    machine.outputs["test -e '/opt/mpi/lib/libmpi_abi.so.1'"] = "yes\n";
    expect(machine, "library path", State::hint, "/opt/mpi/lib/libmpi_abi.so.1");
}

// Goal: what the configuration file says of interfaces counts as in jobs, and where nothing else is
// said, what gloo or NCCL were told does; the mend names the place.
TEST(doctor, interfaces_that_others_than_variables_choose) {
    Machine machine = healthy_linux();
    machine.network.push_back({"ib0", "10.9.0.3", true, false});
    char path[] = "/tmp/pomona-doctor-XXXXXX";
    int file = mkstemp(path);
    ASSERT_GE(file, 0);
    auto says = [&](const std::string& line) {
        std::ofstream(path) << line << "\n";
        machine.variables["POMONA_CONFIG"] = path;
    };
    says("if_include=ib0");
    expect(machine, "network", State::good, "ib0 10.9.0.3");
    EXPECT_EQ(machine.find("network").text.find("eth0"), std::string::npos);
    says("if_include=eth7");
    expect(machine, "network", State::bad, "if_include=eth7");
    expect(machine, "network", State::bad, (std::string(path) + ":1").c_str());
    says("if_exclude=10.0.0.0/8/9");
    expect(machine, "network", State::bad, (std::string(path) + ":1").c_str());
    says("if_exclude=wired");
    expect(machine, "network", State::hint, "if_exclude=wired leaves no interface");
    machine.variables = {{"NCCL_SOCKET_IFNAME", "^ib"}};
    EXPECT_EQ(machine.find("network").text.find("ib0"), std::string::npos);
    machine.variables["POMONA_IF_INCLUDE"] = "ib0";
    expect(machine, "network", State::good, "ib0 10.9.0.3");
    close(file);
    unlink(path);
}

TEST(doctor, python_and_torch) {
    Machine machine = healthy_linux();
    expect(machine, "Python", State::good, "3.12.4 with torch 2.13.0");
    machine.outputs = {{"python3", "3.12.4\n2.9.1+cpu\n"}};
    expect(machine, "Python", State::bad, "2.10");
    machine.outputs = {{"python3", "3.12.4\n"}};
    expect(machine, "Python", State::hint, "pip install");
    machine.outputs.clear();
    expect(machine, "Python", State::hint, "no python3");
}

TEST(doctor, macos_system) {
    Machine machine = healthy_mac();
    expect(machine, "performance cores", State::good, "8, and 2 efficiency cores");
    machine.outputs["sw_vers"] = "13.6.1\n";
    machine.outputs["sysctl -in sysctl.proc_translated"] = "1\n";
    machine.failures["Metal"] = "This machine has no GPU for Metal";
    machine.variables["DYLD_LIBRARY_PATH"] = "/opt/x";
    machine.outputs["pmset -g"] =
        "System-wide power settings:\nCurrently in use:\n sleep                10\n";
    expect(machine, "macOS", State::bad, "14");
    expect(machine, "processor", State::bad, "Rosetta");
    expect(machine, "Metal", State::hint, "no GPU");
    expect(machine, "loader", State::hint, "@rpath");
    expect(machine, "sleep", State::hint, "caffeinate");
    machine.outputs["pmset -g"] =
        " standby 1\n sleep                1 (sleep prevented by caffeinate)\n";
    expect(machine, "sleep", State::good, "");
}

TEST(doctor, macos_thunderbolt) {
    Machine machine = healthy_mac();
    expect(machine, "Thunderbolt", State::good, "MTU 1500");
    expect(machine, "network", State::good, "bridge0 10.0.7.1 (thunderbolt), en0");
    machine.network.pop_back();
    expect(machine, "Thunderbolt", State::hint, "no address");
    for (const char* way : {"for TCP alone", "docs/thunderbolt.md"})
        expect(machine, "Thunderbolt", State::hint, way);
    machine.outputs["ifconfig bridge0"] = "bridge0: flags=8863<UP> mtu 1500\n\tstatus: inactive\n";
    expect(machine, "Thunderbolt", State::hint, "no cable");
    machine.outputs.erase("ifconfig bridge0");
    expect(machine, "Thunderbolt", State::hint, "no Thunderbolt Bridge");
}

// Goal: ports that were taken out of the bridge, as RDMA needs them, are as good as a bridge, with
// addresses of any kind; what is missing is told for both ways.
TEST(doctor, macos_thunderbolt_outside_the_bridge) {
    Machine machine = healthy_mac();
    machine.network.pop_back();
    machine.outputs.erase("ifconfig bridge0");
    machine.outputs["ifconfig en2"] = "en2: flags=8863<UP> mtu 9000\n\tstatus: active\n";
    tcp::Interface port{"en2", "10.0.12.1", true, false, 24, tcp::InterfaceKind::thunderbolt,
                        0,     true};
    machine.network.push_back(port);
    expect(machine, "Thunderbolt", State::good, "en2 has an address; MTU 9000");
    machine.network.back().address = "fe80::1";
    machine.network.push_back({"en3", "169.254.3.1", true, false, 16, port.device, 0, true});
    expect(machine, "Thunderbolt", State::good, "en2 has an address; MTU 9000, en3 has");
    // Of some systems its kind may not be known; a device for RDMA tells then.
    machine.network = {{"lo0", "127.0.0.1", true, true}, {"en3", "169.254.3.1", true, false}};
    expect(machine, "Thunderbolt", State::hint, "no Thunderbolt Bridge");
    machine.devices = {
        "librdma.dylib", {{"rdma_en3", "active", {}, "169.254.3.1", 4096, "", ""}}, "", ""};
    expect(machine, "Thunderbolt", State::good, "en3 has an address");
    machine.network.pop_back();
    machine.devices.devices[0] = {
        "rdma_en3", "active", {}, "", 4096, "rdma_en3 has no address yet", "give it one"};
    expect(machine, "Thunderbolt", State::hint, "a cable is in en3, which is in no bridge");
    machine.outputs["ifconfig bridge0"] = "\tmember: en3 flags=3<LEARNING>\n\tstatus: active\n";
    expect(machine, "Thunderbolt", State::hint, "bridge0 has no address");
    machine.outputs.erase("ifconfig bridge0");
    machine.devices.devices[0].state = "down";
    port.carrier = false;
    machine.network.push_back(port);
    expect(machine, "Thunderbolt", State::hint, "no cable is in");
    expect(machine, "Thunderbolt", State::hint, "ports that are in none");
}

TEST(doctor, macos_firewall) {
    const std::string tool = "/usr/libexec/ApplicationFirewall/socketfilterfw ";
    Machine machine = healthy_mac();
    machine.outputs[tool + "--getglobalstate"] = "Firewall is enabled. (State = 1)\n";
    machine.outputs[tool + "--getblockall"] = "Firewall has block all state set to disabled.\n";
    expect(machine, "firewall", State::hint, "Allow");
    machine.outputs[tool + "--getblockall"] = "Firewall has block all state set to enabled.\n";
    expect(machine, "firewall", State::bad, "blocks all");
    machine.outputs.erase(tool + "--getblockall");
    machine.outputs[tool + "--getglobalstate"] =
        "Firewall is blocking all non-essential incoming connections. (State = 2)\n";
    expect(machine, "firewall", State::bad, "blocks all");
}

TEST(doctor, macos_local_network_permission) {
    Machine machine = healthy_mac();
    expect(machine, "local network", State::good, "Terminal");
    machine.variables["TERM_PROGRAM"] = "vscode";
    expect(machine, "local network", State::hint, "vscode");
    machine.variables = {{"TERM_PROGRAM", "Apple_Terminal"}, {"TMUX", "/tmp/tmux"}};
    expect(machine, "local network", State::hint, "tmux");
    machine.variables = {{"SSH_CONNECTION", "1 2 3 4"}};
    expect(machine, "local network", State::good, "ssh");
    machine.variables = {{"TERM_PROGRAM", "vscode"}};
    machine.outputs["sw_vers"] = "14.7\n";
    expect(machine, "local network", State::good, "before macOS 15");
}

TEST(doctor, json_says_the_same) {
    Machine machine = healthy_linux();
    machine.failures["loopback"] = "a \"quoted\" cause \xff";
    auto findings = examine(machine);
    auto parsed = nlohmann::json::parse(as_json(findings));
    ASSERT_EQ(parsed.size(), findings.size());
    for (size_t i = 0; i < findings.size(); ++i) {
        EXPECT_EQ(parsed[i]["check"], findings[i].check);
        EXPECT_EQ(parsed[i]["mend"], findings[i].mend);
    }
    EXPECT_EQ(parsed[2]["state"], "bad");
    EXPECT_NE(as_text(findings).find("checks: 1 bad, 0 hints"), std::string::npos);
}

// This machine itself: what jobs need must work where the tests run; and a stale folder is found.
TEST(doctor, this_machine) {
    Probes& probes = real_probes();
    EXPECT_EQ(probes.try_shared_memory(), "");
    EXPECT_EQ(probes.try_loopback(), "");
    EXPECT_GE(probes.cores(), probes.usable_cores());
    EXPECT_EQ(probes.run("echo word"), "word\n");
    EXPECT_EQ(probes.run("false"), "");
    std::string tag = make_job_tag();
    auto made = make_job_directory(tag, 0);
    ASSERT_TRUE(made.ok());
    const std::string& folder = *made;
    auto lists = [&](const std::string& path) {
        for (const std::string& each : probes.leftovers())
            if (each == path) return true;
        return false;
    };
    auto listed = [&] { return lists(folder); };
    EXPECT_FALSE(listed());  // it may be a job that starts
    utimbuf old{1000000000, 1000000000};
    ASSERT_EQ(utime(folder.c_str(), &old), 0);
    EXPECT_TRUE(listed());
    // Where several hosts share a disk: nobody here knows whether that job lives.
    std::string elsewhere = folder.substr(0, folder.rfind('-')) + "-wxyz";
    ASSERT_EQ(rename(folder.c_str(), elsewhere.c_str()), 0);
    EXPECT_FALSE(lists(elsewhere));
    ASSERT_EQ(rename(elsewhere.c_str(), folder.c_str()), 0);
#if defined(__linux__)
    // Old shared memory of a job that lives is none either.
    std::string memory = "/dev/shm/pomona-" + tag + "-0";
    std::ofstream(memory) << "x";
    ASSERT_EQ(utime(memory.c_str(), &old), 0);
    EXPECT_TRUE(lists(memory));
    utime(folder.c_str(), nullptr);
    EXPECT_FALSE(lists(memory));
    unlink(memory.c_str());
#endif
    rmdir(folder.c_str());
    EXPECT_FALSE(listed());
}

// ---- several hosts

static HostReport good_host(const char* name, const char* address) {
    HostReport out;
    out.host = name;
    out.reached = true;
    out.version = "0.1.0";
    out.system = "Linux x86_64";
    out.python = "3.11.7";
    out.torch = "2.13.0";
    out.addresses = {address};
    return out;
}

static std::string found(const std::vector<HostReport>& hosts, const std::string& check) {
    for (const Finding& each : compare(hosts))
        if (each.check == check && !each.mend.empty()) return each.text;
    return "";
}

TEST(doctor_hosts, what_they_must_have_in_common) {
    auto a = good_host("a", "10.0.0.1/24"), b = good_host("b", "10.0.0.2/24");
    std::vector<Finding> findings = compare({a, b});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].state, State::good);
    b.torch = "2.10.0";
    EXPECT_EQ(found({a, b}, "torch"), "torch 2.13.0 on a, torch 2.10.0 on b");
    b.python = "";
    EXPECT_EQ(found({a, b}, "python"), "Python 3.11.7 on a, no Python on b");
    b.system = "Darwin arm64";
    EXPECT_EQ(found({a, b}, "systems"), "Linux x86_64 on a, Darwin arm64 on b");
    b.ahead = 7;
    EXPECT_EQ(found({a, b}, "clock"), "that of b differs by 7 s");
    b.addresses = {"192.168.1.2/24"};
    EXPECT_EQ(found({a, b}, "networks"), "a and b have none in common");
    b.addresses = {"10.0.0.1/24"};
    EXPECT_EQ(found({a, b}, "addresses"), "10.0.0.1 is one of a and of b");
    b.reached = false;
    b.why = "mpirun: host b cannot be used: no key";
    EXPECT_EQ(found({a, b}, "ssh"), "b: mpirun: host b cannot be used: no key");
    EXPECT_EQ(found({a, b}, "torch"), "");  // nothing is known of it
}

// Goal: an address of several hosts that no job uses is told once, and nothing is wrong; where one
// of them uses it the other does not reach it there.
TEST(doctor_hosts, addresses_that_are_not_used) {
    auto a = good_host("a", "10.0.0.1/24"), b = good_host("b", "10.0.0.2/24"),
         c = good_host("c", "10.0.0.3/24");
    for (HostReport* host : {&a, &b, &c}) host->idle = {{"172.17.0.1", "docker0", "for its kind"}};
    b.idle.push_back({"10.0.0.2", "alias0", "for its kind"});  // of one host twice
    std::vector<Finding> findings = compare({a, b, c});
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].state, State::good);
    EXPECT_EQ(
        findings[0].text,
        "172.17.0.1 is one of a (docker0), of b (docker0) and of c (docker0), and no job uses "
        "it: for its kind");
    EXPECT_NE(findings[0].mend, "");
    EXPECT_EQ(findings[1].check, "together");
    c.idle.push_back({"10.0.0.1", "br7", "for its kind"});
    findings = compare({a, b, c});
    EXPECT_EQ(findings[0].state, State::hint);
    EXPECT_EQ(findings[0].text,
              "10.0.0.1 is one of a and of c (br7), which does not reach a by it");
    EXPECT_EQ(found({a, b}, "addresses"),
              "172.17.0.1 is one of a (docker0) and of b (docker0), and no job uses it: for its "
              "kind");
    b.idle.clear(), c.idle.clear();
    EXPECT_EQ(found({a, b, c}, "addresses"), "");
}

TEST(doctor_hosts, reports_go_there_and_back) {
    // On a busy machine a report takes seconds.
    auto now = [] { return static_cast<double>(time(nullptr)); };
    double before = now();
    std::string text = own_report(real_probes());
    double took = now() - before + 1;
    HostReport report = read_report("me", "Welcome\n" + text, before, took);
    ASSERT_TRUE(report.reached) << report.why;
    EXPECT_EQ(report.findings.size(), examine(real_probes()).size());
    EXPECT_EQ(report.ahead, 0);
    double ahead = read_report("me", text, before - 60 - took, 0).ahead;
    EXPECT_GE(ahead, 59);
    EXPECT_LE(ahead, 60 + 2 * took);
    for (size_t cut = 0; cut + 1 < text.size(); cut += 7)
        EXPECT_FALSE(read_report("me", text.substr(0, cut), 0, 0).reached) << cut;
    EXPECT_FALSE(read_report("me", "{\"pomona\":1,\"findings\":7}\n", 0, 0).reached);
}

TEST(doctor, devices_for_rdma) {
    Machine machine = healthy_mac();
    expect(machine, "RDMA", State::good, "cannot be opened");
    machine.outputs["rdma_ctl status"] = "disabled\n";
    expect(machine, "RDMA", State::hint, "`rdma_ctl enable`");
    machine.outputs["rdma_ctl status"] = "enabled\n";
    expect(machine, "RDMA", State::hint, "there is no device");
    // "enabled" for ever, and perhaps devices that never work.
    std::string& ports = machine.outputs["system_profiler SPThunderboltDataType"];
    ports =
        "Thunderbolt/USB4:\n  Port:\n    Status: No device connected\n    Speed: Up to 40 Gb/s\n";
    for (const char* enabled : {"enabled\n", "disabled\n"}) {
        machine.outputs["rdma_ctl status"] = enabled;
        expect(machine, "RDMA", State::good, "Thunderbolt 5 is needed");
    }
    machine.devices = {"librdma.dylib",
                       {{"rdma_en3", "down", {}, "", 0, "the port of rdma_en3 is down", "look"}},
                       "",
                       ""};
    expect(machine, "RDMA", State::hint, "Thunderbolt 5 is needed");
    ports = "Thunderbolt/USB4:\n  Port:\n    Status: Device connected\n    Speed: 80 Gb/s\n";
    expect(machine, "RDMA", State::hint, "look");
    machine.devices = {
        "librdma.dylib", {{"rdma_en2", "active", {}, "169.254.3.1", 4096, "", ""}}, "", ""};
    expect(machine, "RDMA", State::good, "rdma_en2 is active, 169.254.3.1");
    machine.devices.devices[0] = {
        "rdma_en1", "active", {}, "", 4096, "rdma_en1 has no address yet", "give it one"};
    expect(machine, "RDMA", State::hint, "en1 is a member of bridge0");
    machine.devices.devices[0].name = "rdma_en3";
    expect(machine, "RDMA", State::hint, "give it one");
}

// Goal: `pomona links` says of a device what the doctor says, with the same mend, and whose wish it
// is where a job does not want it.
TEST(doctor, links_say_the_same_of_devices) {
    Machine machine = healthy_mac();
    Params params;
    auto same = [&](const char* mend) {
        std::vector<LinkDevice> seen = devices_of(machine, params);
        ASSERT_EQ(seen.size(), 1u);
        Finding found = machine.find("RDMA");
        EXPECT_NE((seen[0].why + seen[0].mend).find(mend), std::string::npos) << seen[0].why;
        EXPECT_NE((found.text + found.mend).find(seen[0].why), std::string::npos) << found.text;
        EXPECT_NE((found.text + found.mend).find(seen[0].mend), std::string::npos) << found.mend;
    };
    same("librdma.dylib cannot be opened");
    machine.outputs["rdma_ctl status"] = "disabled\n";
    same("`rdma_ctl enable`");
    machine.outputs["rdma_ctl status"] = "enabled\n";
    same("there is no device");
    machine.devices = {"librdma.dylib",
                       {{"rdma_en1",
                         "active",
                         {"fe80::1"},
                         "",
                         4096,
                         "rdma_en1 has no address yet",
                         "give it one"}},
                       "",
                       ""};
    same("en1 is a member of bridge0");
    EXPECT_EQ(devices_of(machine, params)[0].addresses, std::vector<std::string>{"fe80::1"});
    machine.outputs["system_profiler SPThunderboltDataType"] = "    Speed: Up to 40 Gb/s\n";
    same("Thunderbolt 5 is needed");
    machine.devices.devices.clear();
    same("Thunderbolt 5 is needed");
    machine.devices.devices = {{"rdma_en2", "active", {}, "10.0.0.1", 4096, "", ""}};
    same("");
    params.rdma_devices = "rdma_en3";
    EXPECT_EQ(devices_of(machine, params)[0].why, "rdma_devices=rdma_en3");
    params.transports = "self,shm,tcp";
    EXPECT_EQ(devices_of(machine, params)[0].why, "transports=self,shm,tcp");
    machine.devices.devices.clear();
    EXPECT_EQ(devices_of(machine, params)[0].mend, "");
}
