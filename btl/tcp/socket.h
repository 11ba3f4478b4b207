// btl/tcp/socket.h: a non-blocking TCP socket; what differs between Linux and macOS is in socket.cc.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <string>
#include <vector>

namespace pomona::tcp {

class Socket {
public:
    Socket() = default;
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;
    ~Socket();

    // A listener on a free port of `host` ("127.0.0.1", "0.0.0.0"); what it accepts has its buffers.
    static Result<Socket> listen(const std::string& host, uint64_t buffer_size);
    // Begins to connect; finished() tells when it is.
    static Result<Socket> connect(const std::string& host, uint16_t port, uint64_t buffer_size);

    bool open() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    void close();
    uint16_t port() const;
    // A connection that somebody made, or a closed Socket when there is none.
    Socket accept();
    // 0 while connecting, 1 when connected, -1 (errno set) when it failed.
    int finished();

    // The system finds out by itself that the peer's does not answer any more, in about so long.
    void watch_peer(int milliseconds);

    // Bytes moved; 0 when the kernel has no room or no bytes now; -1 when the connection is over
    // (errno 0: closed in order by the peer).
    ssize_t write(ConstBytes first, ConstBytes second);
    ssize_t read(Bytes first, Bytes second);
    // Bytes written that the peer's system has not acknowledged; 0 where this system does not tell.
    size_t unacknowledged() const;

private:
    void prepare(uint64_t buffer_size);
    int descriptor_ = -1;
};

}  // namespace pomona::tcp
