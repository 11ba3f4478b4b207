// btl/shm/segment.h: a named piece of memory that several processes map.
// POSIX shared memory on Linux and macOS alike; macOS allows 31 characters of name and one
// ftruncate per object, which is all that is done here.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <string>

namespace pomona {

class Segment {
public:
    // Makes a new segment of `size` zero bytes, readable by this user only. A stale one of the
    // same name (from a job that was killed) is replaced. While the name stands, a file in
    // `directory`, the job's, tells of it (btl/base/shared_names.h).
    static Result<Segment> create(const std::string& name, size_t size,
                                  const std::string& directory = {});
    // Maps an existing one whole. Error{not_found} when it is not there (yet).
    static Result<Segment> open(const std::string& name);
    // Maps a part of an existing one: what is not mapped costs no page tables and no address space.
    static Result<Segment> open_part(const std::string& name, size_t offset, size_t length);

    Segment() = default;
    Segment(Segment&& other) noexcept;
    Segment& operator=(Segment&& other) noexcept;
    ~Segment();  // unmaps; the creator also removes the name

    // Removes the name: all who need the segment have opened it.
    void unlink();

    // To be called before it is first touched: asks for huge pages, where the system may give some
    // (Linux, /dev/shm mounted with huge=advise). Where it gives none, nothing changes.
    void want_huge_pages() const;

    std::byte* data() const { return data_ + shift_; }
    size_t size() const { return size_ - shift_; }
    // Of an opened one: how large it is as a whole, and which it is (one of the same name may be
    // another).
    size_t whole_size() const { return whole_size_; }
    uint64_t number() const { return number_; }

private:
    Segment(std::byte* data, size_t size, std::string owned_name, std::string note)
        : data_(data), size_(size), owned_name_(std::move(owned_name)), note_(std::move(note)) {}
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    size_t shift_ = 0;  // from the beginning of the first page to what was asked for
    size_t whole_size_ = 0;
    uint64_t number_ = 0;
    std::string owned_name_;  // empty when another process made it, or unlinked
    std::string note_;        // the file that tells of it
    int lock_ = -1;           // Linux: by it others see that its maker lives
};

// The pages that some bytes lie in, as madvise wants them: from the beginning of the first one,
// which must be one of the system's own pages (4 KiB, 16 KiB on Apple's machines, up to 64 KiB on
// arm64 Linux).
struct Pages {
    uintptr_t begin;
    size_t length;
};
Pages pages_of(const std::byte* bytes, size_t length, size_t page);

// Makes sure that there is memory behind part of a segment that is to be written.
Status provide_memory(std::byte* bytes, size_t length);
// Gives the system back the memory of whole pages of a segment: zero bytes stand there, and nobody
// may write there before provide_memory(). False where the system cannot.
bool return_memory(std::byte* bytes, size_t length);
// The same as provide_memory() for part of another's segment that its maker may not have written to
// yet: a look would take memory for it too.
Status provide_for_reading(const std::byte* bytes, size_t length);

}  // namespace pomona
