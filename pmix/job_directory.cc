// pmix/job_directory.cc: see job_directory.h.
// Only plain system calls, no allocation-heavy library: the watchdog runs this too.
#include "pmix/job_directory.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/base/shared_names.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {
// Of this host's name; a lock on a shared disk may tell nothing about other hosts.
std::string host_hash() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const char* each = name; *each; ++each)
        hash = (hash ^ static_cast<unsigned char>(*each)) * 16777619u;
    std::string out;
    for (int i = 0; i < 4; ++i, hash >>= 5) out += "0123456789abcdefghijklmnopqrstuv"[hash & 31];
    return out;
}

constexpr int kLocalMost = 256;  // ranks on one machine (btl/shm)
constexpr const char* kUnmade = "The job's directory cannot be made";

std::string path_for(std::string_view tag) {
    return format("{}/pomona-{}-{}-{}", temporary_directory(), getuid(), tag, host_hash());
}
}  // namespace

std::string make_job_tag() {
    uint64_t bits = 0;
    if (getentropy(&bits, sizeof bits) != 0) bits = static_cast<uint64_t>(getpid()) * 0x9e3779b9u;
    std::string out;
    for (int i = 0; i < 8; ++i, bits >>= 5) out += "0123456789abcdefghijklmnopqrstuv"[bits & 31];
    return out;
}

std::string temporary_directory() {
    // 104 bytes for a socket's path on macOS, less "/pomona-<user>-<tag>/<name>".
    const char* given = std::getenv("TMPDIR");
    if (given && *given == '/' && std::strlen(given) <= 52) {
        std::string out = given;
        while (out.size() > 1 && out.back() == '/') out.pop_back();
        if (access(out.c_str(), W_OK | X_OK) == 0) return out;
    }
    return "/tmp";
}

Result<std::string> make_job_directory(const std::string& tag, int node) {
    // Two nodes of a job may be one machine under two names.
    std::string path = path_for(node > 0 ? format("{}-{}", tag, node) : tag);
    if (mkdir(path.c_str(), 0700) == 0) return path;
    return os_error(Code::io, kUnmade);
}

namespace {
std::string lock_of(const std::string& directory) { return directory + "/lock"; }
}  // namespace

