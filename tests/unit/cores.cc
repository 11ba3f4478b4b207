// tests/unit/cores.cc: how many performance cores mpirun sees.
// Goal: a machine of two kinds of cores gives those of the fast kind. Method: hwloc writes such a
// machine to a file, and HWLOC_XMLFILE makes it the one that is seen.
#include "pmix/launch/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <hwloc.h>
#include <unistd.h>

namespace {

// A machine of 10 cores, the last `slow` of which are of a slower kind.
void pretend(int slow) {
    std::string path = testing::TempDir() + "pomona-cores-" + std::to_string(getpid()) + ".xml";
    hwloc_topology_t topology;
    ASSERT_EQ(hwloc_topology_init(&topology), 0);
    ASSERT_EQ(hwloc_topology_set_synthetic(topology, "core:10 pu:1"), 0);
    ASSERT_EQ(hwloc_topology_load(topology), 0);
    if (slow > 0) {
        hwloc_bitmap_t set = hwloc_bitmap_alloc();
        hwloc_bitmap_set_range(set, 0, 9 - slow);
        ASSERT_EQ(hwloc_cpukinds_register(topology, set, 1, 0, nullptr, 0), 0);
        hwloc_bitmap_free(set);
        set = hwloc_bitmap_alloc();
        hwloc_bitmap_set_range(set, static_cast<unsigned>(10 - slow), 9);
        ASSERT_EQ(hwloc_cpukinds_register(topology, set, 0, 0, nullptr, 0), 0);
        hwloc_bitmap_free(set);
    }
    ASSERT_EQ(hwloc_topology_export_xml(topology, path.c_str(), 0), 0);
    hwloc_topology_destroy(topology);
    setenv("HWLOC_XMLFILE", path.c_str(), 1);
    EXPECT_EQ(pomona::performance_processors(), slow > 0 ? 10 - slow : 0);
    unsetenv("HWLOC_XMLFILE");
    unlink(path.c_str());
}

TEST(cores, fast_ones_are_counted) { pretend(4); }
TEST(cores, all_alike_are_no_kind) { pretend(0); }

}  // namespace
