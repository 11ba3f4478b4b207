// pmix/launch/spawn.cc: see spawn.h.
#include "pmix/launch/spawn.h"

#include "pmix/launch/executable.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

namespace pomona {

namespace {

enum class Step : int { none, directory, streams, execute };

// All the child needs, as plain pointers.
struct Plan {
    const char* path;
    char* const* arguments;
    char* const* environment;
    const char* directory;
    int streams[3];
    const unsigned long* cpu_mask;
    size_t cpu_mask_bytes;
    const rlimit* descriptor_limit;
    const sigset_t* ignored;
    sigset_t signals;
    pid_t parent;
    // Written by the child.
    volatile Step failed = Step::none;
    volatile int failed_errno = 0;
};

void fail(Plan& plan, Step step, int report) {
    plan.failed_errno = errno;
    plan.failed = step;
    if (report >= 0) {
        int words[2] = {static_cast<int>(step), errno};
        (void)!write(report, words, sizeof words);
    }
    _exit(127);
}

// Async-signal-safe calls only; never returns.
[[noreturn]] void child(Plan& plan, int report) {
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD,
                       SIGPIPE, SIGTTIN, SIGTTOU, SIGQUIT, SIGXFSZ})
        std::signal(signal, sigismember(plan.ignored, signal) == 1 ? SIG_IGN : SIG_DFL);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan.parent) _exit(127);  // mpirun died before we asked
    if (plan.cpu_mask_bytes) syscall(SYS_sched_setaffinity, 0, plan.cpu_mask_bytes, plan.cpu_mask);
#endif
    setpgid(0, 0);
    if (plan.descriptor_limit->rlim_cur > 0) setrlimit(RLIMIT_NOFILE, plan.descriptor_limit);
    for (int i = 0; i < 3; ++i) {
        // The streams lie above 2 (or are in place), so no dup2 overwrites one still needed.
        if (plan.streams[i] == i) fcntl(i, F_SETFD, 0);
        else if (dup2(plan.streams[i], i) < 0) fail(plan, Step::streams, report);
    }
    if (plan.directory && chdir(plan.directory) != 0) fail(plan, Step::directory, report);
    sigprocmask(SIG_SETMASK, &plan.signals, nullptr);
    execve(plan.path, plan.arguments, plan.environment);
    fail(plan, Step::execute, report);
    _exit(127);
}

#if defined(__linux__)
pid_t start_child(Plan& plan) {
    pid_t process = vfork();
    if (process == 0) child(plan, -1);
    return process;
}
#else
pid_t start_child(Plan& plan) {
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return -1;
    for (int end : pipe_ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    pid_t process = fork();
    if (process == 0) {
        close(pipe_ends[0]);
        child(plan, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    int words[2] = {0, 0};
    if (process > 0 && read(pipe_ends[0], words, sizeof words) == sizeof words) {
        plan.failed = static_cast<Step>(words[0]);
        plan.failed_errno = words[1];
    }
    close(pipe_ends[0]);
    return process;
}
#endif

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

const char* text_of_step(Step step) {
    switch (step) {
    case Step::directory: return "The working directory cannot be entered";
    case Step::streams: return "The standard streams cannot be connected";
    default: return "The program cannot be executed";
    }
}

void collect(pid_t process) {
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {}
}

bool is_executable(const std::string& path) {
    struct stat status {};
    return access(path.c_str(), X_OK) == 0 && stat(path.c_str(), &status) == 0 &&
           S_ISREG(status.st_mode);
}

}  // namespace

std::string in_directory(const std::string& path, const std::string& directory) {
    return directory.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

Result<pid_t> spawn(const SpawnRequest& request) {
    std::vector<char*> arguments = pointers(request.arguments);
    std::vector<char*> environment = pointers(request.environment);
    std::string shell = "/bin/sh";  // of a script without a first line of its own
    std::vector<char*> shell_arguments = arguments;
    shell_arguments.insert(shell_arguments.begin(), shell.data());
    shell_arguments[1] = const_cast<char*>(request.path.c_str());
    Plan plan{request.path.c_str(),
              arguments.data(),
              environment.data(),
              request.directory.empty() ? nullptr : request.directory.c_str(),
              {request.input, request.output, request.error},
              request.cpu_mask.data(),
              request.cpu_mask.size() * sizeof(unsigned long),
              &request.descriptor_limit,
              &request.ignored,
              {},
              getpid()};
    // No signal may run one of our handlers in the child.
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &plan.signals);
    pid_t process = start_child(plan);
    bool script = process > 0 && plan.failed == Step::execute && plan.failed_errno == ENOEXEC &&
                  is_plain_script(in_directory(request.path, request.directory));
    if (script) {
        collect(process);
        plan.path = shell.c_str(), plan.arguments = shell_arguments.data();
        plan.failed = Step::none;
        process = start_child(plan);
    }
    int error = errno;
    sigset_t saved = plan.signals;
    sigprocmask(SIG_SETMASK, &saved, nullptr);
    if (process < 0) return Error{Code::io, "No further process can be started", -1, error};
    if (plan.failed != Step::none) {
        collect(process);
        return Error{Code::not_found, text_of_step(plan.failed), -1, plan.failed_errno};
    }
    setpgid(process, process);  // whoever comes first; EACCES after exec is fine
    return process;
}

std::string find_program(const std::string& name, const std::string& directory,
                         const std::vector<std::string>& environment) {
    auto executable = [&](const std::string& path) {
        return is_executable(in_directory(path, directory));
    };
    if (name.find('/') != name.npos) return executable(name) ? name : "";
    std::string_view path = "/usr/local/bin:/usr/bin:/bin";
    for (const std::string& entry : environment)
        if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
    while (true) {
        size_t colon = std::min(path.find(':'), path.size());
        std::string candidate(colon == 0 ? std::string_view(".") : path.substr(0, colon));
        candidate += "/" + name;
        if (executable(candidate)) return candidate;
        if (colon == path.size()) break;
        path.remove_prefix(colon + 1);
    }
    // As with other launchers, the working directory comes last.
    std::string here = "./" + name;
    return executable(here) ? here : "";
}

}  // namespace pomona
