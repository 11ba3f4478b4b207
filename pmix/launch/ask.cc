// pmix/launch/ask.cc: see ask.h.
#include "pmix/launch/ask.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace pomona {

std::string shell_quoted(const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string ask(const std::string& command) {
    std::string out;
    std::FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
    if (!pipe) return out;
    char buffer[4096];
    while (size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
    pclose(pipe);
    return out;
}

bool tell(const std::string& command, const std::string& text) {
    std::FILE* pipe = popen(command.c_str(), "w");
    if (!pipe) return false;
    // It may end without reading, which is no reason to end as well.
    auto before = std::signal(SIGPIPE, SIG_IGN);
    std::fwrite(text.data(), 1, text.size(), pipe);
    int status = pclose(pipe);
    std::signal(SIGPIPE, before);
    return status == 0;
}

std::string converse(const std::string& command,
                     const std::function<std::string(const std::string&)>& answer) {
    std::string out;
    int to[2], from[2];
    if (pipe(to) != 0) return out;
    if (pipe(from) != 0) return close(to[0]), close(to[1]), out;
    for (int end : {to[0], to[1], from[0], from[1]}) fcntl(end, F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    posix_spawn_file_actions_adddup2(&actions, from[1], 2);
    std::string shell = "/bin/sh", option = "-c", words = command;
    char* const arguments[] = {shell.data(), option.data(), words.data(), nullptr};
    pid_t child = -1;
    bool started = posix_spawn(&child, shell.c_str(), &actions, nullptr, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]), close(from[1]);
    auto before = std::signal(SIGPIPE, SIG_IGN);  // it may end before it has heard us
    char buffer[4096];
    size_t line = 0;
    for (ssize_t got; started; out.append(buffer, static_cast<size_t>(got))) {
        for (size_t end; (end = out.find('\n', line)) != out.npos; line = end + 1) {
            std::string said = answer(out.substr(line, end - line));
            (void)!write(to[1], said.data(), said.size());
        }
        do got = read(from[0], buffer, sizeof buffer);
        while (got < 0 && errno == EINTR);
        if (got <= 0) break;
    }
    close(to[1]), close(from[0]);
    if (started)
        while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    std::signal(SIGPIPE, before);
    return out;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        if (end > at) out.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

}  // namespace pomona
