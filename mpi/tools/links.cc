// mpi/tools/links.cc: `pomona links`: starts the ranks that measure, tells them what to measure,
// and keeps what they found.
#include "mpi/tools/links.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/messages.h"
#include "mpi/tools/report.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/ssh.h"

#include <algorithm>
#include <cstdio>

extern char** environ;

namespace pomona {

namespace {

// One job, of one rank on each of `hosts`; none: this host. All that was printed.
std::string measure(const LinksOptions& options, const std::vector<HostSlots>& hosts) {
    std::string own = own_program();
    std::string folder = own.substr(0, own.rfind('/') + 1);
    std::string command =
        format("{} -q --pmix off --set learn_links=no --bind-to none --map-by ppr:1:node",
               shell_quoted(folder + "mpirun"));
    size_t count = std::max(hosts.size(), size_t{1});
    std::string names;
    for (const HostSlots& host : hosts) names += (names.empty() ? "" : ",") + host.name;
    command += format(" -n {}", count);
    if (!names.empty()) command += " --host " + shell_quoted(names);
    if (!options.ssh.empty()) command += " --ssh " + shell_quoted(options.ssh);
    // `pomona` is found here first, and tried under that path there.
    command = format("PATH={}:\"$PATH\" {} --stdin all pomona links --rank{}", shell_quoted(folder),
                     command, options.look ? " --look" : "");
    LinksDirector director(count);
    return converse(command, [&](const std::string& line) { return director.heard(line); });
}

// mpirun starts no rank while it cannot use a host: the others are measured without it.
LinkReport measure_those_there(const LinksOptions& options, std::vector<HostSlots> hosts) {
    std::vector<HostLost> lost;
    for (;;) {
        std::string printed = measure(options, hosts);
        LinkReport report = read_link_report(printed);
        size_t before = hosts.size();
        if (report.hosts.empty())
            for (HostLost& gone : hosts_lost(printed))
                if (std::erase_if(hosts, [&](const auto& each) { return each.name == gone.name; }))
                    lost.push_back(std::move(gone));
        if (hosts.size() < before && !hosts.empty()) continue;
        if (hosts.size() == before && !lost.empty()) {
            std::string told;
            for (const HostLost& host : lost)
                told += format(messages::host_unusable, host.name, host.why) + "\n";
            report.failure.insert(0, told);
        }
        report.lost = std::move(lost);
        return report;
    }
}

}  // namespace

LinkReport measure_links(const LinksOptions& options, std::vector<LinkMemory>& remembered) {
    HostList parsed;
    if (!options.hosts.empty()) parsed = parse_host_option(options.hosts);
    if (!parsed.mistake.empty()) {
        LinkReport failed;
        failed.failure = format("--host: {}\n", parsed.mistake);
        return failed;
    }
    LinkReport report = measure_those_there(options, parsed.hosts);
    std::string path = cache_path(environ, "link-history");
    if (path.empty()) return report;
    constexpr int kPatienceMs = 2000;
    KeptLock lock(path, kPatienceMs);  // for jobs that end just now
    if (!options.forget)
        if (auto text = read_kept(path); text.ok()) remembered = read_link_memory(*text);
    std::vector<LinkMemory> memory = remembered;
    for (const PairMeasured& pair : report.pairs)
        remember(memory, memory_of(report, pair, today()));
    bool busy =
        !options.keep_busy && std::any_of(report.hosts.begin(), report.hosts.end(),
                                          [](const LinkHost& host) { return !host.busy.empty(); });
    if ((report.pairs.empty() && !options.forget) || !options.keep || busy) return report;
    Status written = write_kept(path, link_memory_text(memory));
    if (!written.ok())
        std::fprintf(stderr, "pomona links: %s (%s)\n", written.error().text().c_str(),
                     path.c_str());
    return report;
}

int links(const LinksOptions& options) {
    std::vector<LinkMemory> before;
    LinkReport report = measure_links(options, before);
    if (options.json) print_report(link_report_json(report, before, today()));
    else std::fputs(link_report_text(report, before, today()).c_str(), stdout);
    if (!report.failure.empty())
        complain("links", format("the links could not all be measured:\n{}", report.failure));
    return report.failure.empty() ? 0 : 1;
}

}  // namespace pomona
