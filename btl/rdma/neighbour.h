// btl/rdma/neighbour.h: makes the system look for who has an address at a cable's other end.
// Reason: on Macs a queue pair is not joined to an address whose owner the system has not found
// yet (a cold neighbour cache: others report ETIMEDOUT), and RDMA itself does not look.
#pragma once

#include "btl/rdma/verbs.h"

#include <string>

namespace pomona::rdma {

// Sends a datagram without content to the address, by the device's interface where the address
// does not tell: rdma_en2 is that of en2. Whether it arrives does not matter, and nobody waits.
// `port`: that of the discard service (RFC 863), where nobody listens.
void look_for_neighbour(const std::string& device, const GidBytes& gid, uint16_t port = 9);

}  // namespace pomona::rdma
