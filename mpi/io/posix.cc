// mpi/io/posix.cc: files by POSIX calls. pread and pwrite, so that threads and ranks need no common
// position.
#include "mpi/io/posix.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

// macOS refuses more than INT_MAX bytes in one call, Linux transfers no more than 2 GiB less a
// page.
static constexpr size_t kCallBytesMax = size_t{1} << 30;

// ---- errors

int io_error_class(int os_errno) {
    switch (os_errno) {
    case 0: return MPI_SUCCESS;
    case ENOENT: return MPI_ERR_NO_SUCH_FILE;
    case EACCES:
    case EPERM: return MPI_ERR_ACCESS;
    case EEXIST: return MPI_ERR_FILE_EXISTS;
    case EROFS: return MPI_ERR_READ_ONLY;
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: return MPI_ERR_BAD_FILE;
    case EBUSY:
    case ETXTBSY: return MPI_ERR_FILE_IN_USE;
    case ENOMEM: return MPI_ERR_NO_MEM;
    case ENOSYS:
    case ENOTSUP:
    case ESPIPE:
    case ENODEV: return MPI_ERR_UNSUPPORTED_OPERATION;
    default: return MPI_ERR_IO;
    }
}

// What to do about it.
static const char* advice(int os_errno) {
    switch (os_errno) {
    case ENOENT: return messages::file_missing;
    case EACCES:
    case EPERM: return messages::file_forbidden;
    case EEXIST: return messages::file_exists;
    case EROFS: return messages::file_system_read_only;
    case ENOSPC: return messages::file_no_room;
    case EDQUOT: return messages::file_quota;
    case EISDIR: return messages::file_is_folder;
    case ENOTDIR: return "a part of the path is not a folder";
    case ENAMETOOLONG:
    case ELOOP: return messages::file_path_long;
    case EFBIG: return "the file would exceed what the file system or ulimit -f allows";
    case EMFILE:
    case ENFILE: return messages::file_too_many;
    case ENOLCK: return "the file system gives no locks; atomic mode needs them";
    default: return nullptr;
    }
}

IoError io_error(const std::string& doing, const std::string& name, int os_errno) {
    const char* mend = advice(os_errno);
    return {io_error_class(os_errno), format("{} \"{}\": {}{}{}", doing, name, os_text(os_errno),
                                             mend ? "; " : "", mend ? mend : "")};
}

// ---- opening and closing

int PosixFile::open(const char* path, int flags, unsigned permissions) {
    int made;
    do made = ::open(path, flags | O_CLOEXEC, permissions);
    while (made < 0 && errno == EINTR);
    if (made < 0) return errno;
    struct stat state;
    int failed = fstat(made, &state) != 0 ? errno : S_ISDIR(state.st_mode) ? EISDIR : 0;
    if (failed) return ::close(made), failed;
    descriptor_ = made;
    return 0;
}

// After EINTR the descriptor is gone on Linux and macOS alike.
int PosixFile::close() {
    if (descriptor_ < 0) return 0;
    int result = ::close(descriptor_);
    descriptor_ = -1;
    return result == 0 || errno == EINTR ? 0 : errno;
}

// ---- data

int PosixFile::read_at(void* to, size_t length, MPI_Offset offset, size_t& done) const {
    for (done = 0; done < length;) {
        ssize_t got =
            pread(descriptor_, static_cast<std::byte*>(to) + done,
                  std::min(length - done, kCallBytesMax), offset + static_cast<MPI_Offset>(done));
        if (got == 0) return 0;
        if (got > 0) done += static_cast<size_t>(got);
        else if (errno != EINTR) return errno;
    }
    return 0;
}

int PosixFile::write_at(const void* from, size_t length, MPI_Offset offset, size_t& done) const {
    for (done = 0; done < length;) {
        ssize_t put =
            pwrite(descriptor_, static_cast<const std::byte*>(from) + done,
                   std::min(length - done, kCallBytesMax), offset + static_cast<MPI_Offset>(done));
        if (put > 0) done += static_cast<size_t>(put);
        else if (put == 0) return ENOSPC;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

// ---- size

int PosixFile::size(MPI_Offset& bytes) const {
    struct stat state;
    if (fstat(descriptor_, &state) != 0) return errno;
    bytes = state.st_size;
    if (S_ISBLK(state.st_mode)) bytes = lseek(descriptor_, 0, SEEK_END);
    return bytes < 0 ? errno : 0;
}

int PosixFile::truncate(MPI_Offset bytes) const {
    int result;
    do result = ftruncate(descriptor_, bytes);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int PosixFile::preallocate(MPI_Offset bytes) const {
    MPI_Offset now = 0;
    if (int failed = size(now)) return failed;
#if defined(__APPLE__)
    fstore_t store = {};
    store.fst_flags = F_ALLOCATEALL;
    store.fst_posmode = F_PEOFPOSMODE;
    store.fst_length = bytes - now;
    // It is a wish: a file system that cannot preallocate still has the right size afterwards.
    if (bytes > now && fcntl(descriptor_, F_PREALLOCATE, &store) != 0 && errno == ENOSPC)
        return ENOSPC;
    return bytes > now ? truncate(bytes) : 0;
#else
    if (bytes == 0) return 0;
    int failed;
    do failed = posix_fallocate(descriptor_, 0, bytes);
    while (failed == EINTR);
    bool cannot = failed == EOPNOTSUPP || failed == EINVAL || failed == ENODEV;
    if (cannot) return bytes > now ? truncate(bytes) : 0;
    return failed;
#endif
}

int PosixFile::sync() const {
    int result;
#if defined(__APPLE__)
    // fsync leaves data in the drive's cache there.
    if (fcntl(descriptor_, F_FULLFSYNC) == 0) return 0;
#endif
    do result = fsync(descriptor_);
    while (result != 0 && errno == EINTR);
    // Pipes and devices that have nothing to synchronise say EINVAL.
    return result == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

// ---- locks

#if defined(F_OFD_SETLKW)
static constexpr int kLockCommand = F_OFD_SETLKW;  // owned by the opening, not by the process
#else
static constexpr int kLockCommand = F_SETLKW;
#endif

static int set_lock(int descriptor, short type, MPI_Offset offset, MPI_Offset length) {
    struct flock range = {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    range.l_start = offset;
    range.l_len = length;
    int command = kLockCommand;
    for (;;) {
        if (fcntl(descriptor, command, &range) == 0) return 0;
        // A file system may know the process's locks only.
        if (command != F_SETLKW && (errno == EINVAL || errno == ENOTSUP)) command = F_SETLKW;
        else if (errno != EINTR) return errno;
    }
}

int PosixFile::lock(MPI_Offset offset, MPI_Offset length, bool exclusive) const {
    return set_lock(descriptor_, exclusive ? F_WRLCK : F_RDLCK, offset, length);
}

int PosixFile::unlock(MPI_Offset offset, MPI_Offset length) const {
    return set_lock(descriptor_, F_UNLCK, offset, length);
}

}  // namespace pomona
