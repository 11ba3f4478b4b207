// pmix/launch/launcher_start.cc: the start of a job: who runs where, with which environment and streams.
// Idea: the order serves speed. Processes are started as soon as the job's socket listens; the
// watchdog is made while they load their programs.
#include "pmix/launch/launcher.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/params_handed.h"
#include "pmix/launch/cores.h"
#include "pmix/wireup/origin.h"
#include "pmix/launch/pmix_server.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <set>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {

// Both ends close on exec; the child's is duplicated onto a standard stream.
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

// A TCP port that nobody uses now, for torch's MASTER_PORT; 0 if the system has none.
int free_port() {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0) return 0;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    int port = 0;
    if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0)
        port = ntohs(address.sin_port);
    close(descriptor);
    return port;
}

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

bool has(const std::vector<std::string>& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
        return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
    });
}

}  // namespace

void Launcher::set_variable(std::vector<std::string>& environment, std::string_view name,
                            std::string_view value) {
    std::string entry = format("{}={}", name, value);
    for (std::string& known : environment)
        if (known.size() > name.size() && known[name.size()] == '=' && known.starts_with(name)) {
            known = std::move(entry);
            return;
        }
    environment.push_back(std::move(entry));
}

// Numbers only: how many processes, whether they may run here.
bool Launcher::plan() {
    for (const std::string& text : options_.notes) remark(text);
    std::string refusal = options_.cpu_set.empty() ? "" : use_processors(options_.cpu_set);
    if (!refusal.empty()) return say(format("option --cpu-set: {}", refusal)), false;
    int cores = granted_processors();
    slots_ = 0;
    for (const HostSlots& host : options_.hosts) {
        if (!is_this_host(host.name, host_)) {
            say(
                format("host {} is another machine than this one ({}); starting processes on "
                       "other hosts is not there yet. Leave out --host and --hostfile, or name "
                       "only this host",
                       host.name, host_));
            return false;
        }
        slots_ += host.slots > 0 ? host.slots : cores;
    }
    if (slots_ == 0) slots_ = cores;
    if (options_.programs.size() == 1 && options_.programs[0].count == 0) {
        // One for each core: two threads of a core share what computes. A rank on a slow core would hold
        // up the others.
        int count = slots_;
        if (options_.hosts.empty())
            for (int fewer : {granted_cores(), performance_processors()})
                if (fewer > 0) count = std::min(count, fewer);
        options_.programs[0].count = count;
    }
    for (size_t p = 0; p < options_.programs.size(); ++p)
        for (int i = 0; i < options_.programs[p].count; ++i) {
            Process& process = processes_.emplace_back();
            process.rank = size_++;
            process.program = static_cast<int>(p);
            process.program_rank = i;
            process.name = options_.programs[p].command[0];
        }
    oversubscribed_ = size_ > cores;
    if (options_.refuse_oversubscribe && size_ > slots_) {
        say(
            format("{} processes were asked for and there are {} slots; use fewer (-n), or "
                   "leave out --no-oversubscribe",
                   size_, slots_));
        return false;
    }
    if (options_.stdin_to == StdinTo::rank && options_.stdin_rank >= size_) {
        say(format("option --stdin names rank {}, and the job has {} processes",
                   options_.stdin_rank, size_));
        return false;
    }
    return true;
}

