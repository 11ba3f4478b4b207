// btl/rdma/rdma.h: frames between ranks through RDMA queue pairs: paths of a link (transport.h,
// rules 8 to 14).
// Idea: the two ends agree by words over the link's TCP connection, which stands first and stays:
// the lower rank offers a queue pair of one of its devices to one of the peer's, the other one
// accepts or says why not, and both try it before either uses it. What is lost, doubled or
// overtaken the link repairs. When a device, a port or a queue pair fails, the path is gone, and is
// made again later.
//
// Files: verbs_abi.h, verbs.* the library and its devices; driver.* a thread for calls that may not
// return; limits.h what Macs allow; wire.* messages and words; cable.* queue pairs, memory, credit;
// crc32c.*, copiers.* checksums, and threads that copy; endpoint.*, agree.cc one path; devices.*,
// rdma.cc all of a process; neighbour.* who is at a cable's other end; plan.* who gets queue pairs;
// survey.* what people are told of devices; termination.* what is given back before a process ends.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/rdma/plan.h"
#include "btl/transport.h"

namespace pomona {

struct RdmaOptions {
    int rank = 0;
    Clock* clock = nullptr;  // borrowed
    rdma::Plan plan{};       // by which queue pairs are shared out
};

// Opens the verbs library, and makes a transport for each path that there may be to a peer. None
// where there is no library, or no device: `why` says so.
std::vector<std::unique_ptr<Transport>> make_rdma_transports(const Params& params,
                                                             Counters& counters,
                                                             RdmaOptions options, std::string& why);

}  // namespace pomona
