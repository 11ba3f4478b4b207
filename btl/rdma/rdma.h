// btl/rdma/rdma.h: frames between ranks through RDMA queue pairs: paths of a link (transport.h, rules
// 8 to 14).
// Idea: the two ends agree by words over the link's TCP connection, which stands first and stays: the
// lower rank offers a queue pair of one of its devices to one of the peer's, the other one accepts or
// says why not, and both try it before either uses it. What is lost, doubled or overtaken the link
// repairs. When a device, a port or a queue pair fails, the path is gone, and is made again later.
//
// Files: verbs_abi.h, verbs.* the library and its devices; limits.h what Macs allow; wire.* messages and
// words; cable.* queue pairs, memory, credit; endpoint.* one path; rdma.cc all paths of a process.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/transport.h"

namespace pomona {

struct RdmaOptions {
    int rank = 0;
    Clock* clock = nullptr;  // borrowed
};

// Opens the verbs library. Null where there is none, or no device: `why` says so.
std::unique_ptr<Transport> make_rdma_transport(const Params& params, Counters& counters,
                                               RdmaOptions options, std::string& why);

}  // namespace pomona
