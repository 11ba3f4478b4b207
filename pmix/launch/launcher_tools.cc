// pmix/launch/launcher_tools.cc: what mpirun does for tools: the trace's file, debuggers and their
// terminals.
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/debugger.h"
#include "pmix/wireup/origin.h"

#include <climits>
#include <csignal>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr const char* kTraceBegins = "{\"displayTimeUnit\"";

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string process_file(const std::string& directory, int rank) {
    return format("{}/debugged-{}", directory, rank);
}

}  // namespace

// Every rank gets the same name, wherever it stands. An earlier trace is replaced, and nothing
// else.
bool Launcher::prepare_trace() {
    trace_ = options_.trace;
    if (trace_.empty()) trace_ = variable(environment_, "POMONA_TRACE").value_or("");
    if (trace_.empty()) return true;
    char here[PATH_MAX];
    if (trace_[0] != '/' && getcwd(here, sizeof here)) trace_ = format("{}/{}", here, trace_);
    if (exists(trace_)) {
        std::ifstream file(trace_);
        std::string line;
        std::getline(file, line);
        if (!line.starts_with(kTraceBegins)) {
            say(format(messages::no_trace_file, trace_));
            return false;
        }
        unlink(trace_.c_str());
    }
    std::string folder = trace_.substr(0, trace_.rfind('/') + 1);
    if (access(folder.c_str(), W_OK) == 0) return true;
    say(format(messages::trace_unwritable, trace_, os_text(errno)));
    return false;
}

void Launcher::tell_of_trace() {
    if (trace_.empty() || state_ != State::done || exists(trace_)) return;
    if (exists(trace_ + ".parts")) remark(format(messages::trace_in_parts, trace_));
    else remark(format(messages::nothing_traced, trace_));
}

bool Launcher::prepare_debugger() {
    if (options_.debugger.empty()) return true;
    if (options_.debug_rank >= size_) {
        say(format("option --debug-rank names rank {}, and the job has {} processes",
                   options_.debug_rank, size_));
        return false;
    }
    bool one = size_ == 1 || options_.debug_rank >= 0;
    if (!isatty(0) || !isatty(1)) {
        debug_mode_ = DebugMode::batch;
        return true;
    }
    for (const Process& process : processes_) {
        bool asked = options_.debug_rank < 0 || options_.debug_rank == process.rank;
        if (!asked || node_of(process).host->here()) continue;
        say(format(messages::debugger_elsewhere, process.rank, host_of(process)));
        return false;
    }
    debug_mode_ = one ? DebugMode::terminal : DebugMode::panes;
    if (one) {
        const char* terminal = ttyname(0);
        own_terminal_ = terminal ? terminal : "/dev/tty";
        std::signal(SIGTTOU, SIG_IGN);  // we write while the debugger has the terminal
        return true;
    }
    if (variable(environment_, "TMUX")) return true;
    say(messages::no_tmux);
    return false;
}

// The debugger stands before the program, and has a terminal where there is one.
void Launcher::debug(const Process& process, StartOrder& order) {
    if (process.world_size || !debugs(process)) return;
    auto words = debugger_words(options_.debugger, debug_mode_ == DebugMode::batch, order.command);
    order.command.insert(order.command.begin(), words.begin(), words.end());
    if (debug_mode_ == DebugMode::terminal) order.terminal = own_terminal_;
    if (debug_mode_ != DebugMode::panes) return;
    std::string file = process_file(local_.agent.directory(), process.rank);
    std::ofstream(file) << "";
    order.terminal = open_pane(format("rank {}: {}", process.rank, process.name), file);
    if (order.terminal.empty()) say(format("rank {}: tmux gives no pane", process.rank));
}

// It reads from the terminal only in the foreground; it may have been stopped for trying before.
void Launcher::give_terminal(const Process& process) {
    if (debug_mode_ == DebugMode::panes)
        std::ofstream(process_file(local_.agent.directory(), process.rank)) << process.pid;
    if (debug_mode_ != DebugMode::terminal) return;
    tcsetpgrp(0, process.pid);
    kill(-process.pid, SIGCONT);
}

}  // namespace pomona
