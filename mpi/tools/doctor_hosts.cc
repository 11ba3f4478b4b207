// mpi/tools/doctor_hosts.cc: `pomona doctor --host a,b`: the checks of several hosts, and what they
// must have in common.
// Idea: mpirun starts `pomona doctor --report` on each host, so what it says of a host that cannot
// be reached is the finding; what the reports say is compared here.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/tcp/interfaces.h"
#include "btl/tcp/ip.h"
#include "mpi/tools/links.h"
#include "mpi/tools/report.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/host.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/ssh.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <thread>

extern char** environ;

namespace pomona::doctor {

namespace {

constexpr const char* kReportMark = "{\"pomona\":";
constexpr double kClockMost = 2;  // seconds between clocks, beside the time that asking takes

nlohmann::json as_values(const std::vector<Finding>& findings) {
    return nlohmann::json::parse(as_json(findings), nullptr, false);
}

std::string first_line(std::string text) {
    text = text.substr(0, text.find('\n'));
    return text.substr(0, 200);
}

bool all_good(const std::vector<Finding>& findings) {
    return std::all_of(findings.begin(), findings.end(),
                       [](const Finding& each) { return each.state == State::good; });
}

std::vector<Finding> read_findings(const nlohmann::json& list) {
    std::vector<Finding> out;
    for (const auto& each : list) {
        std::string state = each.value("state", "");
        out.push_back({each.value("check", ""),
                       state == "bad"    ? State::bad
                       : state == "hint" ? State::hint
                                         : State::good,
                       each.value("text", ""), each.value("mend", "")});
    }
    return out;
}

template <class Value> std::string differing(const std::vector<HostReport>& hosts, Value value) {
    std::string out;
    bool differ = false;
    for (const HostReport& host : hosts) {
        if (!host.reached) continue;
        out += pomona::format("{}{} on {}", out.empty() ? "" : ", ", value(host), host.host);
        differ =
            differ || value(host) !=
                          value(*std::find_if(hosts.begin(), hosts.end(),
                                              [](const HostReport& each) { return each.reached; }));
    }
    return differ ? out : "";
}

bool share_network(const HostReport& a, const HostReport& b) {
    for (const std::string& one : a.addresses)
        for (const std::string& other : b.addresses) {
            auto network = tcp::Network::parse(one);
            auto ip = tcp::Ip::parse(other.substr(0, other.find('/')));
            if (network && ip && same_network(network->ip, *ip, network->prefix)) return true;
        }
    return false;
}

// Interfaces of one network that take packets of different lengths: what the longer one sends may
// vanish.
std::vector<Finding> unlike_packets(const LinkReport& report) {
    struct Place {
        const LinkHost* host;
        const LinkInterface* interface;
    };
    std::vector<Finding> out;
    std::vector<Place> seen;
    for (const LinkHost& host : report.hosts)
        for (const LinkInterface& each : host.interfaces) {
            auto network = tcp::Network::parse(each.address);
            if (!each.taken || each.mtu == 0 || !network || network->ip.link_local()) continue;
            auto other = std::find_if(seen.begin(), seen.end(), [&](const Place& known) {
                auto ip = tcp::Network::parse(known.interface->address);
                return known.host != &host && known.interface->mtu != each.mtu && ip &&
                       same_network(network->ip, ip->ip, network->prefix);
            });
            bool told = other != seen.end() &&
                        std::any_of(out.begin(), out.end(), [&](const Finding& finding) {
                            return finding.text.starts_with(
                                pomona::format("{} of {} has", each.name, host.name));
                        });
            if (other != seen.end() && !told)
                out.push_back(
                    {"MTU", State::hint,
                     pomona::format("{} of {} has {}, {} of {} in the same network {}", each.name,
                                    host.name, each.mtu, other->interface->name, other->host->name,
                                    other->interface->mtu),
                     "set both alike, and no more than the switch between them takes: long "
                     "packets vanish else, and connections stand still"});
            seen.push_back({&host, &each});
        }
    return out;
}

// What jobs use here; and the rest, which hurts nobody, whoever else has it, until a job uses it.
void list_addresses(const Probes& probes, nlohmann::json& used, nlohmann::json& idle) {
    tcp::InterfaceFilter filter;
    std::string mistake;
    tcp::NetworkWish wish = interfaces_wanted(probes, probes.params(), filter, mistake);
    if (!mistake.empty()) filter = {}, wish = {};  // it is a finding of this host's
    auto tells = [](const tcp::Interface& each) {
        return !each.loopback && !each.ip().link_local();
    };
    System system = probes.system();
    std::vector<tcp::Interface> all = probes.interfaces();
    for (const tcp::Interface& each : tcp::choose_interfaces(all, filter, system))
        if (tells(each)) used.push_back(pomona::format("{}/{}", each.address, each.prefix));
    for (const tcp::Interface& each : all)
        if (each.up && tells(each) && !filter.takes(each, system))
            idle.push_back({{"address", each.address},
                            {"interface", each.name},
                            {"why", tcp::why_not_taken(each, wish, system)}});
}

// Addresses that several hosts have and not all of them use. Where nobody does, as of a bridge of
// virtual machines that all systems call alike, it is told for whoever would use it.
std::vector<Finding> idle_twice(const std::vector<HostReport>& hosts,
                                const std::map<std::string, std::string>& owners) {
    struct Seen {
        std::vector<std::string> places, hosts;  // "b (docker0)", "b"
        std::string why;
    };
    std::map<std::string, Seen> idle;
    for (const HostReport& host : hosts)
        for (const HostReport::Idle& each : host.idle) {
            Seen& seen = idle[each.address];
            if (!seen.hosts.empty() && seen.hosts.back() == host.host) continue;
            seen.hosts.push_back(host.host);
            seen.places.push_back(pomona::format("{} ({})", host.host, each.interface));
            if (seen.why.empty()) seen.why = each.why;
        }
    std::vector<Finding> out, good;
    for (auto& [address, seen] : idle) {
        auto owner = owners.find(address);
        bool used = owner != owners.end();
        if (used) {
            auto own = std::find(seen.hosts.begin(), seen.hosts.end(), owner->second);
            if (own != seen.hosts.end()) {
                seen.places.erase(seen.places.begin() + (own - seen.hosts.begin()));
                seen.hosts.erase(own);
            }
        }
        if (seen.hosts.size() + (used ? 1 : 0) < 2) continue;
        auto joined = [](const std::vector<std::string>& list, const char* of) {
            std::string text;
            for (size_t i = 0; i < list.size(); ++i)
                text += (i == 0 ? "" : i + 1 < list.size() ? ", " : " and ") + (of + list[i]);
            return text;
        };
        if (used)
            out.push_back({"addresses", State::hint,
                           pomona::format("{} is one of {} and {}, which {} not reach {} by it",
                                          address, owner->second, joined(seen.places, "of "),
                                          seen.hosts.size() > 1 ? "do" : "does", owner->second),
                           "give one of them another, if no other network joins these hosts"});
        else
            good.push_back(
                {"addresses", State::good,
                 pomona::format("{} is one {}, and no job uses it: {}", address,
                                joined(seen.places, "of "), seen.why),
                 "none is needed as it is; before if_include names it, give each host another "
                 "address there (Docker: \"bip\" in /etc/docker/daemon.json)"});
    }
    out.insert(out.end(), good.begin(), good.end());
    return out;
}

HostReport report_of(const std::string& host, const std::string& mpirun, const std::string& ssh) {
    // Its report is of the host as it is, without the library path that mpirun lays for ranks.
    std::string command = pomona::format("{} -q -n 1 --library-path off --host {}",
                                         shell_quoted(mpirun), shell_quoted(host));
    if (!ssh.empty()) command += " --ssh " + shell_quoted(ssh);
    double before = static_cast<double>(std::time(nullptr));
    std::string text = ask(command + " pomona doctor --report");
    double took = static_cast<double>(std::time(nullptr)) - before;
    return read_report(host, text, before, took);
}

}  // namespace

HostReport read_report(const std::string& host, const std::string& text, double before,
                       double took) {
    HostReport out;
    out.host = host;
    size_t start = text.find(kReportMark);
    auto report = start == text.npos
                      ? nlohmann::json()
                      : nlohmann::json::parse(text.substr(start, text.find('\n', start) - start),
                                              nullptr, false);
    if (!report.is_object()) {
        out.why = text.empty() ? "mpirun says nothing of it" : text;
        while (!out.why.empty() && out.why.back() == '\n') out.why.pop_back();
        return out;
    }
    out.reached = true;
    try {
        out.version = report.value("pomona", "");
        out.system = report.value("system", "");
        out.python = report.value("python", "");
        out.torch = report.value("torch", "");
        out.program = report.value("program", "");
        out.python_program = report.value("python_program", "");
        out.addresses = report.value("addresses", std::vector<std::string>());
        for (const auto& each : report.value("idle", nlohmann::json::array()))
            out.idle.push_back(
                {each.value("address", ""), each.value("interface", ""), each.value("why", "")});
        double time = report.value("time", before);
        out.ahead = std::max(0.0, std::fabs(time - before - took / 2) - took / 2 - 1);
        out.findings = read_findings(report.at("findings"));
    } catch (const nlohmann::json::exception&) {
        out.reached = false;
        out.why = "its report does not parse";
    }
    return out;
}

std::string own_report(const Probes& probes) {
    HostFacts facts = facts_here(environ);
    std::string python = first_line(probes.run("python3 -c 'import sys; print(sys.version)'"));
    std::string python_program =
        first_line(probes.run("python3 -c 'import sys; print(sys.executable)'"));
    std::string torch =
        first_line(probes.run("python3 -c 'import torch; print(torch.__version__)'"));
    nlohmann::json used = nlohmann::json::array(), idle = used;
    list_addresses(probes, used, idle);
    nlohmann::json out{{"pomona", facts.version},
                       {"system", facts.system},
                       {"time", static_cast<double>(std::time(nullptr))},
                       {"python", python.substr(0, python.find(' '))},
                       {"torch", torch},
                       {"program", own_program()},
                       {"python_program", python_program},
                       {"addresses", used},
                       {"idle", idle},
                       {"findings", as_values(examine(probes))}};
    // The mark is the first member.
    std::string text = out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return pomona::format("{}\"{}\",{}\n", kReportMark, facts.version, text.substr(1));
}

std::vector<Finding> compare(const std::vector<HostReport>& hosts) {
    std::vector<Finding> out;
    for (const HostReport& host : hosts)
        if (!host.reached)
            out.push_back({"ssh", State::bad, pomona::format("{}: {}", host.host, host.why),
                           "docs/multi-node.md tells what each host needs"});
    auto same = [&](const char* what, const std::string& text, const char* mend) {
        if (!text.empty()) out.push_back({what, State::hint, text, mend});
    };
    same("python",
         differing(hosts,
                   [](const HostReport& host) {
                       return host.python.empty() ? std::string("no Python")
                                                  : "Python " + host.python;
                   }),
         "training needs one version on all: an environment of the same packages on each");
    same("torch",
         differing(hosts,
                   [](const HostReport& host) {
                       return host.torch.empty() ? std::string("no torch") : "torch " + host.torch;
                   }),
         "training needs one version on all: pip install torch==VERSION on each");
    same("systems", differing(hosts, [](const HostReport& host) { return host.system; }),
         "do not send long double or wchar_t between them: their forms differ");
    std::map<std::string, std::string> owners;
    for (const HostReport& host : hosts) {
        if (host.ahead > kClockMost)
            out.push_back({"clock", State::hint,
                           pomona::format("that of {} differs by {:.0f} s", host.host, host.ahead),
                           "let it set its time by itself; times in logs mislead else"});
        for (const std::string& each : host.addresses) {
            std::string address = each.substr(0, each.find('/'));
            auto [known, fresh] = owners.try_emplace(address, host.host);
            if (!fresh && known->second != host.host)
                out.push_back(
                    {"addresses", State::bad,
                     pomona::format("{} is one of {} and of {}", address, known->second, host.host),
                     "give one of them another, or leave the interface out: "
                     "POMONA_IF_EXCLUDE=ADDRESS"});
        }
    }
    for (Finding& each : idle_twice(hosts, owners)) out.push_back(std::move(each));
    for (size_t i = 0; i < hosts.size(); ++i)
        for (size_t k = i + 1; k < hosts.size(); ++k)
            if (hosts[i].reached && hosts[k].reached && !share_network(hosts[i], hosts[k]))
                out.push_back(
                    {"networks", State::hint,
                     pomona::format("{} and {} have none in common", hosts[i].host, hosts[k].host),
                     "they talk through a router, if at all; a cable between them is "
                     "quicker"});
    if (all_good(out))
        out.push_back({"together", State::good,
                       pomona::format("{} hosts are reached and fit each other", hosts.size()),
                       ""});
    return out;
}

int command_on_hosts(const std::string& list, const std::string& ssh, bool json) {
    HostList parsed = parse_host_option(list);
    if (!parsed.mistake.empty()) {
        complain("doctor", pomona::format("--host: {}", parsed.mistake));
        return 2;
    }
    std::string own = own_program();
    std::string folder = own.empty() ? "" : own.substr(0, own.rfind('/') + 1);
    // `pomona` is found here first, and tried under that path there.
    std::string search = folder + ":" + real_probes().variable("PATH");
    if (!folder.empty()) setenv("PATH", search.c_str(), 1);
    std::vector<HostReport> reports(parsed.hosts.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < reports.size(); ++i)
        threads.emplace_back(
            [&, i] { reports[i] = report_of(parsed.hosts[i].name, folder + "mpirun", ssh); });
    for (std::thread& each : threads) each.join();
    std::vector<Finding> together = compare(reports), all = together;
    std::string reached;
    for (const HostReport& host : reports)
        if (host.reached) reached += (reached.empty() ? "" : ",") + host.host;
    LinkReport measured;
    std::vector<LinkMemory> before;
    if (reached.find(',') != reached.npos) {
        measured = measure_links({reached, ssh, json, false}, before);
        for (const Finding& each : unlike_packets(measured)) {
            std::erase_if(together, [](const auto& known) { return known.check == "together"; });
            together.push_back(each);
            all.push_back(each);
        }
        if (!measured.failure.empty()) {
            all.push_back({"links", State::bad,
                           "they could not all be measured: " + measured.failure,
                           "pomona links --host tries it again; docs/troubleshooting.md"});
            together.push_back(all.back());
        }
    }
    bool tried = !measured.pairs.empty() || !measured.unreached.empty();
    if (json) {
        nlohmann::json hosts = nlohmann::json::array();
        for (const HostReport& host : reports)
            hosts.push_back({{"host", host.host},
                             {"reached", host.reached},
                             {"pomona", host.version},
                             {"system", host.system},
                             {"python", host.python},
                             {"torch", host.torch},
                             {"program", host.program},
                             {"python_program", host.python_program},
                             {"addresses", host.addresses},
                             {"findings", as_values(host.findings)}});
        nlohmann::json out{{"hosts", hosts}, {"together", as_values(together)}};
        if (tried)
            out["links"] = nlohmann::json::parse(link_report_json(measured, before, today()));
        print_report(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
    for (const HostReport& host : reports) {
        all.insert(all.end(), host.findings.begin(), host.findings.end());
        if (!json && host.reached)
            std::printf("%s (%s, Pomona %s at %s, %s)\n%s\n", host.host.c_str(),
                        host.system.c_str(), host.version.c_str(), host.program.c_str(),
                        host.python_program.empty() ? "no python3" : host.python_program.c_str(),
                        as_text(host.findings).c_str());
    }
    if (!json) std::printf("all together\n%s", as_text(together).c_str());
    if (!json && tried)
        std::printf("\nlinks\n%s", link_report_text(measured, before, today()).c_str());
    bool bad = std::any_of(all.begin(), all.end(),
                           [](const Finding& each) { return each.state == State::bad; });
    return bad ? 1 : 0;
}

}  // namespace pomona::doctor
