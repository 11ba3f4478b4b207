// btl/rdma/devices.cc: see devices.h.
#include "btl/rdma/devices.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"

#include <algorithm>

namespace pomona::rdma {

static constexpr size_t kPathsMost = 4;

std::shared_ptr<Devices> Devices::open(const Params& params, std::string& why) {
    auto library = Library::open(why);
    if (!library) return nullptr;
    auto out = std::make_shared<Devices>();
    Reason hangs;
    for (std::string& name : device_names(library, params.rdma_devices, hangs))
        out->devices_.push_back(std::make_unique<Device>(library, std::move(name)));
    for (const auto& each : out->devices_) each->watched = true;
    if (!out->devices_.empty()) return out;
    why = hangs.text();
    if (!why.empty()) {
        LOG(warn, btl, messages::rdma_without, why);
        return nullptr;
    }
    why = format(messages::rdma_no_device, library->path,
                 params.rdma_devices.empty() ? "" : " of those in rdma_devices");
    return nullptr;
}

// One cable is no quicker than one thread; each further one gets a thread, up to three in all.
void Devices::start_copiers(const Params& params, int cores) {
    constexpr int kMost = 2;
    int threads = std::min({kMost, cores, static_cast<int>(devices_.size()) - 1});
    if (params.rdma_copy_threads == "none") threads = 0;
    else if (params.rdma_copy_threads != "auto") threads = params.rdma_copy_threads[0] - '0';
    copiers_ = std::make_unique<Copiers>(std::max(threads, 0));
}

int Devices::paths() const { return static_cast<int>(std::clamp(size(), size_t{1}, kPathsMost)); }

bool Devices::take(int peer, int path, size_t device) {
    bool used = std::any_of(taken_.begin(), taken_.end(), [&](const auto& each) {
        return each.first.first == peer && each.first.second != path && each.second == device;
    });
    if (!used) taken_[{peer, path}] = device;
    return !used;
}

bool Devices::is_reached(int peer, int path) const {
    return std::any_of(taken_.begin(), taken_.end(), [&](const auto& each) {
        return each.first.first == peer && each.first.second != path;
    });
}

}  // namespace pomona::rdma
