// btl/tcp/tcp.h: frames between ranks through TCP connections.
// Idea: one connection a pair, made at the first send, used both ways. push() writes straight to
// the socket when nothing waits; what the kernel does not take is queued. Large payloads are read
// straight into the place that the sink names. Several connections to a peer are paths of a link,
// each made by an instance of its own.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "btl/link/handshake.h"
#include "btl/tcp/shared.h"
#include "btl/transport.h"

#include <functional>

namespace pomona {

struct TcpOptions {
    // Who this rank is and what proves it.
    std::shared_ptr<link::Identity> identity;
    // All ranks are on this machine: listen on 127.0.0.1 alone, unless if_include says more.
    bool loopback_only = true;
    Sleeper* sleeper = nullptr;          // borrowed
    std::function<void(int)> on_peer{};  // a rank has connected, before its first frame
    // Completes the identity by the job's key; called once, at the first poll() or connect().
    std::function<Status(link::Identity&)> find_key{};
    // A rank of this job that must not go on with this one: the peer's facts differ.
    std::function<void(int, const Fingerprint&)> on_difference{};
    // Makes paths (transport.h, rules 8 to 13): the connection to a peer may end and come again.
    bool makes_paths = false;
    bool* owes = nullptr;  // as LinkOptions::owes
    int path = 0;          // this instance's number among those of the process
    // Of all its instances; null: of this one alone.
    std::shared_ptr<tcp::Shared> shared{};
    // After so long without an acknowledgement from the peer's system a connection is over; 0: as
    // the system likes it.
    Nanoseconds silence = 0;
};

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options);

}  // namespace pomona