bool Launcher::prepare() {
    for (int i = 0; i < 3; ++i)  // we may have been started with streams closed
        if (fcntl(i, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);
    note_ignored_signals();
    std::signal(SIGPIPE, SIG_IGN);
    event_config* config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base_ = event_base_new_with_config(config);
    event_config_free(config);
    if (!base_) return say("no event loop can be made"), false;
    watch_signals();  // from here on a signal ends us in good order
    if (!raise_descriptor_limit()) return false;
    stdout_ = std::make_unique<Output>(base_, 1);
    stderr_ = std::make_unique<Output>(base_, 2);
    stdout_->on_failure = [this](int error) { on_lost_output("standard output", error); };
    stderr_->on_failure = [this](int error) { on_lost_output("standard error", error); };
    for (Output* output : {stdout_.get(), stderr_.get()})
        output->on_relief = [this] {
            for (Process& process : processes_)
                for (RankStream* stream : {process.output.get(), process.error.get()})
                    if (stream) stream->resume();
        };
    std::string note;
    auto bindings = bind_ranks(size_, options_, note);
    if (!bindings.ok()) return say(note.empty() ? bindings.error().text() : note), false;
    bindings_ = std::move(*bindings);
    if (!note.empty()) remark(note);
    if (int swept = sweep_job_directories(); swept > 0 && options_.verbose)
        say(format("removed what {} killed job{} had left", swept, swept == 1 ? "" : "s"));
    auto directory = make_job_directory();
    if (!directory.ok()) return say(directory.error().text()), false;
    directory_ = *directory;
    if (Status held = hold_job_directory(directory_.path); !held.ok())
        return say(held.error().text()), false;
    control_ = std::make_unique<ControlServer>(base_, size_);
    control_->on_explain = [this](int rank, uint32_t number) {
        return control_->table.explain(rank, number, table_processes(), RealClock().now());
    };
    Status listening = control_->listen(directory_.path);
    if (!listening.ok()) return say(listening.error().text()), false;
    control_->on_abort = [this](int rank, int code, const std::string& message) {
        on_abort(rank, code, message);
    };
    if (!random_bytes(control_->services.key))
        return say("the system has no random numbers for the job's key"), false;
    control_->services.on_spawn = [this](int rank, std::vector<Program> programs) {
        return spawn_world(rank, std::move(programs));
    };
    if (options_.pmix != "off" && !offer_pmix()) return false;
    common_environment();
    return true;
}

// For programs of other MPI libraries; only --pmix=on makes it a condition.
bool Launcher::offer_pmix() {
    PmixJob job{
        directory_.tag, pmix_namespace(directory_.tag), directory_.path, host_, slots_, {}, {}};
    if (job.nspace.empty()) return say("the system has no random numbers for the job"), false;
    for (const Process& process : processes_) {
        job.program_of.push_back(process.program);
        job.program_rank_of.push_back(process.program_rank);
    }
    pmix_ = std::make_unique<PmixServer>(base_, std::move(job));
    pmix_->on_abort = control_->on_abort;
    pmix_->on_phase = [this](int rank, bool finalized) { control_->set_phase(rank, finalized); };
    pmix_->on_failure = [this](const std::string& text) { say(text); };
    if (pmix_->offer(options_.pmix == "on").ok()) return true;
    if (options_.pmix == "on") return say(pmix_->reason()), false;
    pmix_.reset();
    return true;
}

// What all ranks have in common.
void Launcher::common_environment() {
    bool nested = variable(environment_, "POMONA_JOB_ID").has_value();
    bool handed = variable(environment_, "POMONA_JOB_LINKS").has_value();  // by an outer mpirun
    for (const char* const* entry = environment_; entry && *entry; ++entry)
        if (!inherited_from_launcher(*entry, nested) &&
            !(handed && std::string_view(*entry).starts_with("POMONA_LINKS=")))
            common_.emplace_back(*entry);
    for (const auto& [name, value] : options_.sets)
        set_variable(common_, param_variable(name), value);
    read_parameters();
    common_.push_back("POMONA_JOB_ID=" + directory_.tag);
    common_.push_back("POMONA_JOB_DIR=" + directory_.path);
    common_.push_back("POMONA_JOB_HOST=" + host_);
    common_.push_back(format("POMONA_JOB_SIZE={}", size_));
    common_.push_back(format("POMONA_JOB_UNIVERSE={}", std::max(slots_, size_)));
    common_.push_back(format("POMONA_JOB_NODES=0x{}", size_));
    common_.push_back(format("POMONA_OVERSUBSCRIBED={}", oversubscribed_ ? 1 : 0));
    common_.push_back(format("WORLD_SIZE={}", size_));
    common_.push_back(format("LOCAL_WORLD_SIZE={}", size_));
    if (!has(common_, "MASTER_ADDR")) common_.push_back("MASTER_ADDR=127.0.0.1");
    if (!has(common_, "MASTER_PORT")) common_.push_back(format("MASTER_PORT={}", free_port()));
    // Python would keep its prints until the end when its output is a pipe.
    if (!has(common_, "PYTHONUNBUFFERED")) common_.push_back("PYTHONUNBUFFERED=1");
    if (pmix_) pmix_->add_environment(common_);
}

std::vector<std::string> Launcher::environment_of(const Process& process) const {
    std::vector<std::string> out = common_;
    out.push_back(format("POMONA_JOB_RANK={}", process.rank));
    out.push_back(format("POMONA_JOB_APP={}", process.program));
    out.push_back(format("RANK={}", process.rank));
    out.push_back(format("LOCAL_RANK={}", process.rank));
    if (pmix_) out.push_back(format("PMIX_RANK={}", process.rank));
    if (process.world_size) spawned_environment(process, out);
    const Program& program = options_.programs[static_cast<size_t>(process.program)];
    out.push_back(format("{}={}", kHandedVariable, parameters_of(program)));
    for (const auto& [name, value] : program.exports) set_variable(out, name, value);
    return out;
}

// The soft limit is there for programs that use select. A rank takes two pipes and a socket, and three
// sockets more if it speaks PMIx; the ranks themselves get the old limit back (spawn.cc).
bool Launcher::raise_descriptor_limit() {
    constexpr rlim_t kOurs = 40;
    if (getrlimit(RLIMIT_NOFILE, &descriptor_limit_) != 0) return true;
    rlimit raised = descriptor_limit_;
#if defined(__APPLE__)
    raised.rlim_cur = std::min<rlim_t>(raised.rlim_max, OPEN_MAX);  // more is refused
#else
    raised.rlim_cur = raised.rlim_max;
#endif
    if (raised.rlim_cur > descriptor_limit_.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) != 0)
        raised = descriptor_limit_;
    rlim_t needed = static_cast<rlim_t>(size_) * 3 + kOurs;
    if (raised.rlim_cur >= needed) return true;
    say(format(
        "{} processes need {} descriptors here, and the limit is {}; raise it (ulimit -n), or "
        "start fewer",
        size_, needed, raised.rlim_cur));
    return false;
}

