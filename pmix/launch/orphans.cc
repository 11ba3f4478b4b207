// pmix/launch/orphans.cc: see orphans.h.
#include "pmix/launch/orphans.h"

#include "btl/base/format.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace pomona {

#if defined(__linux__)

namespace {

constexpr int kRounds = 50;  // generations of orphans

std::string read_file(const std::string& path) {
    int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string out;
    char buffer[4096];
    ssize_t count = 0;
    while (descriptor >= 0 && (count = read(descriptor, buffer, sizeof buffer)) > 0)
        out.append(buffer, static_cast<size_t>(count));
    if (descriptor >= 0) close(descriptor);
    return out;
}

bool is_of_job(pid_t process, std::string_view directory) {
    // Entries end with a zero byte.
    std::string environment = read_file(format("/proc/{}/environ", process)),
                word = "POMONA_JOB_DIR=";
    word += directory;
    word += '\0';
    size_t found = environment.find(word);
    return found == 0 || (found != environment.npos && environment[found - 1] == '\0');
}

std::vector<pid_t> children() {
    std::vector<pid_t> out;
    std::string text = read_file(format("/proc/self/task/{}/children", getpid()));
    for (const char* at = text.c_str(); *at;) {
        char* end = nullptr;
        long number = std::strtol(at, &end, 10);
        if (end == at) break;
        out.push_back(static_cast<pid_t>(number));
        at = end;
    }
    return out;
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void kill_orphans(std::string_view directory) {
    bool any = !directory.empty();
    for (int round = 0; round < kRounds && any; ++round) {
        any = false;
        for (pid_t process : children()) {
            if (!is_of_job(process, directory) || kill(process, SIGKILL) != 0) continue;
            any = true;
            while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {}
        }
    }
}

void kill_all_of_job(std::string_view directory) {
    bool any = !directory.empty();
    for (int round = 0; round < kRounds && any; ++round) {
        any = false;
        DIR* all = opendir("/proc");
        if (!all) return;
        while (dirent* entry = readdir(all)) {
            auto process = static_cast<pid_t>(std::atol(entry->d_name));
            if (process <= 1 || process == getpid() || !is_of_job(process, directory)) continue;
            any = kill(process, SIGKILL) == 0 || any;
        }
        closedir(all);
        usleep(1000);  // the dead have no environment any more
    }
}

#else

void adopt_orphans() {}
void kill_orphans(std::string_view) {}
void kill_all_of_job(std::string_view) {}

#endif

}  // namespace pomona
