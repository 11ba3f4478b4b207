// btl/tcp/tcp.h: frames between ranks through TCP connections.
// Idea: one connection a pair, made at the first send, used both ways. push() writes straight to
// the socket when nothing waits; what the kernel does not take is queued. Large payloads are read
// straight into the place that the sink names. Where tcp_streams asks for more connections, whoever
// made the first one makes them once that is up; both ends use them as lanes (Endpoint::lane).
#pragma once

#include "btl/base/counters.h"
#include "btl/base/params.h"
#include "btl/base/sleeper.h"
#include "btl/transport.h"

#include <functional>

namespace pomona {

struct TcpOptions {
    int rank = 0;
    int size = 1;                        // of the job; a greeting from elsewhere is refused
    std::string secret;                  // known to the ranks of this job only; greetings carry it
    bool loopback_only = true;           // all ranks are on this machine: listen on 127.0.0.1 alone
    Sleeper* sleeper = nullptr;          // borrowed
    std::function<void(int)> on_peer{};  // a rank has connected, before its first frame
};

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options);

}  // namespace pomona
