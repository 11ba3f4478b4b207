// tests/unit/cores.cc: how many performance cores mpirun sees.
// Goal: a machine of two kinds of cores gives those of the fast kind. Method: hwloc writes such a
// machine to a file, and HWLOC_XMLFILE makes it the one that is seen. And how much processor time
// control groups grant.
#include "pmix/launch/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
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

// Files of control groups, as the system has them, in a folder of the test.
class Groups : public testing::Test {
protected:
    std::string root = testing::TempDir() + "pomona-groups-" + std::to_string(getpid());
    void TearDown() override { std::filesystem::remove_all(root); }
    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
        std::ofstream(root + path) << text << "\n";
    }
};

TEST_F(Groups, of_version_2) {
    EXPECT_EQ(pomona::granted_time("0::/a/b\n", root), 0);
    write("/a/b/cpu.max", "max 100000");
    EXPECT_EQ(pomona::granted_time("0::/a/b\n", root), 0);
    write("/a/cpu.max", "250000 100000");
    EXPECT_EQ(pomona::granted_time("0::/a/b\n", root), 2.5);
    write("/a/b/cpu.max", "400000 100000");  // no more than the group around it
    EXPECT_EQ(pomona::granted_time("0::/a/b\n", root), 2.5);
    write("/a/b/cpu.max", "50000 100000");
    EXPECT_EQ(pomona::granted_time("0::/a/b\n", root), 0.5);
    write("/cpu.max", "300000 100000");  // as a container sees its own group
    EXPECT_EQ(pomona::granted_time("0::/\n", root), 3);
}

TEST_F(Groups, of_version_1) {
    write("/cpu/docker/x/cpu.cfs_quota_us", "-1");
    write("/cpu/docker/x/cpu.cfs_period_us", "100000");
    const char* groups = "4:cpuset:/y\n3:cpu,cpuacct:/docker/x\n0::/\n";
    EXPECT_EQ(pomona::granted_time(groups, root), 0);
    write("/cpu/docker/x/cpu.cfs_quota_us", "150000");
    EXPECT_EQ(pomona::granted_time(groups, root), 1.5);
}

TEST_F(Groups, what_does_not_parse_grants_all) {
    write("/a/cpu.max", "many");
    for (const char* groups : {"", "0", "0:", "0::", "0::/a", ":::::", "1:cpu:"})
        EXPECT_EQ(pomona::granted_time(groups, root), 0) << groups;
}

TEST(cores, what_mpirun_may_use) {
    EXPECT_GE(pomona::granted_processors(), 1);
    EXPECT_LE(pomona::granted_cores(), pomona::granted_processors());
}

TEST(cores, fast_ones_are_counted) { pretend(4); }
TEST(cores, all_alike_are_no_kind) { pretend(0); }

}  // namespace
