// mpi/runtime/devices.h: what devices have finished, as one more thing for the engine to poll.
// Idea: the engine polls, arms and sleeps by its list of transports. A device is no way to a peer,
// but its completions come like frames: seen in a turn, ringing the sleeper when it is armed. It is
// added when a collective first has a kernel of a device (Process::device_gates), so that programs
// without one pay nothing.
#pragma once

#include "btl/base/sleeper.h"
#include "btl/transport.h"
#include "coll/gates.h"

namespace pomona {

class Devices final : public Transport {
public:
    explicit Devices(Sleeper& sleeper)
        : gates([](void* bell) { static_cast<Sleeper*>(bell)->wake(); }, &sleeper) {}

    const char* name() const override { return "devices"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        return Error{Code::unsupported, "A device leads to no peer", peer};
    }
    int poll(Sink&, int) override { return gates.poll(); }
    bool arm() override { return gates.arm(); }
    void disarm() override { gates.disarm(); }
    bool pending() const override { return gates.pending(); }

    coll::Gates gates;
};

}  // namespace pomona
