// btl/sim/turns.cc: records on a socket.
#include "btl/sim/turns.h"

#include <cerrno>
#include <cmath>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace pomona::sim {

static constexpr uint64_t kBodyMost = uint64_t{1} << 32;
static constexpr double kComputeUnit = 1e6;

std::vector<std::byte> Beginning::write() const {
    Writer out;
    out.put(static_cast<uint64_t>(std::llround(compute * kComputeUnit)));
    out.put_text(host);
    out.put(static_cast<uint32_t>(hosts.size()));
    for (int each : hosts) out.put(static_cast<int32_t>(each));
    return out.bytes();
}

bool Beginning::read(ConstBytes bytes) {
    Reader in(bytes);
    compute = static_cast<double>(in.get<uint64_t>()) / kComputeUnit;
    host = in.get_text(4096);
    auto count = in.get<uint32_t>();
    if (in.left() != size_t{count} * sizeof(int32_t)) return false;
    for (uint32_t i = 0; i < count; ++i) hosts.push_back(in.get<int32_t>());
    return !in.failed();
}

Channel::~Channel() {
    if (descriptor_ >= 0) close(descriptor_);
}

void Channel::put(Record record, ConstBytes body) {
    Bytes room = put_room(record, body.size());
    std::copy(body.begin(), body.end(), room.begin());
}

Bytes Channel::put_room(Record record, size_t length) {
    record.length = length;
    size_t at = out_.size();
    out_.resize(at + sizeof record + length);
    std::memcpy(out_.data() + at, &record, sizeof record);
    return {out_.data() + at + sizeof record, length};
}

bool Channel::flush() {
#if defined(MSG_NOSIGNAL)
    constexpr int flags = MSG_NOSIGNAL;
#else
    constexpr int flags = 0;  // SO_NOSIGPIPE is set where the socket is made
#endif
    for (size_t done = 0; done < out_.size();) {
        ssize_t sent = send(descriptor_, out_.data() + done, out_.size() - done, flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        done += static_cast<size_t>(sent);
    }
    out_.clear();
    return true;
}

bool Channel::get(Record& record, std::vector<std::byte>& body) {
    constexpr size_t kChunk = 256 << 10;
    auto have = [&](size_t bytes) {
        while (in_.size() - in_begin_ < bytes) {
            in_.erase(in_.begin(),
                      in_.begin() + static_cast<ptrdiff_t>(std::exchange(in_begin_, 0)));
            size_t old = in_.size();
            in_.resize(std::max(old + kChunk, bytes));
            ssize_t got = recv(descriptor_, in_.data() + old, in_.size() - old, 0);
            in_.resize(old + static_cast<size_t>(std::max<ssize_t>(got, 0)));
            if (got == 0 || (got < 0 && errno != EINTR)) return false;
        }
        return true;
    };
    if (!have(sizeof record)) return false;
    std::memcpy(&record, in_.data() + in_begin_, sizeof record);
    if (record.length > kBodyMost || !have(sizeof record + record.length)) return false;
    auto begin = in_.begin() + static_cast<ptrdiff_t>(in_begin_ + sizeof record);
    body.assign(begin, begin + static_cast<ptrdiff_t>(record.length));
    in_begin_ += sizeof record + record.length;
    return true;
}

}  // namespace pomona::sim
