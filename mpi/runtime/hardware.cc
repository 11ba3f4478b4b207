// mpi/runtime/hardware.cc: hwloc, opened when somebody asks and not before: linking it would cost
// every rank 0.2 ms of start-up (measured; it brings four more libraries) for one rare call.
#include "mpi/runtime/hardware.h"

#include <dlfcn.h>
#include <hwloc.h>

namespace pomona {

namespace {

#if defined(__APPLE__)
const char* const kNames[] = {"libhwloc.15.dylib", "/opt/homebrew/lib/libhwloc.15.dylib",
                              "/usr/local/lib/libhwloc.15.dylib"};
#else
const char* const kNames[] = {"libhwloc.so.15", "libhwloc.so"};
#endif

// The functions used, by name. hwloc's inline helpers are avoided: they would link.
// Each run of clang-format would make other lines of it.
// clang-format off
#define HWLOC_FUNCTIONS(F)                                                               \
    F(topology_init) F(topology_load) F(topology_destroy) F(topology_get_complete_cpuset) \
    F(get_cpubind) F(get_type_depth) F(get_nbobjs_by_depth) F(get_obj_by_depth)           \
    F(bitmap_alloc) F(bitmap_copy) F(bitmap_isincluded) F(bitmap_free)
// clang-format on

struct Hwloc {
#define FUNCTION(name) decltype(&::hwloc_##name) name = nullptr;
    HWLOC_FUNCTIONS(FUNCTION)
#undef FUNCTION

    bool open() {
        void* library = nullptr;
        for (const char* name : kNames)
            if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library) return false;
        bool all = true;
        auto load = [&](auto& place, const char* name) {
            void* found = dlsym(library, name);
            all = all && found;
            place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(found);
        };
#define FUNCTION(name) load(name, "hwloc_" #name);
        HWLOC_FUNCTIONS(FUNCTION)
#undef FUNCTION
        return all;
    }
};

struct HardwareKind {
    hwloc_obj_type_t type;
    const char* name;
};
constexpr HardwareKind kinds[] = {{HWLOC_OBJ_MACHINE, "hwloc://Machine"},
                                  {HWLOC_OBJ_PACKAGE, "hwloc://Package"},
                                  {HWLOC_OBJ_NUMANODE, "hwloc://NUMANode"},
                                  {HWLOC_OBJ_L3CACHE, "hwloc://L3Cache"},
                                  {HWLOC_OBJ_L2CACHE, "hwloc://L2Cache"},
                                  {HWLOC_OBJ_CORE, "hwloc://Core"},
                                  {HWLOC_OBJ_PU, "hwloc://PU"}};

}  // namespace

std::vector<std::pair<std::string, std::string>> describe_hardware() {
    std::vector<std::pair<std::string, std::string>> answer;
    Hwloc hwloc;
    hwloc_topology_t topology;
    if (!hwloc.open() || hwloc.topology_init(&topology) != 0) return answer;
    if (hwloc.topology_load(topology) == 0) {
        hwloc_bitmap_t bound = hwloc.bitmap_alloc();
        if (hwloc.get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) != 0)
            hwloc.bitmap_copy(bound, hwloc.topology_get_complete_cpuset(topology));
        for (const HardwareKind& kind : kinds) {
            int depth = hwloc.get_type_depth(topology, kind.type);
            unsigned count = hwloc.get_nbobjs_by_depth(topology, depth);
            bool single = false;
            for (unsigned i = 0; i < count && !single; ++i) {
                hwloc_obj_t object = hwloc.get_obj_by_depth(topology, depth, i);
                single = object->cpuset && hwloc.bitmap_isincluded(bound, object->cpuset);
            }
            if (count > 0) answer.emplace_back(kind.name, single ? "true" : "false");
        }
        hwloc.bitmap_free(bound);
    }
    hwloc.topology_destroy(topology);
    return answer;
}

}  // namespace pomona