namespace {
// Under another name first, so that nobody finds it free. A number of -1: the system has no locks
// there, and the directory is never swept.
Result<int> make_lock(const std::string& unnamed, int kind) {
    int descriptor = open(unnamed.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (descriptor < 0) return os_error(Code::io, "No file can be made in the job's directory");
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    if (flock(descriptor, kind | LOCK_NB) == 0) return descriptor;
    close(descriptor);
    unlink(unnamed.c_str());
    return -1;
}

// One that others hold, too. -1: there is none, or it was removed meanwhile.
int share_lock(const std::string& lock) {
    int descriptor = open(lock.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return -1;
    // Who looks whether it is free holds it for a moment.
    while (flock(descriptor, LOCK_SH) != 0 && errno == EINTR) {}
    struct stat status {};
    if (fstat(descriptor, &status) == 0 && status.st_nlink > 0) return descriptor;
    close(descriptor);
    return -1;
}
}  // namespace

Status hold_job_directory(const std::string& path) {
    std::string unnamed = path + "/lock.new";
    int descriptor = TRY(make_lock(unnamed, LOCK_EX));
    if (descriptor < 0) return {};
    if (dprintf(descriptor, "%d\n", static_cast<int>(getpid())) > 0 &&
        rename(unnamed.c_str(), lock_of(path).c_str()) == 0)
        return {};  // the system closes the descriptor when we end
    close(descriptor);
    unlink(unnamed.c_str());
    return {};
}

Result<int> hold_job_directory_together(const std::string& path, int number) {
    std::string lock = lock_of(path), unnamed = format("{}.new-{}", lock, number);
    if (int shared = share_lock(lock); shared >= 0) return shared;
    int descriptor = TRY(make_lock(unnamed, LOCK_SH));
    if (descriptor < 0) return -1;
    bool made = link(unnamed.c_str(), lock.c_str()) == 0;
    bool others = !made && errno == EEXIST;
    unlink(unnamed.c_str());
    if (made) return descriptor;
    close(descriptor);
    if (!others) return -1;
    if (int shared = share_lock(lock); shared >= 0) return shared;
    return Error{Code::io, "The job's directory was removed: who made it has ended"};
}

void leave_job_directory(const std::string& path, int lock, int number) {
    // If others hold it, we lose it all the same: it is not needed any more.
    bool last = lock >= 0 ? flock(lock, LOCK_EX | LOCK_NB) == 0 : number == 0;
    if (last) remove_job_directory(path);
    if (lock >= 0) close(lock);
}

namespace {
// One without a lock is another launcher's, or just being made; or its mpirun was killed between
// making and locking it, and then it is old and holds nothing else.
bool remove_half_made(const std::string& path) {
    constexpr time_t old = 60;
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || time(nullptr) - status.st_mtime < old) return false;
    if (DIR* directory = opendir(path.c_str())) {
        while (dirent* entry = readdir(directory)) {
            if (!std::string_view(entry->d_name).starts_with("lock.new")) continue;
            int descriptor =
                openat(dirfd(directory), entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
            if (descriptor < 0) continue;
            if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
                unlinkat(dirfd(directory), entry->d_name, 0);
            close(descriptor);
        }
        closedir(directory);
    }
    return rmdir(path.c_str()) == 0;
}

}  // namespace

std::string tag_of_job_directory(std::string_view name) {
    std::string prefix = format("pomona-{}-", getuid()), suffix = "-" + host_hash();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) return {};
    name = name.substr(prefix.size());
    return std::string(name.substr(0, name.find('-')));
}

namespace {
// Each directory of this user's jobs on this host, with its open lock (-1: it has none) and whether
// a launcher holds that.
template <class Function> void each_job_directory(Function&& function) {
    std::string place = temporary_directory();
    DIR* directory = opendir(place.c_str());
    if (!directory) return;
    while (dirent* entry = readdir(directory)) {
        std::string tag = tag_of_job_directory(entry->d_name);
        if (tag.empty()) continue;
        std::string path = format("{}/{}", place, entry->d_name);
        struct stat status {};
        if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != getuid())
            continue;
        int descriptor = open(lock_of(path).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        function(path, tag, descriptor,
                 descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0);
        if (descriptor < 0) continue;
        close(descriptor);
    }
    closedir(directory);
}
}  // namespace

namespace {
// Shared memory of this user whose maker has ended, although no directory tells of it any more.
void sweep_shared_memory() {
#if defined(__linux__)
    DIR* directory = opendir("/dev/shm");
    if (!directory) return;
    while (dirent* entry = readdir(directory)) {
        if (!std::string_view(entry->d_name).starts_with("pomona-")) continue;
        int descriptor =
            openat(dirfd(directory), entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) continue;
        struct stat status {};
        if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
            (status.st_mode & 07777) == shared_locked && status.st_uid == geteuid() &&
            flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
        close(descriptor);
    }
    closedir(directory);
#endif
}
}  // namespace

int sweep_job_directories() {
    int removed = 0;
    each_job_directory([&](const std::string& path, std::string_view tag, int lock, bool held) {
        if (lock < 0) removed += remove_half_made(path);
        if (held || lock < 0) return;
        remove_shared_memory(tag, kLocalMost);
        remove_job_directory(path);
        ++removed;
    });
    sweep_shared_memory();
    return removed;
}

std::vector<RunningJob> running_jobs() {
    std::vector<RunningJob> jobs;
    each_job_directory([&](const std::string& path, std::string_view tag, int lock, bool held) {
        char number[16] = "";
        if (!held || pread(lock, number, sizeof number - 1, 0) <= 0) return;
        if (int launcher = std::atoi(number); launcher > 0)
            jobs.push_back({std::string(tag), path, launcher});
    });
    return jobs;
}

namespace {
// Whether only we can enter it, and a socket's path in it stays short.
bool is_private(const std::string& path) {
    struct stat status {};
    return !path.empty() && path.size() <= 60 && lstat(path.c_str(), &status) == 0 &&
           S_ISDIR(status.st_mode) && status.st_uid == getuid() && !(status.st_mode & 022);
}
}  // namespace

Result<std::string> share_job_directory(const std::string& tag, std::string_view session) {
    std::string inner(session);
    std::string path = is_private(inner) ? inner + "/pomona-" + tag : path_for(tag);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        Error error = os_error(Code::io, kUnmade);
        LOG(error, pmix, messages::no_job_directory, path.substr(0, path.rfind('/')),
            os_text(error.os_errno));
        return error;
    }
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0)
        return os_error(Code::io, "The job's directory cannot be examined");
    if (!S_ISDIR(status.st_mode) || status.st_uid != getuid() || (status.st_mode & 077))
        return Error{Code::refused,
                     "The job's directory belongs to someone else or is open to "
                     "others"};
    return path;
}

namespace {
void remove_level(const std::string& path, int depth) {
    if (DIR* directory = opendir(path.c_str())) {
        while (dirent* entry = readdir(directory)) {
            std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            std::string inner = path + "/" + entry->d_name;
            if (std::string shared = shared_name_of(name); !shared.empty())
                shm_unlink(shared.c_str());
            if (unlink(inner.c_str()) != 0 && depth > 0) remove_level(inner, depth - 1);
        }
        closedir(directory);
    }
    rmdir(path.c_str());
}
}  // namespace

void remove_job_directory(const std::string& path) {
    if (path.find("/pomona-") != std::string::npos) remove_level(path, 3);
}

void remove_shared_memory(std::string_view tag, int local_size) {
    if (tag.empty()) return;
#if defined(__linux__)
    (void)local_size;  // the names can be listed here
    std::string prefix = format("pomona-{}-", tag);
    DIR* directory = opendir("/dev/shm");
    if (!directory) return;
    while (dirent* entry = readdir(directory))
        if (std::string_view(entry->d_name).starts_with(prefix))
            shm_unlink(format("/{}", entry->d_name).c_str());
    closedir(directory);
#else
    for (int i = 0; i < local_size; ++i) shm_unlink(format("/pomona-{}-{}", tag, i).c_str());
#endif
}

}  // namespace pomona
