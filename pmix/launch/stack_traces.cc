// pmix/launch/stack_traces.cc: see stack_traces.h.
// The debugger is a process of its own, whose output is read to its end or to the deadline.
#include "pmix/launch/stack_traces.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "pmix/launch/spawn.h"

#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr Nanoseconds kDeadline = 10'000'000'000;
constexpr size_t kOutputMax = 1 << 20;

struct Debugger {
    const char* name;
    std::vector<std::string> arguments;  // before or after the process's number
    bool number_last;
};

// Reads until the debugger closes its output; false at the deadline.
bool read_all(int descriptor, std::string& out) {
    Nanoseconds end = RealClock().now() + kDeadline;
    for (;;) {
        Nanoseconds left = end - RealClock().now();
        pollfd entry{descriptor, POLLIN, 0};
        if (left <= 0) return false;
        if (poll(&entry, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) continue;
        char buffer[16384];
        ssize_t count = read(descriptor, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return true;
        if (out.size() < kOutputMax) out.append(buffer, static_cast<size_t>(count));
    }
}

std::string output_of(SpawnRequest& request) {
    int ends[2];
    if (pipe(ends) != 0) return os_text(errno) + "\n";
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    request.input = nothing;
    request.output = request.error = ends[1];
    auto started = spawn(request);
    close(ends[1]);
    if (nothing >= 0) close(nothing);
    std::string out;
    if (!started.ok()) {
        out = started.error().text() + "\n";
    } else {
        if (!read_all(ends[0], out)) out += "(no more within ten seconds)\n";
        kill(-*started, SIGKILL);
        while (waitpid(*started, nullptr, 0) < 0 && errno == EINTR) {}
    }
    close(ends[0]);
    return out;
}
}  // namespace

std::string stack_of(pid_t process, const char* const* environment) {
    static const std::vector<Debugger> debuggers = {
        {"gdb", {"-nx", "-batch", "-ex", "thread apply all backtrace", "-p"}, true},
        {"eu-stack", {"-p"}, true},
        {"pstack", {}, true},
        {"sample", {"1", "-mayDie"}, false},
    };
    SpawnRequest request;
    for (const char* const* entry = environment; entry && *entry; ++entry)
        request.environment.emplace_back(*entry);
    for (const Debugger& debugger : debuggers) {
        request.path = find_program(debugger.name, "", request.environment);
        if (request.path.empty()) continue;
        request.arguments = {debugger.name};
        std::string number = std::to_string(process);
        if (!debugger.number_last) request.arguments.push_back(number);
        for (const std::string& word : debugger.arguments) request.arguments.push_back(word);
        if (debugger.number_last) request.arguments.push_back(number);
        return output_of(request);
    }
    return "none of gdb, eu-stack, pstack and sample is in PATH\n";
}

}  // namespace pomona
