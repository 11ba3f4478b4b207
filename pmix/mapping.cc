// pmix/mapping.cc: see mapping.h.
#include "pmix/mapping.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include <hwloc.h>

namespace pomona {

namespace {

struct TopologyFree { void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); } };
using Topology = std::unique_ptr<hwloc_topology, TopologyFree>;
struct BitmapFree { void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); } };
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapFree>;

hwloc_obj_type_t type_of(BindTo bind) {
    switch (bind) {
        case BindTo::hwthread: return HWLOC_OBJ_PU;
        case BindTo::socket: return HWLOC_OBJ_PACKAGE;
        case BindTo::numa: return HWLOC_OBJ_NUMANODE;
        default: return HWLOC_OBJ_CORE;
    }
}

const char* name_of(hwloc_obj_type_t type) {
    switch (type) {
        case HWLOC_OBJ_PU: return "hardware thread";
        case HWLOC_OBJ_PACKAGE: return "socket";
        case HWLOC_OBJ_NUMANODE: return "NUMA node";
        default: return "core";
    }
}

Result<Topology> load_topology() {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) return os_error(Code::io, "hwloc cannot be started");
    Topology topology(raw);
    // Processors and memory only; buses and devices cost most of the time.
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(raw) != 0)
        return os_error(Code::io, "hwloc cannot read this machine's topology");
    return topology;
}

// The objects of one type that we may run on, in hwloc's order (neighbours are near).
std::vector<hwloc_obj_t> usable_objects(hwloc_topology_t topology, hwloc_obj_type_t type,
                                        hwloc_const_bitmap_t allowed) {
    std::vector<hwloc_obj_t> out;
    int count = hwloc_get_nbobjs_by_type(topology, type);
    for (int i = 0; i < count; ++i) {
        hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, static_cast<unsigned>(i));
        if (object && object->cpuset && hwloc_bitmap_intersects(object->cpuset, allowed))
            out.push_back(object);
    }
    return out;
}

// In turn over sockets (or NUMA nodes): the first object of each, then the second of each, ...
std::vector<hwloc_obj_t> take_in_turn(const std::vector<hwloc_obj_t>& objects,
                                      const std::vector<hwloc_obj_t>& groups) {
    std::vector<std::vector<hwloc_obj_t>> members(groups.size());
    for (hwloc_obj_t object : objects)
        for (size_t g = 0; g < groups.size(); ++g)
            if (hwloc_bitmap_isincluded(object->cpuset, groups[g]->cpuset)) {
                members[g].push_back(object);
                break;
            }
    std::vector<hwloc_obj_t> out;
    for (size_t round = 0; out.size() < objects.size(); ++round) {
        size_t before = out.size();
        for (const auto& group : members)
            if (round < group.size()) out.push_back(group[round]);
        if (out.size() == before) return objects;  // objects larger than the groups
    }
    return out;
}

std::string list_text(hwloc_const_bitmap_t set) {
    char* text = nullptr;
    hwloc_bitmap_list_asprintf(&text, set);
    std::string out = text ? text : "";
    std::free(text);
    return out;
}

Binding binding_to(hwloc_obj_t object, hwloc_const_bitmap_t allowed) {
    Bitmap set(hwloc_bitmap_alloc());
    hwloc_bitmap_and(set.get(), object->cpuset, allowed);
    Binding out;
    int words = hwloc_bitmap_nr_ulongs(set.get());
    out.cpu_mask.resize(static_cast<size_t>(std::max(words, 1)));
    hwloc_bitmap_to_ulongs(set.get(), static_cast<unsigned>(out.cpu_mask.size()),
                           out.cpu_mask.data());
    out.text = format("{} {} (processors {})", name_of(object->type), object->logical_index,
                      list_text(set.get()));
    return out;
}

}  // namespace

Result<std::vector<Binding>> bind_ranks(int count, BindTo bind, MapBy map, std::string& note) {
    std::vector<Binding> out(static_cast<size_t>(count));
    if (bind == BindTo::none) return out;
    Topology topology = TRY(load_topology());
    const hwloc_topology_support* support = hwloc_topology_get_support(topology.get());
    if (!support->cpubind->set_thisproc_cpubind) {
        note = "this system cannot bind processes; --bind-to has no effect";
        return out;
    }
    Bitmap allowed(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
    auto objects = usable_objects(topology.get(), type_of(bind), allowed.get());
    if (objects.empty()) {
        note = format("this machine shows no {}; processes stay unbound", name_of(type_of(bind)));
        return out;
    }
    if (map == MapBy::socket || map == MapBy::numa) {
        auto type = map == MapBy::socket ? HWLOC_OBJ_PACKAGE : HWLOC_OBJ_NUMANODE;
        objects = take_in_turn(objects, usable_objects(topology.get(), type, allowed.get()));
    }
    if (static_cast<size_t>(count) > objects.size())
        note = format("{} processes share {} {}s; bindings overlap", count, objects.size(),
                      name_of(type_of(bind)));
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = binding_to(objects[i % objects.size()], allowed.get());
    return out;
}

}  // namespace pomona
