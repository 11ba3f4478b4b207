// mpi/tools/doctor_probes.cc: what this machine answers to the doctor.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"
#include "btl/shm/segment.h"
#include "btl/tcp/socket.h"
#include "mpi/runtime/hardware.h"
#include "pmix/job_directory.h"
#include "pmix/wireup/origin.h"
#include "pmix/wireup/pmix_probe.h"
#if defined(__APPLE__)
#include "accel/metal.h"
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

extern char** environ;

namespace pomona::doctor {

namespace {

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> out;
    DIR* directory = opendir(folder.c_str());
    if (!directory) return out;
    while (dirent* entry = readdir(directory))
        if (entry->d_name[0] != '.') out.push_back(entry->d_name);
    closedir(directory);
    return out;
}

// Whether a process still listens at this socket.
bool answers(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return true;  // cannot be told
    std::memcpy(address.sun_path, path.data(), path.size());
    for (int type : {SOCK_STREAM, SOCK_DGRAM}) {
        int descriptor = socket(AF_UNIX, type, 0);
        if (descriptor < 0) return true;
        bool ok = connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        int error = errno;
        close(descriptor);
        if (ok || error == EAGAIN) return true;
    }
    return false;
}

// The same for any socket in a folder; other launchers' jobs have one inside their session's.
bool anyone_listens(const std::string& folder, int depth = 2) {
    for (const std::string& name : names_in(folder)) {
        std::string path = folder + "/" + name;
        struct stat status;
        if (lstat(path.c_str(), &status) != 0) continue;
        if (S_ISSOCK(status.st_mode) && answers(path)) return true;
        if (S_ISDIR(status.st_mode) && depth > 0 && anyone_listens(path, depth - 1)) return true;
    }
    return false;
}

constexpr std::time_t kYoung = 60;  // seconds in which a job may still be starting

bool is_young(const struct stat& status) { return std::time(nullptr) - status.st_mtime < kYoung; }

class RealProbes final : public Probes {
public:
    System system() const override { return this_system; }
    std::string read(const std::string& path) const override {
        std::ifstream file(path);
        std::ostringstream out;
        out << file.rdbuf();
        return out.str();
    }
    std::string run(const std::string& command) const override {
        std::string out;
        std::FILE* pipe = popen((command + " 2>/dev/null </dev/null").c_str(), "r");
        if (!pipe) return out;
        char buffer[512];
        while (size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
        return pclose(pipe) == 0 ? out : "";
    }
    std::string variable(const std::string& name) const override {
        const char* value = std::getenv(name.c_str());
        return value ? value : "";
    }
    Params params() const override {
        return read_params(environ, [](const std::string&) {});
    }
    int64_t free_bytes(const std::string& folder) const override {
        struct statvfs state;
        if (statvfs(folder.c_str(), &state) != 0) return -1;
        return static_cast<int64_t>(state.f_bavail) * static_cast<int64_t>(state.f_frsize);
    }
    uint64_t descriptors_max() const override {
        rlimit limit{};
        return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
    }
    int cores() const override { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }
    int usable_cores() const override { return pomona::usable_cores(); }
    std::string temporary_folder() const override { return temporary_directory(); }
    std::vector<tcp::Interface> interfaces() const override { return tcp::list_interfaces(); }
    CardCounts card_counts(const std::string& interface) const override {
        return pomona::card_counts(interface);
    }
    std::string host_name() const override { return pomona::host_name(); }
    bool resolves(const std::string& name) const override {
        addrinfo* found = nullptr;
        bool ok = getaddrinfo(name.c_str(), nullptr, nullptr, &found) == 0;
        if (ok) freeaddrinfo(found);
        return ok;
    }
    std::string try_shared_memory() const override;
    std::string try_loopback() const override;
    std::string try_hwloc() const override {
        return describe_hardware().empty() ? "libhwloc.15 cannot be opened" : "";
    }
    std::string try_pmix() const override { return pomona::try_pmix(); }
    std::string try_metal() const override {
#if defined(__APPLE__)
        auto opened = Metal::open();
        return opened ? "" : opened.error().text();
#else
        return "there is no Metal here";
#endif
    }
    // Once: a process may hang that opens devices twice (btl/rdma/verbs.h).
    rdma::Survey rdma_devices() const override {
        static const rdma::Survey seen = rdma::survey();
        return seen;
    }
    std::vector<std::string> leftovers() const override;
};

std::string RealProbes::try_shared_memory() const {
    std::string name = pomona::format("/pomona-doctor-{}", getpid());
    constexpr size_t size = 1 << 20;
    auto made = Segment::create(name, size);
    if (!made) return made.error().text();
    auto seen = Segment::open(name);
    if (!seen) return seen.error().text();
    made->data()[size - 1] = std::byte{42};
    return seen->data()[size - 1] == std::byte{42} ? "" : "two mappings differ";
}

std::string RealProbes::try_loopback() const {
    auto listener = tcp::Socket::listen("127.0.0.1", 0);
    if (!listener) return listener.error().text();
    auto client = tcp::Socket::connect("127.0.0.1", listener->port(), 0);
    if (!client) return client.error().text();
    pollfd ready{listener->descriptor(), POLLIN, 0};
    if (poll(&ready, 1, 2000) != 1) return "a connection to 127.0.0.1 does not arrive";
    return "";
}

std::vector<std::string> RealProbes::leftovers() const {
    std::vector<std::string> out;
    std::string place = temporary_directory();
    std::vector<std::string> tags;
    for (const std::string& name : names_in(place)) {
        std::string path = place + "/" + name, tag = tag_of_job_directory(name);
        struct stat status;
        if (tag.empty() || lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != getuid())
            continue;
        bool alive = is_young(status) || anyone_listens(path);
        if (alive) tags.push_back(tag);
        else out.push_back(path);
    }
    // Shared memory whose job has no folder any more; macOS does not list names.
    for (const std::string& name : names_in("/dev/shm")) {
        std::string path = "/dev/shm/" + name;
        struct stat status;
        if (!name.starts_with("pomona-") || lstat(path.c_str(), &status) != 0 ||
            status.st_uid != getuid() || is_young(status))
            continue;
        bool alive = false;
        for (const std::string& tag : tags) alive |= name.starts_with("pomona-" + tag + "-");
        if (!alive) out.push_back(path);
    }
    return out;
}

}  // namespace

Probes& real_probes() {
    static RealProbes probes;
    return probes;
}

}  // namespace pomona::doctor
