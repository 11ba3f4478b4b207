// btl/shm/life_file.cc: fcntl(F_SETLK), and the files that this process holds itself.
#include "btl/shm/life_file.h"

#include <fcntl.h>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <utility>

namespace pomona {

namespace {

using FileNumber = std::pair<dev_t, ino_t>;

// Of the process, as its locks are, and not of a rank: ranks may share a process.
struct Own {
    std::mutex mutex;
    std::set<FileNumber> files;
};
Own& own() {
    static Own* const here = new Own;  // stays: a program may end MPI in an exit handler
    return *here;
}

struct flock whole_file() {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

Life look_at(int descriptor, uint64_t incarnation) {
    struct flock lock = whole_file();
    if (fcntl(descriptor, F_GETLK, &lock) != 0) return Life::unknown;
    if (lock.l_type != F_UNLCK) return Life::alive;
    uint64_t found = 0;
    bool same =
        pread(descriptor, &found, sizeof found, 0) == ssize_t{sizeof found} && found == incarnation;
    return same ? Life::dead : Life::unknown;
}

}  // namespace

// Locked and written before it has its name, so that nobody finds it free while we live.
LifeFile LifeFile::hold(const std::string& path, uint64_t incarnation) {
    LifeFile made;
    std::string unnamed = path + ".new";
    unlink(unnamed.c_str());
    int descriptor = open(unnamed.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor < 0) return made;
    struct flock lock = whole_file();
    struct stat status;
    Own& here = own();
    std::lock_guard guard(here.mutex);
    bool good =
        fcntl(descriptor, F_SETLK, &lock) == 0 && fstat(descriptor, &status) == 0 &&
        pwrite(descriptor, &incarnation, sizeof incarnation, 0) == ssize_t{sizeof incarnation} &&
        here.files.insert({status.st_dev, status.st_ino}).second;
    if (!good || rename(unnamed.c_str(), path.c_str()) != 0) {
        if (good) here.files.erase({status.st_dev, status.st_ino});
        close(descriptor);
        unlink(unnamed.c_str());
        return made;
    }
    made.descriptor_ = descriptor;
    made.path_ = path;
    return made;
}

Life LifeFile::look(const std::string& path, uint64_t incarnation) {
    Own& here = own();
    // Held while the file is open: it must not become ours before it is closed.
    std::lock_guard guard(here.mutex);
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return Life::unknown;
    if (here.files.count({status.st_dev, status.st_ino})) return Life::alive;
    int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0) return Life::unknown;
    // What stands under the name now may be another file, one of ours.
    struct stat opened;
    bool same = fstat(descriptor, &opened) == 0 && opened.st_ino == status.st_ino &&
                opened.st_dev == status.st_dev;
    Life life = same ? look_at(descriptor, incarnation) : Life::unknown;
    close(descriptor);
    return life;
}

LifeFile::LifeFile(LifeFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::exchange(other.path_, {})) {}

LifeFile& LifeFile::operator=(LifeFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(path_, other.path_);
    return *this;
}

LifeFile::~LifeFile() {
    if (descriptor_ < 0) return;
    Own& here = own();
    std::lock_guard guard(here.mutex);
    struct stat status, named;
    // Another may have taken the name over, a later run of the job.
    if (fstat(descriptor_, &status) == 0) {
        if (stat(path_.c_str(), &named) == 0 && named.st_ino == status.st_ino &&
            named.st_dev == status.st_dev)
            unlink(path_.c_str());
        here.files.erase({status.st_dev, status.st_ino});
    }
    close(descriptor_);
}

}  // namespace pomona
