// pmix/launch/ssh.cc: see ssh.h.
#include "pmix/launch/ssh.h"

#include "btl/base/format.h"
#include "pmix/launch/engine.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/options_table.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

namespace pomona {

namespace {

// As a word of sh that may stand within single quotes of any login shell: what one of them would
// read otherwise is a number for printf.
std::string quoted_twice(const std::string& path) {
    constexpr std::string_view kOdd = "'\"$`\\!%\n";
    if (path.find_first_of(kOdd) == path.npos) return format("\"{}\"", path);
    std::string out;
    for (char c : path)
        out += kOdd.find(c) == kOdd.npos ? std::string(1, c)
                                         : format("\\{:03o}", static_cast<unsigned char>(c));
    return format("\"$(printf \"{}\")\"", out);
}

struct Reason {
    const char* printed;  // by ssh or a shell
    const char* text;     // {0}: the host, {1}: without a user
};
const Reason kReasons[] = {
#define REASON(printed, text) {printed, text},
#include "btl/base/messages.def"
};

std::string last_lines(const std::string& text, int count) {
    size_t end = text.find_last_not_of(" \r\n\t");
    if (end == text.npos) return {};
    size_t start = end;
    while (start > 0 && count > 0)
        if (text[--start] == '\n') --count;
    if (text[start] == '\n') ++start;
    std::string out = text.substr(start, end + 1 - start);
    std::replace(out.begin(), out.end(), '\r', ' ');
    return out;
}

}  // namespace

std::string own_program() {
#if defined(__APPLE__)
    char path[PATH_MAX];
    uint32_t size = sizeof path;
    if (_NSGetExecutablePath(path, &size) != 0) return {};
    char whole[PATH_MAX];
    return realpath(path, whole) ? whole : path;
#else
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
#endif
}

std::string agent_command(const std::string& own, const std::string& prefix,
                          const std::string& role) {
    std::string candidates;
    auto add = [&](const std::string& path) {
        if (!path.empty()) candidates += " " + quoted_twice(path);
    };
    if (!prefix.empty()) add(prefix + "/bin/mpirun");
    else add(own);
    std::string tail = "echo \"pomona: no mpirun\" >&2; exit 127";
    if (prefix.empty()) {
        for (const char* folder : {"/opt/homebrew", "/usr/local"})
            add(format("{}/bin/mpirun", folder));
        candidates += " \"$HOME/.local/bin/mpirun\"";
        // Many clusters have another library's mpirun in PATH.
        tail = format(
            "m=$(command -v mpirun) && case $(\"$m\" --version 2>&1) in *Pomona*) exec \"$m\" "
            "{};; esac; {}",
            role, tail);
    }
    return format("/bin/sh -c 'for m in{}; do test -x \"$m\" && exec \"$m\" {}; done; {}'",
                  candidates, role, tail);
}

std::vector<std::string> shell_words_for(const std::string& program, const std::string& host,
                                         const std::string& command) {
    std::vector<std::string> out = words_of(program);
    if (out.empty()) out = {"ssh"};
    std::string name = out[0].substr(out[0].rfind('/') + 1);
    if (name == "ssh")
        // No terminal, no questions; a host that is switched off is told of in time.
        out.insert(out.end(), {"-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"});
    if (name == kAgentsBySrun && out.size() == 1) {
        // One process beside whatever else runs there, with all that the job was granted on the
        // host.
        out.insert(out.end(),
                   {"--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--overlap", "--mpi=none",
                    "--cpu-bind=none", "--unbuffered", "--quiet", "--kill-on-bad-exit=0",
                    "--nodelist=" + host, "/bin/sh", "-c", command});
        return out;
    }
    out.push_back(host);
    out.push_back(command);
    return out;
}

bool turned_away(const std::string& printed) {
    return printed.find("exchange_identification: ") != printed.npos;
}

std::string explain_shell(const std::string& program, const std::string& host, int status,
                          const std::string& printed) {
    for (const Reason& reason : kReasons)
        if (printed.find(reason.printed) != printed.npos) {
            std::string text = reason.text;
            for (auto [word, name] :
                 {std::pair("{0}", std::string_view(host)), std::pair("{1}", without_user(host))})
                for (size_t at; (at = text.find(word)) != text.npos;) text.replace(at, 3, name);
            return text;
        }
    std::string words = last_lines(printed, 3);
    std::string name = words_of(program).empty() ? "ssh" : words_of(program)[0];
    std::string how;
    if (WIFSIGNALED(status)) how = format("{} was killed by signal {}", name, WTERMSIG(status));
    else if (WIFEXITED(status)) how = format("{} ended with code {}", name, WEXITSTATUS(status));
    return format("{}{}", how, words.empty() ? std::string() : ": " + words);
}

}  // namespace pomona
