// btl/tcp/connection.h: one TCP connection's buffers, and the system calls that fill and empty
// them.
// Idea: few and large system calls. A short frame leaves in one send; a long payload is gathered by
// the kernel. Arriving bytes are read into a small buffer; a long payload's rest is read straight
// to its place, in pieces that stay in the caches, and the last piece brings the next frame's head.
#pragma once

#include "btl/base/pace_meter.h"
#include "btl/tcp/away_writer.h"
#include "btl/tcp/socket.h"
#include "btl/tcp/unsent.h"
#include "btl/tcp/wire.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace pomona::tcp {

// Read at once into the buffer: many small frames, and little of a long one, whose bytes there have
// to be copied once more. With room for the heads, so that whole frames of a power of two fit.
inline constexpr size_t kReadMost = (32 << 10) + 256;
// Payloads up to this length wait in the buffer until they are whole: messages of 8 KiB too, with
// the headers of the link and the engine.
inline constexpr size_t kWaitMax = (8 << 10) + 128;
inline constexpr size_t kReadBuffer = kReadMost + kWaitMax + kFrameHead;
// Reading in pieces gives the sender room, and the next segments a warm cache: over loopback a
// third more than reads of a MiB.
inline constexpr size_t kReadPiece = 64 << 10;
// What is read behind the end of a long payload: the next head, or a small frame or two.
inline constexpr size_t kReadBehind = 256;
// What a line may bring while this rank writes, reduces or waits for a core. The system's own bound
// grows with what has been read in a round trip, and is small until then: windows were closed some
// hundred times in nine sums of 64 MiB at 25 Gb/s (TCPFromZeroWindowAdv). Eight times as much room
// was slower than none (docs/bench/README.md, hosts.json).
inline constexpr size_t kRoom = 2 << 20;
// Who sleeps while a long payload comes is woken once for so many bytes of it, not for each packet.
inline constexpr size_t kWakeAt = kReadPiece;
// Memory for output that is kept when there is none.
inline constexpr size_t kOutputKept = 256 << 10;
inline constexpr size_t kSendCopyMax =
    2048;  // a copy of so much is cheaper than a list for the kernel

// Memory that grows and is not cleared.
class Room {
public:
    std::byte* data() const { return bytes_.get(); }
    size_t size() const { return size_; }
    // At least `size` bytes; the first `kept` keep their content.
    void reserve(size_t size, size_t kept = 0) {
        if (size <= size_) return;
        std::unique_ptr<std::byte[]> larger(new std::byte[size]);
        if (kept != 0) std::memcpy(larger.get(), bytes_.get(), kept);
        bytes_ = std::move(larger);
        size_ = size;
    }

private:
    std::unique_ptr<std::byte[]> bytes_;
    size_t size_ = 0;
};

// From greeting to end.
struct Connection {
    Socket socket;
    // Bytes read and not yet handed on.
    Room in;
    size_t in_begin = 0, in_end = 0;
    // A payload that is being read straight to its place (or to `gathered`).
    bool in_payload = false;
    FrameHead head{};
    std::byte* target = nullptr;
    size_t payload_done = 0;
    size_t wakes_at = 1;  // bytes that the system waits for before it wakes who sleeps
    Room gathered;
    // Bytes accepted by push() that the kernel has not taken yet.
    Room out;
    size_t out_begin = 0, out_end = 0;
    size_t rest = 0;        // of a payload that push_part() began: push_rest() brings it
    bool in_turns = false;  // there was room for more of that
    bool refused = false;   // since the last turn: a frame, for which the kernel had no room
    // Nothing leaves by it any more; what the peer sent before its end may still be there to read.
    bool output_over = false;
    uint64_t written = 0;  // bytes so far
    PaceMeter meter;
    UnsentBound unsent{true};
    AwayWriter::Hold away;  // its output is another thread's
    bool paced = false;     // it was asked, and there is more to learn without new pushes

    explicit Connection(Socket connected) : socket(std::move(connected)) {
        in.reserve(kReadBuffer);
    }
    // Where it leads is known.
    void leaves_machine(bool line) {
        unsent = UnsentBound(line);
        if (line) socket.make_room(kRoom);
        socket.keep_unsent(unsent.most());
    }
    bool has_output() const { return out_begin < out_end || socket.unsent(); }
    bool blocked() const { return has_output() || rest != 0; }  // the kernel had no room

