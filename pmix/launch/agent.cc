// pmix/launch/agent.cc: see agent.h.
#include "pmix/launch/agent.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params_handed.h"
#include "pmix/job_directory.h"
#include "pmix/launch/cores.h"
#include "pmix/launch/executable.h"
#include "pmix/launch/orphans.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace pomona {

namespace {

// Variables of other launchers, and of an outer job: their values would be wrong for our ranks.
bool inherited_from_launcher(std::string_view entry, bool nested) {
    std::string_view name = entry.substr(0, entry.find('='));
    for (std::string_view prefix : {"PMIX_", "PMI_", "OMPI_", "PRTE_", "HYDI_", "POMONA_JOB_"})
        if (name.starts_with(prefix)) return true;
    for (std::string_view other : {"POMONA_OVERSUBSCRIBED", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
        if (name == other) return true;
    return nested && (name == "MASTER_ADDR" || name == "MASTER_PORT");
}

// Has the process a handler for this signal?
bool catches(pid_t pid, int signal) {
#if defined(__APPLE__)
    kinfo_proc info{};
    size_t size = sizeof info;
    int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
    if (sysctl(name, 4, &info, &size, nullptr, 0) != 0 || size == 0) return false;
    return info.kp_proc.p_sigcatch >> (signal - 1) & 1;
#else
    std::ifstream file(format("/proc/{}/status", pid));
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("SigCgt:"))
            return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
    return false;
#endif
}

Status write_private(const std::string& path, ConstBytes bytes) {
    int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) return os_error(Code::io, "A file of the job cannot be made");
    Status out;
    while (!bytes.empty() && out.ok()) {
        ssize_t count = write(descriptor, bytes.data(), bytes.size());
        if (count > 0) bytes = bytes.subspan(static_cast<size_t>(count));
        else if (count < 0 && errno != EINTR)
            out = os_error(Code::io, "A file of the job cannot be written");
    }
    close(descriptor);
    return out;
}

std::string parameters_file(const std::string& directory, size_t number) {
    return format("{}/parameters-{}", directory, number);
}

}  // namespace

bool make_pipe(int& read_end, int& write_end) {
    int ends[2];
#if defined(__linux__)
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
#else
    if (pipe(ends) != 0) return false;
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
    read_end = ends[0];
    write_end = ends[1];
    return true;
}

bool has_variable(const std::vector<std::string>& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
        return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
    });
}

void set_variable(std::vector<std::string>& environment, std::string_view name,
                  std::string_view value) {
    std::string entry = format("{}={}", name, value);
    for (std::string& known : environment)
        if (known.size() > name.size() && known[name.size()] == '=' && known.starts_with(name)) {
            known = std::move(entry);
            return;
        }
    environment.push_back(std::move(entry));
}

std::vector<std::string> environment_for_ranks(const char* const* environment) {
    bool nested = variable(environment, "POMONA_JOB_ID").has_value();
    // What an outer mpirun has handed to its ranks was not said by the user.
    bool links = variable(environment, "POMONA_JOB_LINKS").has_value();
    bool choices = variable(environment, "POMONA_JOB_CHOICES").has_value();
    bool forests = variable(environment, "POMONA_JOB_FORESTS").has_value();
    std::vector<std::string> out;
    for (const char* const* entry = environment; entry && *entry; ++entry)
        if (!inherited_from_launcher(*entry, nested) &&
            !(links && std::string_view(*entry).starts_with("POMONA_LINKS=")) &&
            !(forests && std::string_view(*entry).starts_with("POMONA_FORESTS=")) &&
            !(choices && std::string_view(*entry).starts_with("POMONA_CHOICES=")))
            out.emplace_back(*entry);
    return out;
}

bool is_of_login(std::string_view entry) {
    for (std::string_view prefix :
         {"HOME=", "USER=", "LOGNAME=", "SHELL=", "PWD=", "OLDPWD=", "TMPDIR=", "SSH_", "XDG_"})
        if (entry.starts_with(prefix)) return true;
    return false;
}

void leave_bare(std::vector<std::string>& environment) {
    std::erase_if(environment, [](std::string_view entry) {
        return !is_of_login(entry) && !entry.starts_with("PATH=");
    });
}

Agent::Agent(const char* const* environment)
    : environment_(environment), common_(environment_for_ranks(environment)) {
    sigemptyset(&ignored_);
}

