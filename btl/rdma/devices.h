// btl/rdma/devices.h: what the RDMA transports of one process have in common: its devices.
// Idea: each transport makes one path to each peer (transport.h), and a device is one cable, so
// there are as many transports as devices, up to some. No two paths to a peer may go by one device:
// it is taken before.
#pragma once

#include "btl/base/params.h"
#include "btl/rdma/copiers.h"
#include "btl/rdma/verbs.h"

#include <map>
#include <memory>
#include <set>

namespace pomona::rdma {

class Devices {
public:
    // Opens the verbs library. Null where there is none, or no device: `why` says so.
    static std::shared_ptr<Devices> open(const Params& params, std::string& why);
    Copiers& copiers() { return *copiers_; }  // of all paths

    size_t size() const { return devices_.size(); }
    Device& operator[](size_t index) { return *devices_[index]; }
    // How many paths to a peer there may be.
    int paths() const;
    // False when another path to this peer goes by it.
    bool take(int peer, int path, size_t device);
    void release(int peer, int path) { taken_.erase({peer, path}); }
    // By another path than this one?
    bool is_reached(int peer, int path) const;
    // The first path to a peer chooses its device before the others do.
    void has_chosen(int peer) { chosen_.insert(peer); }
    bool chosen(int peer) const { return chosen_.count(peer) != 0; }

private:
    std::vector<std::unique_ptr<Device>> devices_;
    std::unique_ptr<Copiers> copiers_;
    std::map<std::pair<int, int>, size_t> taken_;  // by peer and path
    std::set<int> chosen_;
};

}  // namespace pomona::rdma
