// pmix/launch/mapping.cc: see mapping.h.
#include "pmix/launch/mapping.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

#include <hwloc.h>
#if defined(__linux__)
#include <sched.h>
#endif

namespace pomona {

namespace {

struct TopologyFree {
    void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyFree>;
struct BitmapFree {
    void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
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

std::vector<std::vector<int>> usable_threads() {
    std::vector<std::vector<int>> cores;
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cores;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (!CPU_ISSET(i, &allowed)) continue;
        std::ifstream file(
            format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", i));
        std::string list;
        std::vector<int> core;
        if (std::getline(file, list))
            for (int thread : parse_cpu_list(list))
                if (thread < CPU_SETSIZE && CPU_ISSET(thread, &allowed)) core.push_back(thread);
        if (core.empty()) core = {i};
        for (int thread : core) CPU_CLR(thread, &allowed);
        cores.push_back(std::move(core));
    }
#endif
    return cores;
}

std::vector<int> parse_cpu_list(const std::string& text) {
    std::vector<int> out;
    for (size_t at = 0; at < text.size();) {
        int first = 0, last = 0, taken = 0;
        if (std::sscanf(text.c_str() + at, "%d-%d%n", &first, &last, &taken) < 2)
            if (std::sscanf(text.c_str() + at, "%d%n", &first, &taken) == 1) last = first;
        if (taken <= 0 || first < 0 || last < first || last >= 1 << 20) return {};
        for (int i = first; i <= last; ++i) out.push_back(i);
        at += static_cast<size_t>(taken);
        if (at < text.size() && text[at] != ',') return {};
        ++at;
    }
    return out;
}

// All threads of these cores.
static void bind_to_cores(Binding& binding, const std::vector<const std::vector<int>*>& cores) {
    constexpr size_t kBits = 8 * sizeof(unsigned long);
    std::vector<int> threads;
    for (const std::vector<int>* core : cores)
        threads.insert(threads.end(), core->begin(), core->end());
    std::sort(threads.begin(), threads.end());
    binding.cpu_mask.assign(static_cast<size_t>(threads.back()) / kBits + 1, 0);
    binding.text.clear();
    for (int thread : threads) {
        auto bit = static_cast<size_t>(thread);
        binding.cpu_mask[bit / kBits] |= 1ul << bit % kBits;
        binding.text += format("{}{}", binding.text.empty() ? "processors " : ",", thread);
    }
}

std::vector<Binding> share_cores(int count, const std::vector<std::vector<int>>& cores) {
    std::vector<Binding> out(static_cast<size_t>(count));
    auto ranks = static_cast<size_t>(count);
    if (ranks < 2 || ranks > cores.size()) return out;
    for (size_t rank = 0; rank < ranks; ++rank) {
        std::vector<const std::vector<int>*> own;
        for (size_t c = rank * cores.size() / ranks; c < (rank + 1) * cores.size() / ranks; ++c)
            own.push_back(&cores[c]);
        bind_to_cores(out[rank], own);
    }
    return out;
}

std::string deal_cores(const std::vector<std::vector<int>>& cores, int each,
                       std::vector<Binding>& out) {
    auto own = static_cast<size_t>(each);
    if (out.size() * own > cores.size())
        return format(messages::too_few_cores, out.size(), each, out.size() * own, cores.size());
    for (size_t rank = 0; rank < out.size(); ++rank) {
        std::vector<const std::vector<int>*> mine;
        for (size_t i = 0; i < own; ++i) mine.push_back(&cores[rank * own + i]);
        bind_to_cores(out[rank], mine);
    }
    return {};
}

std::string name_cores(const std::vector<std::vector<int>>& cores,
                       const std::map<int, std::vector<int>>& wanted, std::vector<Binding>& out) {
    for (const auto& [rank, places] : wanted) {
        if (static_cast<size_t>(rank) >= out.size())
            return format(messages::no_such_rank, rank, out.size());
        std::vector<const std::vector<int>*> mine;
        for (int place : places) {
            if (static_cast<size_t>(place) >= cores.size())
                return format("the rankfile gives a rank core {}, and there are cores 0 to {}",
                              place, cores.size() - 1);
            mine.push_back(&cores[static_cast<size_t>(place)]);
        }
        bind_to_cores(out[static_cast<size_t>(rank)], mine);
    }
    return {};
}

std::string use_processors(const std::vector<int>& processors) {
#if defined(__linux__)
    cpu_set_t set, allowed;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return os_text(errno);
    for (int processor : processors) {
        if (processor >= CPU_SETSIZE || !CPU_ISSET(processor, &allowed))
            return format(messages::foreign_processor, processor);
        CPU_SET(processor, &set);
    }
    return sched_setaffinity(0, sizeof set, &set) == 0 ? "" : os_text(errno);
#else
    (void)processors;
    return "this system cannot bind processes";
#endif
}

Result<std::vector<Binding>> bind_ranks(int count, const Options& options, std::string& note) {
    std::vector<Binding> out(static_cast<size_t>(count));
    BindTo bind = options.bind;
    MapBy map = options.map;
    if (!options.rank_cores.empty() || options.cores_per_rank > 0) {
        std::vector<std::vector<int>> cores = usable_threads();
        if (cores.empty()) {
            note = messages::no_cores_here;
            return out;
        }
        note = options.rank_cores.empty() ? deal_cores(cores, options.cores_per_rank, out)
                                          : name_cores(cores, options.rank_cores, out);
        if (!note.empty()) return Error{Code::invalid_argument, "Ranks cannot be bound so"};
        return out;
    }
    if (bind == BindTo::none) return out;
    if (bind == BindTo::share && map == MapBy::slot) return share_cores(count, usable_threads());
    if (bind == BindTo::share && count > usable_cores()) return out;
    Topology topology = TRY(load_topology());
    const hwloc_topology_support* support = hwloc_topology_get_support(topology.get());
    if (!support->cpubind->set_thisproc_cpubind) {
        note = messages::no_binding;
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
