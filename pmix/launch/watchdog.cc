// pmix/launch/watchdog.cc: see watchdog.h.
#include "pmix/launch/watchdog.h"

#include "pmix/job_directory.h"
#include "pmix/launch/orphans.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

namespace pomona {

namespace {

constexpr pid_t kDone = -1;

void close_all_but(int kept) {
#if defined(__linux__) && defined(SYS_close_range)
    if ((kept == 3 || syscall(SYS_close_range, 3u, static_cast<unsigned>(kept - 1), 0u) == 0) &&
        syscall(SYS_close_range, static_cast<unsigned>(kept + 1), ~0u, 0u) == 0)
        return;
#endif
    long limit = std::min(sysconf(_SC_OPEN_MAX), 65536L);
    for (int i = 3; i < limit; ++i)
        if (i != kept) close(i);
}

[[noreturn]] void watch(int pipe, std::vector<pid_t> groups, const std::string& tag,
                        const std::string& directory, int local_size) {
    setsid();
    for (int signal :
         {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE, SIGTSTP, SIGXFSZ})
        std::signal(signal, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
#if defined(__linux__)
    prctl(PR_SET_NAME, "pomona-watchdog");
#endif
    if (pipe < 3) pipe = fcntl(pipe, F_DUPFD, 3);
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; ++i) dup2(nothing, i);
    close_all_but(pipe);
    if (chdir("/") != 0) {}  // keep no file system busy
    for (;;) {
        pid_t word = 0;
        ssize_t count = read(pipe, &word, sizeof word);
        if (count < 0 && errno == EINTR) continue;
        if (count != sizeof word) break;  // mpirun is dead
        if (word == kDone) _exit(0);
        if (word < kDone) {
            groups.push_back(-word);
            continue;
        }
        groups.erase(std::remove(groups.begin(), groups.end(), word), groups.end());
    }
    for (pid_t group : groups) kill(-group, SIGKILL);
    kill_all_of_job(directory);
    for (int i = 0; i < 20; ++i) {  // what dies may still be making files
        remove_shared_memory(tag, local_size);
        remove_job_directory(directory);
        bool alive = false;
        for (pid_t group : groups) alive = alive || kill(-group, 0) == 0;
        if (!alive && i > 0) break;
        poll(nullptr, 0, 20);
    }
    _exit(0);
}

}  // namespace

bool Watchdog::start(const std::vector<pid_t>& groups, const std::string& tag,
                     const std::string& directory, int local_size) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    process_ = fork();
    if (process_ == 0) {
        close(ends[1]);
        watch(ends[0], groups, tag, directory, local_size);
    }
    close(ends[0]);
    pipe_ = ends[1];
    if (process_ > 0) return true;
    close(pipe_);
    pipe_ = -1;
    return false;
}

// Process groups have numbers above 1: a negative word means one more.
void Watchdog::add(pid_t group) {
    pid_t word = -group;
    if (pipe_ >= 0) (void)!write(pipe_, &word, sizeof word);
}

void Watchdog::forget(pid_t group) {
    if (pipe_ >= 0) (void)!write(pipe_, &group, sizeof group);
}

void Watchdog::dismiss() {
    if (pipe_ < 0) return;
    pid_t word = kDone;
    (void)!write(pipe_, &word, sizeof word);
    close(pipe_);
    pipe_ = -1;
    // Reaped here: in many containers nobody else would.
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {}
}

Watchdog::~Watchdog() { dismiss(); }

}  // namespace pomona
