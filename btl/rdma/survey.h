// btl/rdma/survey.h: what a person should know of this machine's RDMA devices: their state, and
// what stands in the way of each, with its mend. For `pomona links` and `pomona doctor`. Nothing is
// changed; a device is opened and closed again.
#pragma once

#include <string>
#include <vector>

namespace pomona::rdma {

struct DeviceSeen {
    std::string name;
    std::string state;  // of its port: "active", "down", ...; "closed": it does not open
    std::vector<std::string> addresses;  // GIDs
    std::string address;                 // the one by which peers reach it
    int mtu = 0;
    std::string why, mend;  // it cannot be used now; empty: it can
};

struct Survey {
    std::string library;
    std::vector<DeviceSeen> devices;
    std::string why, mend;       // there is no device
    bool can_be_mended = false;  // without a device: there would be one
};

Survey survey();

}  // namespace pomona::rdma