void Launcher::note_ignored_signals() {
    sigemptyset(&ignored_signals_);
    for (int signal :
         {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGPIPE, SIGQUIT, SIGTTIN, SIGTTOU}) {
        struct sigaction now {};
        if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
            sigaddset(&ignored_signals_, signal);
    }
}

bool Launcher::start_all() {
    for (const Program& program : options_.programs)
        if (!hand_parameters(program)) return false;
    for (Process& process : processes_)
        if (!start_one(process)) return false;
    std::vector<pid_t> groups;
    for (const Process& process : processes_) groups.push_back(process.pid);
    if (!watchdog_.start(groups, directory_.tag, directory_.path, size_))
        remark("no watchdog process could be started; should mpirun be killed, files may remain");
    if (!input_targets_.empty()) input_ = std::make_unique<InputCopier>(base_, input_targets_);
    if (options_.timeout_seconds > 0) {
        timeout_timer_ =
            timer([](int, short, void* self) { static_cast<Launcher*>(self)->on_timeout(); });
        timeval delay{};
        delay.tv_sec = static_cast<time_t>(options_.timeout_seconds);
        delay.tv_usec = static_cast<suseconds_t>(
            (options_.timeout_seconds - static_cast<double>(delay.tv_sec)) * 1e6);
        event_add(timeout_timer_.get(), &delay);
    }
    if (options_.display_map || options_.report_bindings || options_.verbose) show_plan();
    return true;
}

bool Launcher::start_one(Process& process) {
    const Program& program = options_.programs[static_cast<size_t>(process.program)];
    SpawnRequest request;
    request.arguments = program.command;
    request.environment = environment_of(process);
    request.directory = program.directory;
    request.descriptor_limit = descriptor_limit_;
    request.ignored = ignored_signals_;
    request.cpu_mask = bindings_[static_cast<size_t>(process.rank)].cpu_mask;
    request.path = find_program(program.command[0], program.directory, request.environment);
    if (request.path.empty()) {
        explain_missing(process, Error{Code::not_found, "", -1, 0});
        return false;
    }
    std::vector<int> ours;
    bool connected = connect_streams(process, request, ours);
    auto started = connected ? spawn(request) : Result<pid_t>(os_error(Code::io, ""));
    int cause = errno;
    for (int descriptor : ours) close(descriptor);
    if (!connected) {
        exit_code_ = 1;
        say(format("rank {}: its standard streams cannot be made: {}; see ulimit -n", process.rank,
                   os_text(cause)));
        return false;
    }
    if (!started.ok()) {
        explain_missing(process, started.error());
        return false;
    }
    process.pid = *started;
    process.running = true;
    ++running_;
    return true;
}

