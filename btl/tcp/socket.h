// btl/tcp/socket.h: a non-blocking TCP socket; what differs between Linux and macOS is in
// socket.cc.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"
#include "btl/tcp/ip.h"

#include <memory>
#include <string>
#include <vector>

namespace pomona::tcp {

// One end of a connection.
struct End {
    Ip ip;
    std::string interface {};  // of this machine, by which it is reached: link-local IPv6 needs it
    bool bound = false;  // to this interface: no other carries its packets, whatever routes say
};

class Sealed;

class Socket {
public:
    Socket();
    explicit Socket(int descriptor);
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;
    ~Socket();

    // A listener on a free port; what it accepts has its buffers.
    static Result<Socket> listen(const End& own, uint64_t buffer_size);
    // Begins to connect; finished() tells when it is. From `own`, or from what the system chooses.
    // segment_most: see limit_segments().
    static Result<Socket> connect(const End* own, const End& peer, uint16_t port,
                                  uint64_t buffer_size, int segment_most = 0);
    // The same for a numeric address.
    static Result<Socket> listen(const std::string& host, uint64_t buffer_size);
    static Result<Socket> connect(const std::string& host, uint16_t port, uint64_t buffer_size);

    bool open() const { return descriptor_ >= 0; }
    int descriptor() const { return descriptor_; }
    void close();
    uint16_t port() const;
    // The addresses of both ends, where it is connected.
    std::optional<Ip> own_ip() const;
    std::optional<Ip> peer_ip() const;
    // A connection that somebody made, or a closed Socket when there is none.
    Socket accept();
    // The same for one that was accepted elsewhere; takes ownership.
    static Socket adopt(int accepted);
    // 0 while connecting, 1 when connected, -1 (errno set) when it failed.
    int finished();

    // Before close(): says that nothing more comes, and takes in what has arrived. A system that
    // closes over unread bytes resets the connection, and throws away what it has not sent yet.
    void take_leave();
    // The system finds out by itself that the peer's does not answer any more, in about so long.
    void watch_peer(int milliseconds);

    // Before it connects, or listens for others: its connections have packets with at most so many
    // bytes of theirs, in both directions; 0: as many as interfaces take.
    static void limit_segments(int descriptor, int bytes);
    // How many that are now; 0: not known.
    int segment_bytes() const;

    // The system keeps so many bytes that it has not sent.
    void keep_unsent(size_t most);

    // So many bytes may come though nobody reads, where the system lets a program say so without
    // fixing the size of its buffer (Linux), and the user has not fixed it.
    void make_room(size_t bytes);
    // Who waits for something to read is woken only when there are so many bytes, or the end.
    void wake_at(size_t least);

    // Bytes moved; 0 when the kernel has no room or no bytes now; -1 when the connection is over
    // (errno 0: closed in order by the peer).
    ssize_t write(ConstBytes first, ConstBytes second);
    ssize_t read(Bytes first, Bytes second);
    // Bytes written that the peer's system has not acknowledged; 0 where this system does not tell.
    size_t unacknowledged() const;

    // From now on all is encrypted. What was written waits here then, where the system has no room:
    // unsent(), until flush(), which says false when the connection is over; and what can be read
    // may have left the system: buffered().
    void seal(std::unique_ptr<Sealed> sealed);
    bool sealed() const { return sealed_ != nullptr; }
    bool unsent() const { return sealed_ && sealed_unsent(); }
    bool buffered() const { return sealed_ && sealed_buffered(); }
    bool flush();

private:
    void prepare(uint64_t buffer_size);
    bool sealed_unsent() const;
    bool sealed_buffered() const;
    std::unique_ptr<Sealed> sealed_;
    int descriptor_ = -1;
};

}  // namespace pomona::tcp
