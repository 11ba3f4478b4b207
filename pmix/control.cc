// pmix/control.cc: framing of the job's socket.
#include "pmix/control.h"

#include "btl/base/messages.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

namespace pomona {

std::vector<std::byte> control_frame(ControlType type, const Writer& payload) {
    Writer frame;
    frame.put(static_cast<uint32_t>(payload.bytes().size() + 1));
    frame.put(type);
    frame.put_bytes(payload.bytes());
    return frame.bytes();
}

void ControlParser::feed(ConstBytes bytes) {
    if (start_ == pending_.size()) {
        pending_.clear();
        start_ = 0;
    }
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

std::optional<ControlFrame> ControlParser::next() {
    if (malformed_) return std::nullopt;
    Reader reader(ConstBytes(pending_).subspan(start_));
    auto length = reader.get<uint32_t>();
    if (reader.failed()) return std::nullopt;
    if (length < 1 || length > kControlFrameMax) {
        malformed_ = true;
        return std::nullopt;
    }
    if (reader.left() < length) return std::nullopt;
    ControlFrame frame;
    frame.type = reader.get<ControlType>();
    ConstBytes payload = reader.take(length - 1);
    frame.payload.assign(payload.begin(), payload.end());
    start_ += sizeof(uint32_t) + length;
    return frame;
}

std::string control_socket_path(const std::string& directory) { return directory + "/mpirun.sock"; }

#if defined(MSG_NOSIGNAL)
const int kNoSignal = MSG_NOSIGNAL;
#else
const int kNoSignal = 0;  // SO_NOSIGPIPE is set instead
#endif

Result<int> connect_to_control(const std::string& directory) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = control_socket_path(directory);
    if (path.size() >= sizeof address.sun_path)
        return Error{Code::invalid_argument, "The path of the job's socket is too long"};
    path.copy(address.sun_path, path.size());
#if defined(SOCK_CLOEXEC)
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return os_error(Code::io, "No socket to reach mpirun");
#else
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0) return os_error(Code::io, "No socket to reach mpirun");
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
        return descriptor;
    Error error = os_error(Code::refused, "mpirun does not answer on the job's socket");
    close(descriptor);
    return error;
}

Result<int> listen_for_ranks(const std::string& directory) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = control_socket_path(directory);
    if (path.size() >= sizeof address.sun_path)
        return Error{Code::invalid_argument, messages::directory_too_long};
    path.copy(address.sun_path, path.size());
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0) return os_error(Code::io, "No socket for the job");
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        listen(descriptor, 1024) == 0)
        return descriptor;
    Error error = os_error(Code::io, "The job's socket cannot be made");
    close(descriptor);
    return error;
}

int socket_peer_user(int descriptor) {
#if defined(__linux__)
    struct ucred peer {};
    socklen_t length = sizeof peer;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return -1;
    return static_cast<int>(peer.uid);
#else
    uid_t user = 0;
    gid_t group = 0;
    if (getpeereid(descriptor, &user, &group) != 0) return -1;
    return static_cast<int>(user);
#endif
}

}  // namespace pomona
