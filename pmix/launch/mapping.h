// pmix/launch/mapping.h: which cores a rank is bound to, by hwloc.
// Idea: reading the topology costs about ten milliseconds, more than the rest of a start; so it is
// read only when something was asked for that needs it. By default ranks get equal shares of the
// cores, for which Linux says enough in a few small files: so two ranks never meet on a core, and
// threads of a rank have room.
#pragma once

#include "btl/base/result.h"
#include "pmix/launch/options.h"

#include <map>
#include <string>
#include <vector>

namespace pomona {

struct Binding {
    std::vector<unsigned long> cpu_mask;  // empty: not bound
    std::string text;                     // "core 1 (hardware threads 1,3)"
};

// "0-3,8" as numbers; empty when it does not parse.
std::vector<int> parse_cpu_list(const std::string& text);
// The hardware threads that mpirun may run on, by core; none where processes cannot be bound.
std::vector<std::vector<int>> usable_threads();
// Equal shares of `cores` (each its hardware threads) for `count` ranks, neighbours together;
// unbound when there are fewer cores than ranks, or one rank.
std::vector<Binding> share_cores(int count, const std::vector<std::vector<int>>& cores);
// So many cores for each, one after the other; or those that a rankfile names, by their place in
// `cores` (ranks that it does not name stay unbound). A mistake as text.
std::string deal_cores(const std::vector<std::vector<int>>& cores, int each,
                       std::vector<Binding>& out);
std::string name_cores(const std::vector<std::vector<int>>& cores,
                       const std::map<int, std::vector<int>>& wanted, std::vector<Binding>& out);

// One binding a rank of this machine, `count` of them. On macOS, which cannot bind, and where an
// object type is missing, `note` says so and the bindings are empty or wider. What cannot be done
// is an error, with `note` as its reason.
Result<std::vector<Binding>> bind_ranks(int count, const Options& options, std::string& note);

// mpirun's own process, and so all that it starts, runs on these processors alone; a mistake as
// text.
std::string use_processors(const std::vector<int>& processors);

}  // namespace pomona