std::string Agent::prepare(const JobOrders& orders,
                           const std::function<void(std::string)>& remark) {
    orders_ = orders;
    if (orders.bare) leave_bare(common_);
    adopt_orphans();
    // A rank takes two pipes and a socket, and three sockets more if it speaks PMIx.
    std::string mistake = raise_descriptor_limit(orders.ranks, 3 * orders.ranks + orders.files);
    if (!mistake.empty()) return mistake;
    if (!orders.cpu_set.empty() && !orders.directory.empty()) {
        mistake = use_processors(orders.cpu_set);
        if (!mistake.empty()) return format("option --cpu-set: {}", mistake);
    }
    Options options;
    options.bind = orders.bind;
    options.map = orders.map == MapBy::node ? MapBy::slot : orders.map;
    options.cores_per_rank = orders.cores_per_rank;
    for (const auto& [place, cores] : orders.rank_cores) options.rank_cores[place] = cores;
    std::string note;
    auto bindings = bind_ranks(orders.ranks, options, note);
    if (!bindings.ok()) return note.empty() ? bindings.error().text() : note;
    bindings_ = std::move(*bindings);
    if (!note.empty()) remark(note);
    if (int swept = sweep_job_directories(); swept > 0 && orders.verbose)
        remark(format("removed what {} killed job{} had left", swept, swept == 1 ? "" : "s"));
    auto directory = make_job_directory(orders.tag, orders.node);
    if (!directory.ok())
        return format(messages::no_job_directory, temporary_directory(),
                      os_text(directory.error().os_errno));
    directory_ = *directory;
    if (Status held = hold_job_directory(directory_); !held.ok()) return held.error().text();
    for (size_t i = 0; i < orders.parameters.size(); ++i) {
        std::string path = parameters_file(directory_, i);
        if (Status written = write_private(path, orders.parameters[i]); !written.ok())
            return format("{}: {}", path, written.error().text());
    }
    for (const std::string& entry : orders.environment) {
        size_t equals = entry.find('=');
        set_variable(common_, entry.substr(0, equals), entry.substr(equals + 1));
    }
    own_files_ = find_own_files(directory_, orders.directory.empty(), common_, remark);
    common_.push_back("POMONA_JOB_DIR=" + directory_);
    common_.push_back("POMONA_JOB_HOST=" + orders.host);
    return {};
}

// The soft limit is there for programs that use select; the ranks get the old one back (spawn.cc).
std::string Agent::raise_descriptor_limit(int processes, int descriptors) {
    constexpr rlim_t kOurs = 40;
    if (getrlimit(RLIMIT_NOFILE, &descriptor_limit_) != 0) return {};
    rlimit raised = descriptor_limit_;
#if defined(__APPLE__)
    raised.rlim_cur = std::min<rlim_t>(raised.rlim_max, OPEN_MAX);  // more is refused
#else
    raised.rlim_cur = raised.rlim_max;
#endif
    if (raised.rlim_cur > descriptor_limit_.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) != 0)
        raised = descriptor_limit_;
    rlim_t needed = static_cast<rlim_t>(descriptors) + kOurs;
    if (raised.rlim_cur >= needed) return {};
    return format(messages::few_descriptors, processes, needed, raised.rlim_cur);
}

void Agent::note_ignored_signals() {
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGPIPE, SIGQUIT,
                       SIGTTIN, SIGTTOU, SIGXFSZ}) {
        struct sigaction now {};
        if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
            sigaddset(&ignored_, number);
    }
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &child, nullptr);
}

// On another host the directory in which mpirun stands, or else the home directory, as ssh does.
// Others count from where mpirun stands.
std::string Agent::working_directory(const std::string& ordered) const {
    bool from_there = !ordered.empty() && ordered[0] != '/' && !orders_.directory.empty();
    if (from_there) return orders_.directory + "/" + ordered;
    if (!ordered.empty()) return ordered;
    if (orders_.directory.empty() || access(orders_.directory.c_str(), X_OK) == 0)
        return orders_.directory;
    return "";
}

bool Agent::displaced(const StartOrder& order) const {
    return order.directory.empty() && !orders_.directory.empty() &&
           working_directory(order.directory).empty();
}

std::string Agent::folder_missed(const std::vector<EndedRank>& ended) {
    bool failed = std::any_of(ended.begin(), ended.end(), [](const EndedRank& each) {
        return WIFEXITED(each.status) && WEXITSTATUS(each.status) != 0;
    });
    if (!failed || !std::exchange(displaced_, false)) return {};
    char path[PATH_MAX];
    const char* instead = getcwd(path, sizeof path);
    return format(messages::folder_displaced, orders_.directory, instead ? instead : "/");
}

