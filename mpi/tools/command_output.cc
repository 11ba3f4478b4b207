// mpi/tools/command_output.cc: see command_output.h.
#include "mpi/tools/command_output.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr pid_t kDone = -1;

// A pipe, whose ends programs do not inherit.
class Pipe {
public:
    Pipe() {
        good_ = pipe(ends_) == 0;
        for (int end : ends_)
            if (good_) fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    ~Pipe() { close_read(), close_write(); }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    bool good() const { return good_; }
    int to_read() const { return ends_[0]; }
    int to_write() const { return ends_[1]; }
    void close_read() { close_end(ends_[0]); }
    void close_write() { close_end(ends_[1]); }

private:
    static void close_end(int& end) {
        if (end >= 0) close(end);
        end = -1;
    }
    int ends_[2] = {-1, -1};
    bool good_;
};

bool read_word(int from, pid_t& word) {
    ssize_t got;
    do got = read(from, &word, sizeof word);
    while (got < 0 && errno == EINTR);
    return got == sizeof word;
}

void write_word(int to, pid_t word) {
    while (write(to, &word, sizeof word) < 0 && errno == EINTR) {}
}

void wait_for(pid_t child, int& status) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
}

// The process that ends the command. It keeps nothing of the terminal, and nobody's output open.
[[noreturn]] void watch(int from) {
    setsid();
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGTSTP})
        std::signal(signal, SIG_IGN);
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; ++i) dup2(nothing, i);
    pid_t command, word;
    if (!read_word(from, command)) _exit(0);  // no command has begun
    if (!read_word(from, word)) kill(command, SIGTERM);
    _exit(0);
}

// Only calls that a forked process may make.
[[noreturn]] void become(const std::vector<char*>& words, int output, int watcher, int problem) {
    write_word(watcher, getpid());
    if (dup2(output, 1) == 1) execv(words[0], words.data());
    write_word(problem, errno);
    _exit(127);
}

}  // namespace

CommandOutput output_of(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);

    Pipe watched, output, problem;
    if (!watched.good() || !output.good() || !problem.good()) return {"", errno};
    pid_t watcher = fork();
    if (watcher < 0) return {"", errno};
    if (watcher == 0) {
        for (Pipe* each : {&output, &problem}) each->close_read(), each->close_write();
        watched.close_write();
        watch(watched.to_read());
    }
    pid_t child = fork();
    if (child == 0) become(words, output.to_write(), watched.to_write(), problem.to_write());
    CommandOutput out;
    int status = 0;
    if (child < 0) {
        out.failed = errno;
    } else {
        output.close_write();
        problem.close_write();
        pid_t word;
        if (read_word(problem.to_read(), word)) out.failed = word;
        char part[4096];
        for (ssize_t got; (got = read(output.to_read(), part, sizeof part)) != 0;) {
            if (got > 0) out.text.append(part, static_cast<size_t>(got));
            else if (errno != EINTR) break;
        }
        // The watcher goes first: once the child has been waited for, its number may be another's.
        siginfo_t ended;
        while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 &&
               errno == EINTR) {}
        write_word(watched.to_write(), kDone);
    }
    watched.close_write();
    int left;
    wait_for(watcher, left);
    if (child > 0) wait_for(child, status);
    if (status != 0) out.text.clear();
    return out;
}

}  // namespace pomona
