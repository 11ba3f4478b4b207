// btl/shm/segment.cc: shm_open, ftruncate, mmap.
#include "btl/shm/segment.h"

#include "btl/base/messages.h"
#include "btl/base/shared_names.h"
#include "btl/base/system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace pomona {

static size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

// Locks and marks what its maker has opened (btl/base/shared_names.h); to be kept open.
static int lock_of([[maybe_unused]] int descriptor) {
#if defined(__linux__)
    int lock = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (lock < 0) return -1;
    if (flock(lock, LOCK_SH | LOCK_NB) == 0) fchmod(lock, shared_locked);
    return lock;
#else
    return -1;
#endif
}

static Result<std::byte*> map(int descriptor, size_t size, size_t offset = 0) {
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                      static_cast<off_t>(offset));
    Error error = os_error(Code::out_of_memory, "Cannot map shared memory");
    close(descriptor);
    if (data == MAP_FAILED) return error;
    return static_cast<std::byte*>(data);
}

namespace {

// Names that this process has given, with the files that tell of them. What is left when it ends by
// exit(), without MPI_Finalize as after an exception, goes then: not every launcher would remove
// it. Forked children have made none of them.
class GivenNames {
public:
    void add(const std::string& name, const std::string& note) {
        std::lock_guard guard(mutex_);
        if (maker_ != getpid()) names_.clear(), maker_ = getpid();
        names_[name] = note;
    }
    void remove(const std::string& name) {
        if (maker_ != getpid()) return;
        std::lock_guard guard(mutex_);
        auto found = names_.find(name);
        if (found == names_.end()) return;
        unlink_both(*found);
        names_.erase(found);
    }
    static GivenNames& given_names() {
        static auto* names = new GivenNames;  // other threads may be at work while a process exits
        return *names;
    }

    void remove_all() {
        if (maker_ != getpid()) return;  // before the lock, which a thread may have had at the fork
        std::lock_guard guard(mutex_);
        for (auto& each : names_) unlink_both(each);
        names_.clear();
    }

private:
    static void unlink_both(const std::pair<const std::string, std::string>& given) {
        shm_unlink(given.first.c_str());
        if (!given.second.empty()) ::unlink(given.second.c_str());  // after the memory's name
    }
    std::mutex mutex_;
    std::map<std::string, std::string> names_;
    std::atomic<pid_t> maker_{0};
};

// After all that exit() calls of the program's, which may use MPI still.
[[gnu::destructor]] void remove_names() { GivenNames::given_names().remove_all(); }

}  // namespace

// A job whose directory takes no file is one that leaves its memory behind when it is killed.
static std::string leave_note(const std::string& directory, const std::string& name) {
    if (directory.empty()) return {};
    std::string note = shared_note(directory, name);
    int descriptor = open(note.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0) return {};
    close(descriptor);
    return note;
}

Result<Segment> Segment::create(const std::string& name, size_t size,
                                const std::string& directory) {
    Segment made(nullptr, size, name, leave_note(directory, name));  // removes both on failure
    int descriptor = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (descriptor < 0 && errno == EEXIST) {
        shm_unlink(name.c_str());
        descriptor = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    }
    if (descriptor < 0) {
        Error error = os_error(Code::out_of_memory, "Cannot make shared memory");
        made.owned_name_.clear();  // another's
        return error;
    }
    GivenNames::given_names().add(name, made.note_);
    made.lock_ = lock_of(descriptor);
    if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
        Error error =
            os_error(Code::out_of_memory, this_system == System::macos ? "Cannot size shared memory"
                                                                       : messages::shm_unsized);
        close(descriptor);
        return error;
    }
    made.data_ = TRY(map(descriptor, size));
    return made;
}

Result<Segment> Segment::open(const std::string& name) { return open_part(name, 0, 0); }

Result<Segment> Segment::open_part(const std::string& name, size_t offset, size_t length) {
    int descriptor = shm_open(name.c_str(), O_RDWR, 0600);
    if (descriptor < 0)
        return os_error(errno == ENOENT ? Code::not_found : Code::io, "Cannot open shared memory");
    struct stat status;
    // A size of 0 is a segment between its maker's shm_open and ftruncate.
    if (fstat(descriptor, &status) != 0 || status.st_size == 0) {
        close(descriptor);
        return Error{Code::not_found, "Shared memory is not sized yet"};
    }
    if (status.st_uid != geteuid()) {
        close(descriptor);
        return Error{Code::refused, "Shared memory belongs to another user"};
    }
    auto whole = static_cast<size_t>(status.st_size);
    if (length == 0) length = whole;
    if (offset > whole || length > whole - offset) {
        close(descriptor);
        return Error{Code::malformed, "Shared memory is shorter than it should be"};
    }
    size_t shift = offset % page_size();
    Segment opened(TRY(map(descriptor, length + shift, offset - shift)), length + shift, "", "");
    opened.shift_ = shift;
    opened.whole_size_ = whole;
    opened.number_ = status.st_ino;
    return opened;
}

void Segment::want_huge_pages() const {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    madvise(data_, size_, MADV_HUGEPAGE);
#endif
}

Pages pages_of(const std::byte* bytes, size_t length, size_t page) {
    auto begin = reinterpret_cast<uintptr_t>(bytes) & ~(uintptr_t{page} - 1);
    return {begin, reinterpret_cast<uintptr_t>(bytes) + length - begin};
}

// Linux 5.14 tells instead of ending the process; before, and on macOS, where the memory is
// swappable, it is taken when it is touched.
static Status populate([[maybe_unused]] const std::byte* bytes, [[maybe_unused]] size_t length,
                       [[maybe_unused]] int advice) {
#if defined(__linux__)
    Pages pages = pages_of(bytes, length, page_size());
    if (madvise(reinterpret_cast<void*>(pages.begin), pages.length, advice) != 0 && errno != EINVAL)
        return Error{Code::out_of_memory, messages::shm_full};
#endif
    return {};
}

// The numbers of MADV_POPULATE_READ and _WRITE, which are newer than some headers.
Status provide_for_reading(const std::byte* bytes, size_t length) {
    return populate(bytes, length, 22);
}
Status provide_memory(std::byte* bytes, size_t length) { return populate(bytes, length, 23); }

bool return_memory([[maybe_unused]] std::byte* bytes, [[maybe_unused]] size_t length) {
#if defined(MADV_REMOVE)
    size_t page = page_size();
    auto begin = (reinterpret_cast<uintptr_t>(bytes) + page - 1) / page * page;
    auto end = (reinterpret_cast<uintptr_t>(bytes) + length) / page * page;
    return begin < end && madvise(reinterpret_cast<void*>(begin), end - begin, MADV_REMOVE) == 0;
#else
    return false;
#endif
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(shift_, other.shift_);
    std::swap(whole_size_, other.whole_size_);
    std::swap(number_, other.number_);
    std::swap(owned_name_, other.owned_name_);
    std::swap(note_, other.note_);
    std::swap(lock_, other.lock_);
    return *this;
}

Segment::~Segment() {
    if (data_) munmap(data_, size_);
    unlink();
}

void Segment::unlink() {
    if (!owned_name_.empty()) GivenNames::given_names().remove(owned_name_);
    else if (!note_.empty()) ::unlink(note_.c_str());
    if (lock_ >= 0) close(std::exchange(lock_, -1));
    owned_name_.clear();
    note_.clear();
}

}  // namespace pomona