// A program that mpirun found in its own PATH is tried under that name first: an environment of
// Python mostly stands in the same place on all hosts.
std::string Agent::find(const StartOrder& order, const SpawnRequest& request) const {
    if (!order.program.empty()) {
        std::string same = find_program(order.program, "", request.environment);
        if (!same.empty()) return same;
    }
    return find_program(order.command[0], request.directory, request.environment);
}

Agent::Started Agent::start(const StartOrder& order) {
    Started out;
    SpawnRequest request;
    request.arguments = order.command;
    request.environment = common_;
    if (order.parameters < orders_.parameters.size())
        request.environment.push_back(
            format("{}={}", kHandedVariable, parameters_file(directory_, order.parameters)));
    for (const std::string& entry : order.environment) {
        size_t equals = entry.find('=');
        set_variable(request.environment, entry.substr(0, equals), entry.substr(equals + 1));
    }
    add_own_files(own_files_, request.environment);
    request.directory = working_directory(order.directory);
    displaced_ = displaced_ || displaced(order);
    request.descriptor_limit = descriptor_limit_;
    request.ignored = ignored_;
    if (order.place >= 0 && static_cast<size_t>(order.place) < bindings_.size()) {
        const Binding& binding = bindings_[static_cast<size_t>(order.place)];
        request.cpu_mask = binding.cpu_mask;
        out.binding = binding.text;
    }
    if (out.binding.empty())  // all of ours, which --cpu-set may have chosen
        for (int processor : orders_.cpu_set)
            out.binding += format("{}{}", out.binding.empty() ? "processors " : ",", processor);
    request.path = find(order, request);
    if (request.path.empty()) {
        explain(order, request, Error{Code::not_found, "", -1, 0}, out);
        return out;
    }
    std::vector<int> closed_after;
    bool connected = connect(order, request, out, closed_after);
    auto started = connected ? spawn(request) : Result<pid_t>(os_error(Code::io, ""));
    int cause = errno;
    for (int descriptor : closed_after) close(descriptor);
    if (connected && started.ok()) {
        out.pid = *started;
        processes_[order.rank] = {*started, true, false};
        ++running_;
        if (guarded_) watchdog_.add(*started);
        return out;
    }
    for (int* ours : {&out.input, &out.output, &out.error})
        if (*ours >= 0) close(std::exchange(*ours, -1));
    if (connected) {
        explain(order, request, started.error(), out);
    } else {
        out.code = 1;
        out.why = format(messages::no_streams, order.rank, os_text(cause));
    }
    return out;
}

void Agent::explain(const StartOrder& order, const SpawnRequest& request, const Error& error,
                    Started& out) const {
    const std::string& name = order.command[0];
    const std::string& directory = request.directory;
    out.code = 127;
    std::string lost =
        displaced(order) ? "; " + format(messages::no_such_folder, orders_.directory) : "";
    if (!directory.empty() && access(directory.c_str(), X_OK) != 0) {
        out.why =
            format("the working directory {} cannot be entered: {}", directory, os_text(errno));
    } else if (error.os_errno) {
        out.code = error.os_errno == ENOENT || error.os_errno == ENOEXEC ? 127 : 126;
        out.why = format("rank {}: {} cannot be executed: {}", order.rank, name,
                         why_not_executed(in_directory(request.path, directory), error.os_errno));
    } else if (name.find('/') != name.npos) {
        std::string path = in_directory(name, directory);
        struct stat file {};
        int cause = stat(path.c_str(), &file) == 0 ? 0 : errno;
        bool missing = cause == ENOENT || cause == ENOTDIR;
        out.code = missing ? 127 : 126;
        out.why = format("{} cannot be executed: {}{}", name,
                         missing                 ? "there is no such file"
                         : cause                 ? os_text(cause)
                         : S_ISDIR(file.st_mode) ? "it is a folder"
                                                 : messages::not_executable,
                         name.starts_with('/') ? "" : lost);
    } else {
        out.why = format("there is no program {} in PATH{}", name, lost);
    }
}

