// pmix/launch/cores.cc: see cores.h.
#include "pmix/launch/cores.h"

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

}  // namespace pomona
