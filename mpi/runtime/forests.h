// mpi/runtime/forests.h: the user's forests (coll/forest.h) of this job: read from the parameter
// `forests`, checked, and held against what is known of the links. All ranks come to the same.
#pragma once

#include "btl/base/params.h"
#include "coll/select.h"
#include "pmix/wireup/wireup.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace pomona {

// Behind the fence, when links are known: those that serve go into `policy`; why others do not the
// first rank says.
void learn_forests(Wireup& wireup, const Params& params, coll::Policy& policy);

// The same of these hosts, named by their machines' numbers; why forests do not serve is told.
void add_forests(std::string_view text, std::span<const std::string> hosts, coll::Policy& policy,
                 const std::function<void(const std::string&)>& tell);

// Those that fit members on these machines (by rank; empty: all are on one).
coll::Forests forests_among(const coll::Policy& policy, std::span<const int> nodes);

}  // namespace pomona