// Our ends of the pipes are for the caller.
bool Agent::connect(const StartOrder& order, SpawnRequest& request, Started& out,
                    std::vector<int>& closed_after) {
    if (order.input == StartOrder::Input::ours) {
        request.input = 0;
    } else if (order.input == StartOrder::Input::nothing) {
        request.input = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (request.input >= 0) closed_after.push_back(request.input);
    } else if (make_pipe(request.input, out.input)) {
        closed_after.push_back(request.input);
    }
    if (request.input < 0) return false;
    if (!order.terminal.empty()) {
        int terminal = open(order.terminal.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (terminal < 0) return false;
        closed_after.push_back(terminal);
        request.input = request.output = request.error = terminal;
        return true;
    }
    if (!make_pipe(out.output, request.output)) return false;
    closed_after.push_back(request.output);
    request.error = request.output;
    if (order.merge_stderr) return true;
    if (!make_pipe(out.error, request.error)) return false;
    closed_after.push_back(request.error);
    return true;
}

bool Agent::has_program(const std::string& name, const std::string& directory) const {
    std::string where = working_directory(directory);
    bool entered = where.empty() || access((where + "/.").c_str(), X_OK) == 0;
    return entered && !find_program(name, where, common_).empty();
}

bool Agent::guard() {
    std::vector<pid_t> groups;
    for (const auto& [rank, process] : processes_) groups.push_back(process.pid);
    guarded_ = watchdog_.start(groups, orders_.tag, directory_, orders_.ranks);
    return guarded_;
}

// Adds those that have ended since the last look.
void Agent::collect_ended(std::vector<EndedRank>& ended) {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        auto of_pid = [&](const auto& entry) {
            return entry.second.pid == pid && entry.second.running;
        };
        auto found = std::find_if(processes_.begin(), processes_.end(), of_pid);
        if (found == processes_.end()) {
            if (!stacks_.reap(pid) && on_other_child) on_other_child(pid, status);
            continue;
        }
        Process& process = found->second;
        process.running = false;
        --running_;
        process.group_empty = kill(-pid, 0) != 0 && errno == ESRCH;
        if (process.group_empty) watchdog_.forget(pid);
        ended.push_back({found->first, status});
    }
}

// Ranks give up when they see that another has gone, and a process closes its connections before
// the system tells of its end: so if all that ended did so with an error code, the one that was
// killed may still be to come.
std::vector<EndedRank> Agent::reap() {
    std::vector<EndedRank> ended;
    collect_ended(ended);
    for (int wait_ms = 0; wait_ms < 5 && running_ > 0; ++wait_ms) {
        bool killed = false, failed = false;
        for (const EndedRank& each : ended) {
            killed = killed || WIFSIGNALED(each.status);
            failed = failed || (WIFEXITED(each.status) && WEXITSTATUS(each.status) != 0);
        }
        if (killed || !failed) break;
        usleep(1000);
        collect_ended(ended);
    }
    return ended;
}

// Looks without reaping: SIGCHLD does that, with all that goes with it.
bool Agent::another_has_failed(int rank) const {
    for (int wait_ms = 0; wait_ms < 20; ++wait_ms) {
        bool ended = false;
        for (const auto& [other, process] : processes_) {
            siginfo_t dead{};
            if (!process.running || waitid(P_PID, static_cast<id_t>(process.pid), &dead,
                                           WEXITED | WNOHANG | WNOWAIT) != 0)
                continue;
            if (dead.si_pid == 0) continue;
            ended = true;
            if (other != rank && (dead.si_code != CLD_EXITED || dead.si_status != 0)) return true;
        }
        if (ended) return false;
        usleep(1000);
    }
    return false;
}

void Agent::signal(int number) {
    if (number == SIGKILL) stacks_.end_all();
    for (const auto& [rank, process] : processes_) {
        if (!process.running) continue;
        kill(-process.pid, number);
        // It may have gone to another group by itself.
        if (getpgid(process.pid) != process.pid) kill(process.pid, number);
    }
}

// To those programs that ask for it: it would end others.
void Agent::signal_catchers(int number) const {
    for (const auto& [rank, process] : processes_)
        if (process.running && catches(process.pid, number)) kill(process.pid, number);
}

// The number of a group is free for others when its last process has gone. Where a process has it
// as its own number, that is someone else: our ranks have been reaped.
void Agent::kill_what_outlives_ranks() {
    for (const auto& [rank, process] : processes_) {
        if (process.running || process.group_empty) continue;
        if (kill(process.pid, 0) != 0 && errno == ESRCH) kill(-process.pid, SIGKILL);
    }
    kill_orphans(directory_);
}

void Agent::kill_and_reap() {
    signal(SIGKILL);
    for (auto& [rank, process] : processes_) {
        if (!process.running) continue;
        while (waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {}
        process.running = false;
        --running_;
    }
}

void Agent::ask_stacks(event_base* base, int rank, StackTraces::Answer answer) {
    auto found = processes_.find(rank);
    if (found == processes_.end() || !found->second.running) return answer("it has ended");
    stacks_.ask(base, environment_, found->second.pid, std::move(answer));
}

void Agent::clean_up() {
    if (!directory_.empty()) {
        remove_shared_memory(orders_.tag, std::max(orders_.ranks, 1));
        remove_job_directory(directory_);
        directory_.clear();
    }
    watchdog_.dismiss();
}

}  // namespace pomona
