// btl/tcp/tcp.h: frames between ranks through TCP connections.
// Idea: one connection a pair, made at the first send, used both ways. push() writes straight to
// the socket when nothing waits; what the kernel does not take is queued. Large payloads are read
// straight into the place that the sink names. Where tcp_streams asks for more connections, whoever
// made the first one makes them once that is up; both ends use them as lanes (Endpoint::lane).
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "btl/link/handshake.h"
#include "btl/transport.h"

#include <functional>

namespace pomona {

struct TcpOptions {
    // Who this rank is and what proves it.
    std::shared_ptr<link::Identity> identity;
    bool loopback_only = true;           // all ranks are on this machine: listen on 127.0.0.1 alone
    Sleeper* sleeper = nullptr;          // borrowed
    std::function<void(int)> on_peer{};  // a rank has connected, before its first frame
    // Completes the identity by the job's key; called once, at the first poll() or connect().
    std::function<Status(link::Identity&)> find_key{};
    // A rank of this job that must not go on with this one: the peer's facts differ.
    std::function<void(int, const Fingerprint&)> on_difference{};
    // Makes paths (transport.h, rules 8 to 13): the connection to a peer may end and come again.
    bool makes_paths = false;
    int path = 0;  // this instance's number among those of the process
    // Numbers the connections that this process decides for; shared by all its instances.
    std::shared_ptr<uint32_t> decisions = std::make_shared<uint32_t>(0);
    // After so long without an acknowledgement from the peer's system a connection is over; 0: as the
    // system likes it.
    Nanoseconds silence = 0;
};

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options);

}  // namespace pomona