void Launcher::explain_missing(const Process& process, const Error& error) const {
    const Program& program = options_.programs[static_cast<size_t>(process.program)];
    auto* self = const_cast<Launcher*>(this);
    self->exit_code_ = 127;
    const std::string& name = program.command[0];
    if (!program.directory.empty() && access(program.directory.c_str(), X_OK) != 0) {
        say(format("the working directory {} cannot be entered: {}", program.directory,
                   os_text(errno)));
    } else if (error.os_errno) {
        self->exit_code_ = error.os_errno == ENOENT || error.os_errno == ENOEXEC ? 127 : 126;
        say(format("rank {}: {} cannot be executed: {}: {}", process.rank, name, error.what,
                   os_text(error.os_errno)));
    } else if (name.find('/') != name.npos) {
        self->exit_code_ = access(name.c_str(), F_OK) == 0 ? 126 : 127;
        say(format("{} cannot be executed: {}", name,
                   exit_code_ == 126 ? "it is not an executable file (chmod +x?)"
                                     : "there is no such file"));
    } else {
        bool here = access(("./" + name).c_str(), X_OK) == 0;
        say(format("there is no program {} in PATH{}", name,
                   here ? format("; did you mean ./{} in this directory?", name) : ""));
    }
}

RankStream* Launcher::make_stream(int descriptor, Output& output, const Process& process,
                                  const char* name) {
    ForwardOptions options;
    if (options_.tag_output) options.tag = format("[{}]<{}>: ", process.rank, name);
    options.timestamp = options_.timestamp_output;
    options.raw = size_ == 1 && !options_.tag_output && !options_.timestamp_output;
    auto* stream = new RankStream(base_, descriptor, output, std::move(options));
    stream->on_close = [this] { finish_if_done(); };
    return stream;
}

// Descriptors in `ours` are closed after the start.
bool Launcher::connect_streams(Process& process, SpawnRequest& request, std::vector<int>& ours) {
    request.input = input_for(process.world_size ? -1 : process.rank, ours);
    if (request.input < 0) return false;
    if (!options_.output_filename.empty()) return open_output_files(process, request, ours);
    int read_end = -1;
    if (!make_pipe(read_end, request.output)) return false;
    ours.push_back(request.output);
    process.output.reset(make_stream(read_end, *stdout_, process, "stdout"));
    request.error = request.output;
    if (options_.merge_stderr) return true;
    if (!make_pipe(read_end, request.error)) return false;
    ours.push_back(request.error);
    process.error.reset(make_stream(read_end, *stderr_, process, "stderr"));
    return true;
}

bool Launcher::open_output_files(Process& process, SpawnRequest& request, std::vector<int>& ours) {
    auto open_file = [&](const char* suffix) {
        std::string path = format("{}.{}.{}", options_.output_filename, process.rank, suffix);
        int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (descriptor < 0) say(format("{} cannot be written: {}", path, os_text(errno)));
        else ours.push_back(descriptor);
        return descriptor;
    };
    request.output = open_file("out");
    request.error = options_.merge_stderr ? request.output : open_file("err");
    return request.output >= 0 && request.error >= 0;
}

// Files and pipes go to the one reader as they are, so that nothing is read that it does not want;
// a terminal is copied, since it belongs to mpirun's process group.
int Launcher::input_for(int rank, std::vector<int>& ours) {
    bool reads = (options_.stdin_to == StdinTo::all && rank >= 0) ||
                 (options_.stdin_to == StdinTo::rank && options_.stdin_rank == rank);
    if (reads && options_.stdin_to == StdinTo::rank && !isatty(0)) return 0;
    int read_end = -1, write_end = -1;
    if (!reads) {
        read_end = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else if (make_pipe(read_end, write_end)) {
        input_targets_.push_back(write_end);
    }
    if (read_end >= 0) ours.push_back(read_end);
    return read_end;
}

void Launcher::show_plan() const {
    if (options_.display_map || options_.verbose)
        say(format("job {}: {} process{} on {} ({} slots)", directory_.tag, size_,
                   size_ == 1 ? "" : "es", host_, slots_));
    for (const Process& process : processes_) {
        const Binding& binding = bindings_[static_cast<size_t>(process.rank)];
        std::string where = binding.text.empty() ? "not bound" : "bound to " + binding.text;
        if (options_.display_map || options_.verbose)
            say(format("rank {}: {} (pid {}), {}", process.rank, process.name, process.pid, where));
        else say(format("rank {} on {}: {}", process.rank, host_, where));
    }
}

}  // namespace pomona
