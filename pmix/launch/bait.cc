// pmix/launch/bait.cc: see bait.h. How a loader treats a file of another class: glibc,
// elf/dl-load.c, open_verify.
#include "pmix/launch/bait.h"

#include "btl/base/format.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <sys/inotify.h>
#endif

namespace pomona {

#if defined(__GLIBC__)

namespace {

// MPICH and those made from it, Intel MPI, Open MPI. Not libmpi.so, which compilers look for, too,
// and would speak of.
constexpr const char* kNames[] = {"libmpi.so.12",   "libmpi.so.40",   "libmpi.so.20",
                                  "libmpi.so.1",    "libmpi.so.0",    "libmpich.so.12",
                                  "libmpich.so.10", "libmpi_ibm.so.3"};

std::string folder_of(const std::string& job_directory) { return job_directory + "/other"; }

// An ELF file's beginning, of neither 32-bit nor 64-bit machines: its number of class is none.
std::string of_no_machine() {
    std::array<char, 64> header{};
    header[0] = 0x7f, header[1] = 'E', header[2] = 'L', header[3] = 'F';
    header[5] = 1, header[6] = 1;  // little-endian, version 1
    return std::string(header.data(), header.size());
}

}  // namespace

std::string make_bait(const std::string& job_directory) {
    std::string folder = folder_of(job_directory);
    if (mkdir(folder.c_str(), 0700) != 0) return {};
    for (const char* name : kNames) {
        std::ofstream file(format("{}/{}", folder, name), std::ios::binary);
        if (!(file << of_no_machine()).flush()) return {};
    }
    return folder;
}

bool BaitWatch::watch(const std::string& job_directory) {
    descriptor_ = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (descriptor_ >= 0 &&
        inotify_add_watch(descriptor_, folder_of(job_directory).c_str(), IN_OPEN) >= 0)
        return true;
    stop();
    return false;
}

void BaitWatch::stop() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
}

std::vector<std::string> BaitWatch::taken() {
    std::vector<std::string> out;
    alignas(inotify_event) char buffer[4096];
    ssize_t count = 0;
    while (descriptor_ >= 0 && (count = read(descriptor_, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < count;) {
            inotify_event event;
            std::memcpy(&event, buffer + at, sizeof event);
            // The folder itself, which somebody lists, has no name here.
            std::string name(event.len ? buffer + at + sizeof event : "");
            if (!name.empty()) out.push_back(name);
            at += static_cast<ssize_t>(sizeof event + event.len);
        }
    return out;
}

#else

std::string make_bait(const std::string&) { return {}; }
bool BaitWatch::watch(const std::string&) { return false; }
void BaitWatch::stop() {}
std::vector<std::string> BaitWatch::taken() { return {}; }

#endif

}  // namespace pomona
