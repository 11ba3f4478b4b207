// btl/tcp/sealed.h: what encrypts the bytes of a TCP connection.
// Idea: a Socket that was given one writes and reads as before, plain bytes; on the wire stand
// records: u32 length (1 to kRecordMost), as many encrypted bytes, a tag of 16 bytes (AES-256-GCM;
// the length is authenticated too). The records of each direction are numbered from 0, which is
// their nonce, so one that is changed, left out, doubled or put elsewhere does not open, and the
// connection is over. After kRecordsPerKey of them both ends derive the next key from the last one.
#pragma once

#include "btl/link/handshake.h"

#include <memory>
#include <vector>

#include <sys/types.h>

namespace pomona::tcp {

inline constexpr size_t kRecordMost = 16 << 10;
inline constexpr size_t kRecordHead = 4;
inline constexpr uint64_t kRecordsPerKey = uint64_t{1} << 24;  // 256 GiB

// The bytes themselves: what a Socket does without encryption; `write` and `read` as there.
class Wire {
public:
    virtual ~Wire() = default;
    virtual ssize_t write_wire(ConstBytes bytes) = 0;
    virtual ssize_t read_wire(Bytes bytes) = 0;
};

class Sealed {
public:
    // `own` is the key of what is written, `peer` of what is read.
    Sealed(const link::Crypto& crypto, const link::Digest& own, const link::Digest& peer,
           uint64_t records_per_key = kRecordsPerKey);

    // As Socket::write(): the plain bytes that were taken. Some may wait here: unsent().
    ssize_t write(Wire& wire, ConstBytes first, ConstBytes second);
    // Writes what waits; false when the connection is over.
    bool flush(Wire& wire);
    size_t unsent() const { return out_end_ - out_begin_; }

    // As Socket::read(). Less than asked for: nothing more is here.
    ssize_t read(Wire& wire, Bytes first, Bytes second);
    // Bytes can be read though the system may have none.
    bool buffered() const { return plain_begin_ < plain_end_ || whole_record(); }

private:
    struct Direction {
        link::Digest key;
        std::unique_ptr<link::Seal> seal;
        uint64_t number = 0;
    };
    bool count_record(Direction& direction);
    bool close(ConstBytes plain);
    size_t record_length() const;
    bool whole_record() const;
    bool fill(Wire& wire);
    ssize_t take(Bytes target);

    const link::Crypto* crypto_;
    uint64_t records_per_key_;
    Direction own_, peer_;
    std::vector<std::byte> out_;  // records to be sent
    size_t out_begin_ = 0, out_end_ = 0;
    std::vector<std::byte> in_;  // records that have come
    size_t in_begin_ = 0, in_end_ = 0;
    std::vector<std::byte> plain_;  // the rest of a record that was opened
    size_t plain_begin_ = 0, plain_end_ = 0;
};

}  // namespace pomona::tcp
