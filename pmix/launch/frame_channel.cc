// pmix/launch/frame_channel.cc: see frame_channel.h.
#include "pmix/launch/frame_channel.h"

#include "btl/base/format.h"
#include "pmix/launch/read_buffer.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr size_t kNoiseMax = 64u << 10;
constexpr int kReadsInARow = 8;
}  // namespace

FrameChannel::FrameChannel(event_base* base, int in, int out, std::string_view greeting)
    : in_(in), out_descriptor_(out), greeting_(greeting) {
    for (int descriptor : {in, out}) {
        fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    }
    begin(base);
}

FrameChannel::FrameChannel(event_base* base, tcp::Socket socket, std::string_view greeting)
    : socket_(std::move(socket)), in_(socket_.descriptor()), out_descriptor_(in_),
      greeting_(greeting) {
    begin(base);
}

void FrameChannel::begin(event_base* base) {
    readable_.reset(event_new(
        base, in_, EV_READ | EV_PERSIST,
        [](int, short, void* self) { static_cast<FrameChannel*>(self)->read_some(); }, this));
    writable_.reset(event_new(
        base, out_descriptor_, EV_WRITE,
        [](int, short, void* self) { static_cast<FrameChannel*>(self)->flush(); }, this));
    event_add(readable_.get(), nullptr);
}

FrameChannel::~FrameChannel() { shut(); }

void FrameChannel::shut() {
    on_closed = nullptr;
    close_both("");
}

void FrameChannel::send(AgentWord word, const Writer& payload) {
    std::vector<std::byte> frame = agent_frame(word, payload);
    send_text(text_of(frame));
}

void FrameChannel::send_text(std::string_view text) {
    if (closed_) return;
    bool was_idle = out_.empty();
    out_ += text;
    if (was_idle) flush();
}

ssize_t FrameChannel::take(std::byte* buffer, size_t length) {
    if (!socket_.open()) return read(in_, buffer, length);
    ssize_t count = socket_.read({buffer, length}, {});
    if (count == 0) errno = EAGAIN;
    return count > 0 ? count : count == 0 ? -1 : 0;  // however a connection has ended
}

ssize_t FrameChannel::give(const char* bytes, size_t length) {
    // SIGPIPE is ignored in mpirun.
    if (!socket_.open()) return write(out_descriptor_, bytes, length);
    ssize_t count = socket_.write(bytes_of({bytes, length}), {});
    if (count == 0) errno = EAGAIN;
    return count == 0 ? -1 : count;
}

void FrameChannel::flush() {
    size_t sent = 0;
    while (sent < out_.size()) {
        ssize_t count = give(out_.data() + sent, out_.size() - sent);
        if (count > 0) sent += static_cast<size_t>(count);
        else if (count < 0 && errno == EINTR) continue;
        else if (count < 0 && errno == EAGAIN) break;
        else {
            // What the other end said last may still be unread: its end of file closes us.
            out_.clear();
            return;
        }
    }
    out_.erase(0, sent);
    bool more = !out_.empty();
    // What was encrypted and not sent waits in the socket.
    if (!more && socket_.unsent()) more = socket_.flush() && socket_.unsent();
    if (more) event_add(writable_.get(), nullptr);
}

void FrameChannel::read_some() {
    ReadBuffer buffer;
    for (int i = 0; i < kReadsInARow && !closed_; ++i) {
        ssize_t count = take(reinterpret_cast<std::byte*>(buffer.data()), buffer.kSize);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) return close_both("");
        ConstBytes bytes = skip_noise(bytes_of(buffer.first(count)));
        if (closed_) return;
        parser_.feed(bytes);
        while (auto frame = parser_.next()) {
            Reader reader(frame->payload);
            if (on_frame) on_frame(static_cast<AgentWord>(frame->type), reader);
            if (closed_) return;
            if (reader.failed()) return close_both("a word of the other end does not parse");
        }
        if (parser_.malformed()) return close_both("what the other end says does not parse");
        if (static_cast<size_t>(count) < buffer.kSize) return;
    }
    // The system knows nothing of bytes that were decrypted already.
    if (!closed_ && socket_.buffered()) event_active(readable_.get(), EV_READ, 0);
}

// What follows the greeting.
ConstBytes FrameChannel::skip_noise(ConstBytes bytes) {
    if (greeting_.empty()) return bytes;
    size_t before = noise_.size();
    noise_ += text_of(bytes);
    size_t found = noise_.find(greeting_);
    if (found == noise_.npos) {
        if (noise_.size() > kNoiseMax) close_both("it prints and does not answer");
        return {};
    }
    size_t end = found + greeting_.size();
    ConstBytes rest = bytes.subspan(end - before);
    noise_.resize(found);
    greeting_.clear();
    return rest;
}

void FrameChannel::close_both(const std::string& why) {
    if (closed_) return;
    closed_ = true;
    readable_.reset();
    writable_.reset();
    if (socket_.open()) {
        socket_.take_leave();
        socket_.close();
    } else {
        close(in_);
        if (out_descriptor_ != in_) close(out_descriptor_);
    }
    if (auto function = std::move(on_closed)) function(why);
}

}  // namespace pomona
