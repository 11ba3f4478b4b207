// mpi/runtime/policy.h: what a job's parameters say of how collectives choose their algorithms.
#pragma once

#include "btl/base/params.h"
#include "coll/select.h"

#include <functional>
#include <string>

namespace pomona {

// The costs of links and the users' choices of algorithms. What cannot be used is ignored, with a
// warning, which one rank of a job gives for all (`says`).
coll::Policy make_policy(const Params& params, bool shared_memory, bool says);
// The same; each parameter that cannot be used is left out and refused, with the reason.
using Refuse = std::function<void(const char* parameter, const std::string& problem)>;
coll::Policy make_policy(const Params& params, bool shared_memory, const Refuse& refuse);

}  // namespace pomona
