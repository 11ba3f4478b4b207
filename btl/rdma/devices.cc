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
    out->copiers_ = std::make_unique<Copiers>(params.rdma_copy_threads);
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
