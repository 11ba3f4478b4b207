// pmix/launch/cores.cc: see cores.h.
#include "pmix/launch/cores.h"

#include "pmix/launch/mapping.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <hwloc.h>

namespace pomona {

static int count_fast(hwloc_topology_t topology) {
    // Kinds are ranked, the fastest last; a negative rank means that hwloc does not know it.
    int kinds = hwloc_cpukinds_get_nr(topology, 0);
    if (kinds < 2) return 0;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int rank = -1, count = 0;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kinds - 1), set, &rank, nullptr,
                                nullptr, 0) == 0 &&
        rank >= 0) {
        hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(topology));
        count = hwloc_bitmap_weight(set);
    }
    hwloc_bitmap_free(set);
    return count;
}

int performance_processors() {
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return 0;
    // Processors only; buses and devices cost most of the time.
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    int count = hwloc_topology_load(topology) == 0 ? count_fast(topology) : 0;
    hwloc_topology_destroy(topology);
    return count;
}

namespace {
// The first words of a file of the system; empty if there is none.
std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Of one control group; 0: no limit.
double limit_of(const std::string& folder, bool second) {
    double quota = 0, period = 0;
    if (second) {  // "200000 100000" or "max 100000"
        std::istringstream(content(folder + "/cpu.max")) >> quota >> period;
    } else {
        std::istringstream(content(folder + "/cpu.cfs_quota_us")) >> quota;
        std::istringstream(content(folder + "/cpu.cfs_period_us")) >> period;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}
}  // namespace

double granted_time(const std::string& groups, const std::string& root) {
    double out = 0;
    std::istringstream lines(groups);
    // "0::/a/b" of version 2, "4:cpu,cpuacct:/a/b" of version 1.
    for (std::string line; std::getline(lines, line);) {
        size_t first = line.find(':'), last = line.find(':', first + 1);
        if (first == line.npos || last == line.npos) continue;
        std::string controllers = "," + line.substr(first + 1, last - first - 1) + ",";
        bool second = controllers == ",,";
        if (!second && controllers.find(",cpu,") == controllers.npos) continue;
        std::string mount = second ? root : root + "/cpu";
        // A group has no more than those around it.
        for (std::string path = line.substr(last + 1);; path.erase(path.rfind('/'))) {
            double limit = limit_of(mount + (path == "/" ? "" : path), second);
            if (limit > 0) out = out > 0 ? std::min(out, limit) : limit;
            if (path.find('/') == path.npos) break;
        }
    }
    return out;
}

int granted_processors() {
    int all = usable_cores();
    double time = granted_time(content("/proc/self/cgroup"), "/sys/fs/cgroup");
    return time > 0 ? std::clamp(static_cast<int>(time), 1, all) : all;
}

int granted_cores() {
    auto cores = static_cast<int>(usable_threads().size());
    return std::min(cores, granted_processors());
}

}  // namespace pomona
