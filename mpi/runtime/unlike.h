// mpi/runtime/unlike.h: jobs whose machines have different systems: what their processes tell each other of
// their basic types' formats (mpi/object/formats.h), and the refusal of types that they do not have alike.
#pragma once

#include "btl/base/params.h"
#include "btl/base/result.h"
#include "mpi/object/formats.h"
#include "pmix/wireup/wireup.h"

#include <string>
#include <vector>

namespace pomona {

class Communicator;
class Datatype;

// Before the fence of a job with several nodes.
Status publish_formats(Wireup& wireup, const Params& params);
// After it: those of each node; empty where all are alike. Marks the types that are not.
std::vector<Formats> find_formats(Wireup& wireup);

// Why a datatype that is not plain cannot go between this process and `peer` (whom a rank names in point
// to point), or -1: among all members; "" where it can.
std::string unlike_format(const Communicator& comm, const Datatype& type, int peer = -1);

}  // namespace pomona
