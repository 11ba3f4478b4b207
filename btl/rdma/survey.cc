// btl/rdma/survey.cc: see survey.h.
#include "btl/rdma/survey.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/rdma/verbs.h"

#include <algorithm>
#include <cstring>

namespace pomona::rdma {

#ifdef __APPLE__
static constexpr const char* kNoDevice = messages::rdma_thunderbolt_5;
#else
static constexpr const char* kNoDevice = messages::rdma_no_driver;
#endif

static const char* word_of(verbs::PortState state) {
    if (state == verbs::kPortActive) return "active";
    return state == verbs::kPortDown ? "down" : "coming up";
}

static DeviceSeen look_at(Device& device) {
    DeviceSeen out;
    out.name = device.name();
    Reason why;
    verbs::PortAttr port;
    bool opened = device.open_now(why), up = false;
    if (device.context()) {
        Reason of_port;
        up = device.port(port, of_port);
        out.state = device.lost ? "closed" : word_of(port.state);
        if (!up) why = of_port;
    } else {
        out.state = "closed";
    }
    if (up) {
        out.mtu = 128 << port.active_mtu;
        for (const GidBytes& each : device.gids(port))
            if (each != GidBytes{}) out.addresses.push_back(text_of_gid(each));
        GidBytes gid{};
        if (device.find_gid(port, gid) >= 0) out.address = text_of_gid(gid);
        else if (opened)
            why = {format(messages::rdma_no_address, device.name()),
                   messages::rdma_give_address_wait};
    }
    device.close();  // a driver may hang there as well
    if (!device.hangs(why) && opened && !out.address.empty()) return out;
    out.mend = std::move(why.mend);
    why.mend.clear();
    out.why = why.text();
    return out;
}

Survey survey() {
    Survey out;
    auto library = Library::open(out.why);
    if (!library) return out;
    out.library = library->path;
    Reason hangs;
    for (std::string& name : device_names(library, "", hangs)) {
        Device device(library, std::move(name));
        out.devices.push_back(look_at(device));
    }
    if (!out.devices.empty()) return out;
    if (!hangs.what.empty()) {
        out.why = hangs.what;
        out.mend = hangs.mend;
        out.can_be_mended = true;
        return out;
    }
    out.why = format(messages::rdma_no_device, library->path, "");
    out.mend = kNoDevice;
    return out;
}

}  // namespace pomona::rdma
