// btl/tcp/sealed.cc: see sealed.h.
#include "btl/tcp/sealed.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pomona::tcp {

static constexpr size_t kTag = link::Seal::kTag;
static constexpr size_t kOverhead = kRecordHead + kTag;
// Encrypted at once, before the system has taken the first of them: the more, the fewer calls; the
// less, the sooner the other side begins to decrypt.
static constexpr size_t kRecordsAtOnce = 8;
static constexpr size_t kReadAtOnce = kRecordsAtOnce * (kRecordMost + kOverhead);

Sealed::Sealed(const link::Crypto& crypto, const link::Digest& own, const link::Digest& peer,
               uint64_t records_per_key)
    : crypto_(&crypto),
      records_per_key_(records_per_key), own_{own, crypto.seal(own)}, peer_{peer,
                                                                            crypto.seal(peer)},
      out_(kRecordsAtOnce * (kRecordMost + kOverhead)), in_(kReadAtOnce + kRecordMost + kOverhead),
      plain_(kRecordMost) {}

// After a record: the next number, under the next key where this one has served its time.
bool Sealed::count_record(Direction& direction) {
    if (++direction.number < records_per_key_) return true;
    link::Digest next, salt{};
    if (!crypto_->derive(direction.key, salt, bytes_of("pomona next key"), next)) return false;
    direction = {next, crypto_->seal(next)};
    return true;
}

// ---- out

// Puts a record behind what waits.
bool Sealed::close(ConstBytes plain) {
    std::byte* at = out_.data() + out_end_;
    auto length = static_cast<uint32_t>(plain.size());
    std::memcpy(at, &length, kRecordHead);
    std::byte* body = at + kRecordHead;
    if (!own_.seal->close(own_.number, {at, kRecordHead}, plain, body, body + plain.size()))
        return errno = EIO, false;
    out_end_ += kOverhead + plain.size();
    return count_record(own_);
}

bool Sealed::flush(Wire& wire) {
    while (out_begin_ < out_end_) {
        ssize_t moved = wire.write_wire({out_.data() + out_begin_, out_end_ - out_begin_});
        if (moved < 0) return false;
        if (moved == 0) return true;
        out_begin_ += static_cast<size_t>(moved);
    }
    out_begin_ = out_end_ = 0;
    return true;
}

ssize_t Sealed::write(Wire& wire, ConstBytes first, ConstBytes second) {
    if (!flush(wire)) return -1;
    if (unsent() != 0) return 0;
    size_t taken = 0;
    for (size_t n = 0; n < kRecordsAtOnce && !(first.empty() && second.empty()); ++n) {
        ConstBytes plain = (first.empty() ? second : first);
        plain = plain.first(std::min(plain.size(), kRecordMost));
        std::byte together[kRecordMost];
        // A head and what follows share a record.
        if (!first.empty() && first.size() < kRecordMost && !second.empty()) {
            size_t more = std::min(second.size(), kRecordMost - first.size());
            std::memcpy(together, first.data(), first.size());
            std::memcpy(together + first.size(), second.data(), more);
            plain = {together, first.size() + more};
        }
        if (!close(plain)) return -1;
        taken += plain.size();
        size_t of_first = std::min(first.size(), plain.size());
        first = first.subspan(of_first);
        second = second.subspan(plain.size() - of_first);
    }
    return flush(wire) ? static_cast<ssize_t>(taken) : -1;
}

// ---- in

size_t Sealed::record_length() const {
    uint32_t length = 0;
    std::memcpy(&length, in_.data() + in_begin_, kRecordHead);
    return length;
}

bool Sealed::whole_record() const {
    size_t there = in_end_ - in_begin_;
    return there >= kRecordHead && there >= record_length() + kOverhead;
}

// Reads what has come; false when the connection is over.
bool Sealed::fill(Wire& wire) {
    if (in_begin_ != 0) {
        std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
        in_end_ -= in_begin_;
        in_begin_ = 0;
    }
    ssize_t got = wire.read_wire({in_.data() + in_end_, in_.size() - in_end_});
    if (got < 0) return false;
    in_end_ += static_cast<size_t>(got);
    return true;
}

static ssize_t bad(size_t done) {
    errno = EBADMSG;
    return done != 0 ? static_cast<ssize_t>(done) : -1;
}

// Plain bytes that are here, as many as fit; -1 when what has come is not what was sent. What was
// sent before that comes first.
ssize_t Sealed::take(Bytes target) {
    size_t done = 0;
    while (done < target.size()) {
        Bytes room = target.subspan(done);
        if (plain_begin_ < plain_end_) {
            size_t part = std::min(room.size(), plain_end_ - plain_begin_);
            std::memcpy(room.data(), plain_.data() + plain_begin_, part);
            plain_begin_ += part;
            done += part;
            continue;
        }
        if (in_end_ - in_begin_ < kRecordHead) break;
        size_t length = record_length();
        if (length == 0 || length > kRecordMost) return bad(done);
        if (!whole_record()) break;
        const std::byte* head = in_.data() + in_begin_;
        const std::byte* body = head + kRecordHead;
        bool fits = length <= room.size();
        std::byte* to = fits ? room.data() : plain_.data();
        if (!peer_.seal->open(peer_.number, {head, kRecordHead}, {body, length}, body + length,
                              to) ||
            !count_record(peer_))
            return bad(done);
        in_begin_ += length + kOverhead;
        if (fits) done += length;
        else plain_begin_ = 0, plain_end_ = length;
    }
    return static_cast<ssize_t>(done);
}

ssize_t Sealed::read(Wire& wire, Bytes first, Bytes second) {
    ssize_t all = 0;
    // Once from what is here, and once more after asking the system.
    for (bool asked : {false, true}) {
        if (asked && !fill(wire)) return all > 0 ? all : -1;
        for (Bytes* target : {&first, &second}) {
            ssize_t got = take(*target);
            if (got < 0) return all != 0 ? all : -1;
            all += got;
            *target = target->subspan(static_cast<size_t>(got));
        }
        if (first.empty() && second.empty()) break;
    }
    return all;
}

}  // namespace pomona::tcp
