// btl/tcp/socket.cc: system calls of a TCP socket. SIGPIPE is kept away by MSG_NOSIGNAL (Linux) and
// SO_NOSIGPIPE (macOS).
#include "btl/tcp/socket.h"

#include "btl/tcp/not_inherited.h"
#include "btl/tcp/sealed.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>
#if defined(__linux__)
#include <linux/sockios.h>
#endif

namespace pomona::tcp {

#if defined(MSG_NOSIGNAL)
static constexpr int kNoSignal = MSG_NOSIGNAL;
#else
static constexpr int kNoSignal = 0;
#endif

Socket::Socket() = default;
Socket::Socket(int descriptor) : descriptor_(descriptor) {
    if (descriptor >= 0) do_not_inherit(descriptor);
}
Socket::Socket(Socket&& other) noexcept
    : sealed_(std::move(other.sealed_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
    std::swap(sealed_, other.sealed_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
}
Socket::~Socket() { close(); }
void Socket::close() {
    if (descriptor_ >= 0) close_not_inherited(descriptor_);
    descriptor_ = -1;
}

void Socket::take_leave() {
    std::byte room[16 << 10];
    shutdown(descriptor_, SHUT_WR);
    for (int reads = 0; reads < 256; ++reads)
        if (recv(descriptor_, room, sizeof room, MSG_DONTWAIT) <= 0) return;
}

static void set_option(int descriptor, int level, int name, int value) {
    // A refused option costs speed, not correctness.
    if (setsockopt(descriptor, level, name, &value, sizeof value) != 0) return;
}

void Socket::prepare(uint64_t buffer_size) {
    fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor_, F_SETFL, O_NONBLOCK);
    set_option(descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
#if defined(SO_NOSIGPIPE)
    set_option(descriptor_, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    if (buffer_size != 0) {
        set_option(descriptor_, SOL_SOCKET, SO_SNDBUF, static_cast<int>(buffer_size));
        set_option(descriptor_, SOL_SOCKET, SO_RCVBUF, static_cast<int>(buffer_size));
    }
}

void Socket::keep_unsent(size_t most) {
#if defined(TCP_NOTSENT_LOWAT)  // Linux and macOS
    set_option(descriptor_, IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(most));
#else
    (void)most;
#endif
}

// Linux makes the receive buffer large enough for SO_RCVLOWAT (tcp_set_rcvlowat), and keeps it so.
void Socket::make_room(size_t bytes) {
#if defined(__linux__)
    wake_at(bytes);
    wake_at(1);
#else
    (void)bytes;
#endif
}

void Socket::wake_at(size_t least) {
    set_option(descriptor_, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(least));
}

// Probes when idle, and a bound on what is not acknowledged when not.
void Socket::watch_peer(int milliseconds) {
    int seconds = std::max(1, milliseconds / 4000);
    set_option(descriptor_, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
    set_option(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, 3);
#if defined(__APPLE__)
    set_option(descriptor_, IPPROTO_TCP, TCP_KEEPALIVE, seconds);
    set_option(descriptor_, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, std::max(1, milliseconds / 1000));
#else
    set_option(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set_option(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
#endif
}

void Socket::limit_segments(int descriptor, int bytes) {
    if (bytes > 0) set_option(descriptor, IPPROTO_TCP, TCP_MAXSEG, bytes);
}

int Socket::segment_bytes() const {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    return getsockopt(descriptor_, IPPROTO_TCP, TCP_MAXSEG, &bytes, &length) == 0 ? bytes : 0;
}

// An address as the system's calls take it.
struct SystemAddress {
    sockaddr_storage bytes{};
    socklen_t length = sizeof bytes;
    sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

static SystemAddress address_of(const End& end, uint16_t port) {
    SystemAddress out;
    if (end.ip.six) {
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = htons(port);
        std::memcpy(&six.sin6_addr, end.ip.bytes.data(), 16);
        if (end.ip.link_local()) six.sin6_scope_id = if_nametoindex(end.interface.c_str());
        std::memcpy(&out.bytes, &six, out.length = sizeof six);
        return out;
    }
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, end.ip.bytes.data(), 4);
    std::memcpy(&out.bytes, &four, out.length = sizeof four);
    return out;
}

// Its packets go by this interface alone. Where the system refuses, routes decide.
static void bind_to_interface(int descriptor, const End& end) {
#if defined(__APPLE__)
    auto index = static_cast<int>(if_nametoindex(end.interface.c_str()));
    if (end.ip.six) set_option(descriptor, IPPROTO_IPV6, IPV6_BOUND_IF, index);
    else set_option(descriptor, IPPROTO_IP, IP_BOUND_IF, index);
#else
    if (setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, end.interface.c_str(),
                   static_cast<socklen_t>(end.interface.size())) != 0)
        return;
#endif
}

static Result<Socket> make_socket(const End* own, bool six) {
    Socket made(socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    if (!made.open()) return os_error(Code::io, "Cannot make a TCP socket");
    // An IPv6 socket takes no IPv4 connections.
    if (six) set_option(made.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (own && own->bound) bind_to_interface(made.descriptor(), *own);
    return made;
}

Result<Socket> Socket::listen(const End& own, uint64_t buffer_size) {
    Socket made = TRY(make_socket(&own, own.ip.six));
    made.prepare(buffer_size);  // before listen: shrunk later, windows stick (man 7 tcp)
    SystemAddress address = address_of(own, 0);
    if (bind(made.descriptor_, address.get(), address.length) != 0 ||
        ::listen(made.descriptor_, 256) != 0)
        return os_error(Code::io, "Cannot listen for TCP connections");
    return made;
}

Result<Socket> Socket::connect(const End* own, const End& peer, uint16_t port, uint64_t buffer_size,
                               int segment_most) {
    Socket made = TRY(make_socket(own, peer.ip.six));
    made.prepare(buffer_size);
    limit_segments(made.descriptor_, segment_most);
    if (own) {
#if defined(IP_BIND_ADDRESS_NO_PORT)  // Linux: the port is chosen by connect()
        set_option(made.descriptor_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
#endif
        SystemAddress from = address_of(*own, 0);
        if (bind(made.descriptor_, from.get(), from.length) != 0)
            return os_error(Code::refused, "Cannot use an interface's address");
    }
    SystemAddress to = address_of(peer, port);
    if (::connect(made.descriptor_, to.get(), to.length) != 0 && errno != EINPROGRESS &&
        errno != EINTR)
        return os_error(Code::refused, "Cannot connect");
    return made;
}

static Result<End> numeric(const std::string& host) {
    auto ip = Ip::parse(host);
    if (!ip) return Error{Code::invalid_argument, "Not a numeric IP address"};
    return End{*ip};
}

Result<Socket> Socket::listen(const std::string& host, uint64_t buffer_size) {
    return listen(TRY(numeric(host)), buffer_size);
}

Result<Socket> Socket::connect(const std::string& host, uint16_t port, uint64_t buffer_size) {
    return connect(nullptr, TRY(numeric(host)), port, buffer_size);
}

uint16_t Socket::port() const {
    SystemAddress own;
    if (getsockname(descriptor_, own.get(), &own.length) != 0) return 0;
    // The port is at the same place in both families.
    return ntohs(reinterpret_cast<sockaddr_in*>(&own.bytes)->sin_port);
}

std::optional<Ip> Socket::own_ip() const {
    SystemAddress own;
    if (getsockname(descriptor_, own.get(), &own.length) != 0) return std::nullopt;
    return Ip::of(own.get());
}

std::optional<Ip> Socket::peer_ip() const {
    SystemAddress peer;
    if (getpeername(descriptor_, peer.get(), &peer.length) != 0) return std::nullopt;
    return Ip::of(peer.get());
}

Socket Socket::accept() { return adopt(::accept(descriptor_, nullptr, nullptr)); }

Socket Socket::adopt(int accepted) {
    Socket made(accepted);
    if (made.open()) made.prepare(0);
    return made;
}

int Socket::finished() {
    pollfd look{descriptor_, POLLOUT, 0};
    if (poll(&look, 1, 0) <= 0) return 0;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0) return 1;
    errno = error;
    return -1;
}

size_t Socket::unacknowledged() const {
    int bytes = 0;
#if defined(SIOCOUTQ)  // Linux
    if (ioctl(descriptor_, SIOCOUTQ, &bytes) != 0) return 0;
#elif defined(SO_NWRITE)  // macOS
    socklen_t length = sizeof bytes;
    if (getsockopt(descriptor_, SOL_SOCKET, SO_NWRITE, &bytes, &length) != 0) return 0;
#endif
    return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

static ssize_t outcome(ssize_t moved) {
    if (moved >= 0) return moved;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ? 0 : -1;
}

static ssize_t write_some(int descriptor, ConstBytes bytes) {
    return outcome(send(descriptor, bytes.data(), bytes.size(), kNoSignal | MSG_DONTWAIT));
}

static ssize_t read_some(int descriptor, Bytes bytes) {
    ssize_t moved = recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (moved != 0 || bytes.empty()) return outcome(moved);
    errno = 0;
    return -1;
}

namespace {
struct PlainWire final : Wire {
    explicit PlainWire(int descriptor) : descriptor(descriptor) {}
    ssize_t write_wire(ConstBytes bytes) override { return write_some(descriptor, bytes); }
    ssize_t read_wire(Bytes bytes) override { return read_some(descriptor, bytes); }
    int descriptor;
};
}  // namespace

void Socket::seal(std::unique_ptr<Sealed> sealed) { sealed_ = std::move(sealed); }
bool Socket::sealed_unsent() const { return sealed_->unsent() != 0; }
bool Socket::sealed_buffered() const { return sealed_->buffered(); }
bool Socket::flush() {
    PlainWire wire(descriptor_);
    return !sealed_ || sealed_->flush(wire);
}

// The simple calls spare the kernel the walk of a list: a small message's time shows it.
ssize_t Socket::write(ConstBytes first, ConstBytes second) {
    if (sealed_) [[unlikely]] {
        PlainWire wire(descriptor_);
        return sealed_->write(wire, first, second);
    }
    if (second.empty()) return write_some(descriptor_, first);
    iovec pieces[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                       {const_cast<std::byte*>(second.data()), second.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    return outcome(sendmsg(descriptor_, &message, kNoSignal | MSG_DONTWAIT));
}

ssize_t Socket::read(Bytes first, Bytes second) {
    if (sealed_) [[unlikely]] {
        PlainWire wire(descriptor_);
        return sealed_->read(wire, first, second);
    }
    if (second.empty()) return read_some(descriptor_, first);
    iovec pieces[2] = {{first.data(), first.size()}, {second.data(), second.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    ssize_t moved = recvmsg(descriptor_, &message, MSG_DONTWAIT);
    if (moved == 0 && !first.empty()) {
        errno = 0;
        return -1;
    }
    return outcome(moved);
}

}  // namespace pomona::tcp
