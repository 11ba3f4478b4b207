// mpi/tools/links.h: `pomona links`: how the hosts of a job reach each other, measured, and
// compared with what was measured before.
// Idea: mpirun starts one rank of `pomona links --rank` on each host. First each looks whom it
// reaches; then they measure pair by pair and ask the library by which paths (MPIX_Link_paths).
// They answer in lines of JSON, which are read, printed and remembered here. What comes next they
// hear from here, by mpirun's standard input: ranks that cannot reach each other cannot agree.
#pragma once

#include "pmix/link_history.h"

#include <cstddef>
#include <string>
#include <vector>

namespace pomona {

struct Params;
namespace doctor {
class Probes;
}

struct LinksOptions {
    std::string hosts;  // as for mpirun --host; "": this one
    std::string ssh;    // what replaces ssh, or ""
    bool json = false;
    bool forget = false;
    bool keep = true;        // what was measured
    bool look = false;       // first whether the hosts are busy; what such hosts say is not kept
    bool keep_busy = false;  // but it is
};

// An interface of a host, and whether the library takes it.
struct LinkInterface {
    std::string name, address, kind, why;  // why: it is not taken
    int mtu = 0;
    bool taken = false;
    // Packets since it was set up, both ways: damaged and dropped ones. -1: not known.
    int64_t damaged = -1, dropped = -1;
};
// A device for RDMA; without a name: why there is none.
struct LinkDevice {
    std::string name, state, address, why, mend;
    int mtu = 0;
    std::vector<std::string> addresses{};  // all GIDs; `address` is the one for peers
};
struct LinkHost {
    std::string name;
    std::vector<LinkInterface> interfaces;
    std::vector<LinkDevice> devices{};
    std::string busy{};  // why figures of it are not to be kept, if that was looked for
};
struct PathSeen {
    std::string name, state, kind, text, why;
    bool first = false;
    // As the library has seen them, or, of a path that has carried all, as measured; 0: not known.
    double round_trip_us = 0, gigabits = 0;
    // Of RDMA: the devices at both ends of its cable.
    std::string device{}, peer_device{};
};
struct PairMeasured {
    int from = 0, to = 0;  // ranks: numbers of hosts
    std::string by;        // "connected", "shared memory"
    double latency_us = 0, gigabits = 0;
    std::vector<PathSeen> paths;
};
// A host's device that carries nothing between two hosts.
struct DeviceIdle {
    std::string host, device, why;
};
// Between these nothing goes, not through another rank either.
struct PairUnreached {
    int from = 0, to = 0;
    std::string why;
};
// mpirun cannot use it; why, and the mend.
struct HostLost {
    std::string name, why;
};
struct LinkReport {
    std::vector<LinkHost> hosts;
    std::vector<PairMeasured> pairs;
    std::vector<PairUnreached> unreached{};
    std::vector<HostLost> lost{};
    std::string failure;  // what mpirun and the ranks said when there is no report
};

// This host's devices, with what stands in their way and the mend, as `pomona doctor` says it; or
// why jobs do not want them.
std::vector<LinkDevice> devices_of(const doctor::Probes& probes, const Params& params);

// Of all that was printed by the ranks and by mpirun.
LinkReport read_link_report(const std::string& text);
// Whom mpirun says it cannot use.
std::vector<HostLost> hosts_lost(const std::string& text);
std::vector<DeviceIdle> idle_devices(const LinkReport& report, const PairMeasured& pair);
LinkMemory memory_of(const LinkReport& report, const PairMeasured& pair, const std::string& date);
// "0.095 Gb/s in a job on 2026-11-27": what of the pair is kept that jobs have seen, the last one;
// "" where a measurement came later, or there is nothing.
std::string seen_by_jobs(const LinkMemory& now, const std::vector<LinkMemory>& before);
// A sentence where the pair is much slower than it was; "" else.
std::string compared_with_before(const LinkMemory& now, const std::vector<LinkMemory>& before);
std::string link_report_text(const LinkReport& report, const std::vector<LinkMemory>& before,
                             const std::string& date);
std::string link_report_json(const LinkReport& report, const std::vector<LinkMemory>& before,
                             const std::string& date);

// Says what the ranks do next.
class LinksDirector {
public:
    explicit LinksDirector(size_t hosts) : hosts_(hosts) {}

    // To all ranks, after one has printed this line; "": nothing yet.
    std::string heard(const std::string& line);

private:
    std::string next();

    size_t hosts_, reports_ = 0, told_ = 0;
    std::vector<PairUnreached> unreached_;
    std::vector<std::string> pairs_;  // that are still to be measured, where some cannot be
};

// Starts the ranks. `remembered` gets what was known before, and today's is kept.
LinkReport measure_links(const LinksOptions& options, std::vector<LinkMemory>& remembered);

// The command, and the part of one rank.
int links(const LinksOptions& options);
int links_rank(bool look);

}  // namespace pomona
