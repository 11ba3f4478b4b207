// mpi/io/access.cc: independent accesses: this process alone moves its data.
// Writing takes one call for each segment of the file. Reading many small segments takes one call
// for all of them and their holes ("data sieving": Thakur, Gropp, Lusk, "Data sieving and
// collective I/O in ROMIO", Frontiers 1999), when that is estimated to be quicker. Writing does not
// sieve: it would write holes back that somebody else may have changed meanwhile.
#include "mpi/io/external.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace pomona {

namespace {

// Data that are not contiguous in memory go through a buffer of this size, which stays in the
// cache.
constexpr MPI_Offset kPackBytes = 1 << 20;
// What memory copies in the time that one system call takes.
constexpr MPI_Offset kCallBytes = 8192;

struct Segment {
    MPI_Offset offset, length;
};

// Reads segments of a file into one piece of memory, one after the other.
class SegmentReader {
public:
    SegmentReader(const PosixFile& file, const Hints& hints, std::byte* to)
        : file_(file), hints_(hints), to_(to) {}

    // False: the end of the file or an error.
    bool add(MPI_Offset offset, MPI_Offset length) {
        bool apart =
            !batch_.empty() && (offset < end_ || offset + length - batch_[0].offset > span_max());
        if (apart && !flush()) return false;
        batch_.push_back({offset, length});
        end_ = offset + length;
        return true;
    }
    bool flush() {
        bool going = true;
        if (!batch_.empty()) going = pays() ? sieve() : read_each();
        batch_.clear();
        return going;
    }
    MPI_Offset done() const { return done_; }
    int failed() const { return failed_; }

private:
    MPI_Offset span_max() const { return static_cast<MPI_Offset>(hints_.ind_rd_buffer_size); }

    bool pays() const {
        if (hints_.sieving_read != Hints::When::automatic)
            return hints_.sieving_read == Hints::When::always && batch_.size() > 1 && within();
        return within() &&
               end_ - batch_[0].offset < static_cast<MPI_Offset>(batch_.size() - 1) * kCallBytes;
    }
    bool within() const { return end_ - batch_[0].offset <= span_max(); }

    bool read_each() {
        for (const Segment& each : batch_) {
            size_t got = 0;
            failed_ =
                file_.read_at(to_ + done_, static_cast<size_t>(each.length), each.offset, got);
            done_ += static_cast<MPI_Offset>(got);
            if (failed_ || static_cast<MPI_Offset>(got) < each.length) return false;
        }
        return true;
    }
    bool sieve() {
        MPI_Offset start = batch_[0].offset;
        auto span = static_cast<size_t>(end_ - start);
        if (!buffer_) buffer_.reset(new std::byte[hints_.ind_rd_buffer_size]);
        size_t got = 0;
        failed_ = file_.read_at(buffer_.get(), span, start, got);
        for (const Segment& each : batch_) {
            MPI_Offset left =
                std::max<MPI_Offset>(static_cast<MPI_Offset>(got) - (each.offset - start), 0);
            MPI_Offset length = std::min(each.length, left);
            if (length > 0)
                std::memcpy(to_ + done_, buffer_.get() + (each.offset - start),
                            static_cast<size_t>(length));
            done_ += length;
            if (length < each.length) return false;
        }
        return failed_ == 0;
    }

    const PosixFile& file_;
    const Hints& hints_;
    std::byte* to_;
    std::vector<Segment> batch_;
    MPI_Offset end_ = 0;  // of the batch's last segment
    MPI_Offset done_ = 0;
    int failed_ = 0;
    std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace

IoError File::write_stream(MPI_Offset position, const std::byte* from, MPI_Offset length) {
    int failed = 0;
    view_.each_segment(position, length, [&](MPI_Offset offset, MPI_Offset bytes) {
        size_t put = 0;
        failed = posix_.write_at(from, static_cast<size_t>(bytes), offset, put);
        from += bytes;
        return failed == 0;
    });
    return io_failure("Cannot write", failed);
}

// `done` is what was there before the end of the file.
IoError File::read_stream(MPI_Offset position, std::byte* to, MPI_Offset length, MPI_Offset& done) {
    SegmentReader reader(posix_, hints_, to);
    bool going = true;
    view_.each_segment(position, length, [&](MPI_Offset offset, MPI_Offset bytes) {
        return going = reader.add(offset, bytes);
    });
    if (going) reader.flush();
    done = reader.done();
    return io_failure("Cannot read", reader.failed());
}

// The memory's side: one piece, or packed and unpacked a portion at a time.
IoError File::transfer_stream(const Transfer& access, MPI_Offset& done) {
    const Datatype& type = *access.memory.type;
    done = 0;
    if (type.contiguous(access.memory.count)) {
        // By integers: MPI_BOTTOM is null, and its types hold absolute addresses.
        auto* memory =
            reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(access.memory.buffer) +
                                         static_cast<uintptr_t>(type.true_lb()));
        if (!access.write) return read_stream(access.position, memory, access.length, done);
        IoError error = write_stream(access.position, memory, access.length);
        if (!error) done = access.length;
        return error;
    }
    auto portion = static_cast<size_t>(std::min(access.length, kPackBytes));
    std::unique_ptr<std::byte[]> buffer(new std::byte[portion]);
    while (done < access.length) {
        MPI_Offset length = std::min(access.length - done, static_cast<MPI_Offset>(portion)),
                   moved = length;
        Bytes bytes(buffer.get(), static_cast<size_t>(length));
        if (access.write)
            type.pack(access.memory.buffer, access.memory.count, static_cast<size_t>(done), bytes);
        IoError error = access.write
                            ? write_stream(access.position + done, buffer.get(), length)
                            : read_stream(access.position + done, buffer.get(), length, moved);
        if (!access.write && moved > 0)
            type.unpack(access.memory.buffer, access.memory.count, static_cast<size_t>(done),
                        bytes.first(static_cast<size_t>(moved)));
        if (error) return error;
        done += moved;
        if (moved < length) break;
    }
    return {};
}

IoError File::transfer(Transfer access, MPI_Count& bytes) {
    if (!view_.external()) return transfer_bytes(access, bytes);
    ExternalTransfer converted(access);
    IoError error = transfer_bytes(access, bytes);
    converted.finish(bytes);
    return error;
}

IoError File::transfer_bytes(const Transfer& access, MPI_Offset& done) {
    done = 0;
    if (access.length == 0) return {};
    if (!view_.covers(access.position, access.length))
        return {MPI_ERR_ARG,
                format("the access of {} bytes at position {} of the view of \"{}\" leads "
                       "outside of it",
                       access.length, access.position, name_)};
    if (!atomic_) return transfer_stream(access, done);
    // All of it under one lock: what others see of it is nothing or everything. The lock of a file
    // does not keep this process's own threads apart.
    std::lock_guard guard(atomic_access_);
    MPI_Offset start = 0, length = 0;
    if (view_.ordered()) {
        start = view_.locate(access.position);
        length = view_.locate(access.position + access.length - 1) + 1 - start;
    }
    if (int failed = posix_.lock(start, length, access.write))
        return io_failure("Cannot lock", failed);
    IoError error = transfer_stream(access, done);
    int failed = posix_.unlock(start, length);
    return error ? error : io_failure("Cannot unlock", failed);
}

}  // namespace pomona