    // Room for `length` bytes of output behind what waits.
    Bytes add_output(size_t length) {
        if (out_begin > out_end / 2) {
            std::memmove(out.data(), out.data() + out_begin, out_end - out_begin);
            out_end -= std::exchange(out_begin, 0);
        }
        if (out_end + length > out.size())
            out.reserve(std::max(out_end + length, 2 * out.size()), out_end);
        out_end += length;
        return {out.data() + out_end - length, length};
    }
    void queue(ConstBytes bytes) {
        if (!bytes.empty())
            std::memcpy(add_output(bytes.size()).data(), bytes.data(), bytes.size());
    }
    // Writes what waits; false when the connection is over.
    bool flush() {
        if (socket.unsent() && !socket.flush()) return false;
        while (out_begin < out_end) {
            ssize_t moved = socket.write({out.data() + out_begin, out_end - out_begin}, {});
            if (moved < 0) return false;
            if (moved == 0) return true;
            out_begin += static_cast<size_t>(moved);
            written += static_cast<size_t>(moved);
        }
        out_begin = out_end = 0;
        if (out.size() > kOutputKept) out = {};
        return true;
    }
    // Writes a frame, or its beginning; what Socket::write returns.
    ssize_t write_frame(const FrameHead& frame, ConstBytes payload) {
        ConstBytes first{reinterpret_cast<const std::byte*>(&frame), sizeof frame};
        if (payload.size() > kSendCopyMax) return socket.write(first, payload);
        std::byte whole[sizeof frame + kSendCopyMax];
        std::memcpy(whole, &frame, sizeof frame);
        if (!payload.empty()) std::memcpy(whole + sizeof frame, payload.data(), payload.size());
        return socket.write({whole, sizeof frame + payload.size()}, {});
    }

    Pace pace(Nanoseconds now) {
        size_t queued = socket.unacknowledged();
        uint64_t there = written - std::min<uint64_t>(written, queued);
        paced = queued != 0;
        return {meter.rate(queued, there, now), queued, there};
    }

    // Reads `most` bytes into the buffer, at the most; what Socket::read returns. `more`: the
    // kernel gave all that was asked for, and may have more.
    ssize_t read_in(size_t most, bool& more) {
        Bytes place{in.data() + in_end, std::min(most, in.size() - in_end)};
        ssize_t got = socket.read(place, {});
        if (got > 0) in_end += static_cast<size_t>(got);
        more = got == static_cast<ssize_t>(place.size());
        return got;
    }
    // Reads more of the payload to its place, and behind its end into the (empty) buffer.
    ssize_t read_payload(bool& more) {
        size_t left = head.length - payload_done;
        Bytes place{target + payload_done, std::min(left, kReadPiece)};
        Bytes behind = left > kReadPiece ? Bytes{} : Bytes{in.data(), kReadBehind};
        ssize_t got = socket.read(place, behind);
        if (got <= 0) return got;
        auto bytes = static_cast<size_t>(got);
        more = bytes == place.size() + behind.size();
        payload_done += std::min(bytes, place.size());
        if (wakes_at > std::max<size_t>(1, head.length - payload_done)) wake_at(1);
        in_begin = 0;
        in_end = bytes - std::min(bytes, place.size());
        return got;
    }
    // Before a sleep, which so many bytes end at the most: those that the system has room for. Of
    // what is encrypted some may have left the system already.
    void wake_for_payload(size_t most = kWakeAt) {
        if (in_payload && !socket.sealed())
            wake_at(std::min<size_t>(head.length - payload_done, most));
    }
    void wake_at(size_t bytes) {
        if (bytes != wakes_at) socket.wake_at(wakes_at = bytes);
    }
    // The buffer's rest goes to its beginning.
    void close_ranks() {
        if (in_begin == 0) return;
        if (in_begin < in_end) std::memmove(in.data(), in.data() + in_begin, in_end - in_begin);
        in_end -= in_begin;
        in_begin = 0;
    }
};

}  // namespace pomona::tcp
