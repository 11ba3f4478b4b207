// pmix/launch/launcher.cc: what happens while a job runs and how it ends. The start:
// launcher_start.cc.
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "mpi/include/mpix.h"
#include "pmix/wireup/origin.h"
#include "pmix/launch/pmix_server.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr double kExitGrace = 0.3;       // others may be failing too: let them say why
constexpr double kTermGrace = 1.0;       // from SIGTERM to SIGKILL
constexpr double kCauseGrace = 1.0;      // for the word of a death, after who has met it gave up
constexpr double kInterruptGrace = 4.0;  // after Ctrl-C
constexpr double kDrainTime = 0.2;       // output of processes that outlive their rank
constexpr double kAgentPatience = 2.0;   // from SIGKILL to the word that all have ended
constexpr double kDrainPause = 0.005;
constexpr int kFarDrainRounds = 400;  // two seconds of such pauses

timeval time_of(double seconds) {
    timeval out{};
    out.tv_sec = static_cast<time_t>(seconds);
    out.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(out.tv_sec)) * 1e6);
    return out;
}

// "Segmentation fault" without strsignal's locale and locks.
const char* signal_text(int signal) {
    const char* text = strsignal(signal);
    return text ? text : "unknown signal";
}
}  // namespace

Launcher::Launcher(Options options, const char* const* environment)
    : options_(std::move(options)), environment_(environment), host_(host_name()),
      local_(host_, events_of(0), environment) {}

Launcher::~Launcher() = default;

void Launcher::say(const std::string& text) const {
    std::string line = "mpirun: " + text + "\n";
    if (stderr_) stderr_->write(line, this);
    else (void)!write(2, line.data(), line.size());
}

void Launcher::remark(const std::string& text) const {
    if (!options_.quiet) say(text);
}

EventPtr Launcher::timer(void (*function)(int, short, void*)) {
    return EventPtr(event_new(base_, -1, EV_TIMEOUT, function, this));
}

int Launcher::run() {
    bool planned = open_loop() && connect_hosts() && plan();
    if (!planned || !prepare()) {
        if (planned) dismiss_hosts();
        clean_up();
        return exit_code_ ? exit_code_ : 1;
    }
    state_ = State::running;
    start_all();
    finish_if_done();
    if (state_ != State::done) event_base_dispatch(base_);
    learn_links();
    clean_up();
    // All ranks ended well before they could see that nobody reads: scripts see it by our code.
    if (exit_code_ == 0 && stdout_->unread()) return 128 + SIGPIPE;
    return exit_code_;
}

void Launcher::watch_signals() {
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD}) {
        // nohup, and shells that start us in the background, want some ignored.
        if (signal != SIGCHLD && sigismember(&local_.agent.ignored_signals(), signal) == 1)
            continue;
        auto handle = [](evutil_socket_t number, short, void* self) {
            static_cast<Launcher*>(self)->on_signal(static_cast<int>(number));
        };
        EventPtr event(event_new(base_, signal, EV_SIGNAL | EV_PERSIST, handle, this));
        event_add(event.get(), nullptr);
        signals_.push_back(std::move(event));
    }
}

void Launcher::on_signal(int signal) {
    if (signal == SIGCHLD) {
        std::vector<EndedRank> ended = local_.agent.reap();
        return on_ended(std::move(ended));
    }
    if (signal == SIGCONT) {
        for (auto& remote : remotes_) remote->resume();
        signal_all(SIGCONT);
        if (input_) input_->resume();
        return;
    }
    if (signal == SIGTSTP) return stop_ourselves();
    if (signal == SIGUSR1) {
        if (state_ == State::connecting) {
            std::string missing = hosts_missing();
            if (!missing.empty()) say(format("not reached yet: {}", missing));
            return;
        }
        if (answer_top()) return;
        report();
        for (Node& node : nodes_) node.host->signal_catchers(signal);
        return;
    }
    if (signal == SIGUSR2) return signal_all(signal);
    if (state_ == State::connecting) {
        exit_code_ = 128 + signal;
        exit_code_known_ = true;
        event_base_loopbreak(base_);
        return;
    }
    // Interrupt, terminate, hang up: once politely, then for good.
    awaits_reader_ = false;
    interrupt_ = signal;
    if (++interrupts_ > 1 || state_ == State::killing) {
        if (!exit_code_known_) exit_code_ = 128 + signal;
        exit_code_known_ = true;
        kill_after(0);
        return;
    }
    signal_all(signal);
    signal_all(SIGCONT);  // a stopped process cannot die
    if (signal == SIGINT && stderr_->terminal())
        remark(format("passed the interrupt on to {} process{}; once more kills them at once",
                      size_, size_ == 1 ? "" : "es"));
    if (state_ != State::running) return;  // it ends already, and no later than it would have
    state_ = State::ending;
    kill_after(kInterruptGrace);
}

void Launcher::stop_ourselves() {
    signal_all(SIGTSTP);
    for (auto& remote : remotes_) remote->pause();
    // The shell must see us stopped; SIGCONT wakes all again.
    raise(SIGSTOP);
}

// The system tells of the dead in any order, and ranks give up when they see that another has gone:
// whoever was killed comes first, then whoever left without a word, then those who ended with a
// code.
int Launcher::suspicion(const EndedRank& each) const {
    if (WIFSIGNALED(each.status)) return 0;
    if (WEXITSTATUS(each.status) != 0) return gave_up_.contains(each.rank) ? 3 : 2;
    return control_->phase(each.rank) == ControlServer::Phase::joined ? 1 : 3;
}

void Launcher::on_ended(std::vector<EndedRank> ended) {
    for (const EndedRank& each : ended) {
        if (!known(each.rank) || !process_of(each.rank).running) continue;
        process_of(each.rank).running = false;
        --running_;
        control_->settle(each.rank);  // its last words came before its death
        if (pmix_) pmix_->settle();
    }
    std::stable_sort(ended.begin(), ended.end(), [&](const EndedRank& a, const EndedRank& b) {
        return suspicion(a) < suspicion(b);
    });
    for (const EndedRank& each : ended) {
        if (!known(each.rank)) continue;
        judge(process_of(each.rank), each.status);
        if (state_ == State::running) check_fence();
    }
    if (running_ == 0 && without_cause_) without_cause_();  // nobody is left to tell of one
    if (state_ != State::connecting) finish_if_done();
}

// How a process ended, in words that follow "rank 1 (pid 17, hello) on host".
std::string Launcher::fate_of(const Process& process, int status) const {
    if (WIFSIGNALED(status)) {
        bool core = false;
#if defined(WCOREDUMP)
        core = WCOREDUMP(status);
#endif
        return format("was killed by signal {} ({}{})", WTERMSIG(status),
                      signal_text(WTERMSIG(status)), core ? ", core dumped" : "");
    }
    bool left_mpi = control_->phase(process.rank) == ControlServer::Phase::joined;
    int sessions = control_->open_sessions(process.rank);
    std::string with = WEXITSTATUS(status) ? format(" with code {}", WEXITSTATUS(status)) : "";
    if (left_mpi && sessions)
        return format("exited{} without calling MPI_Session_finalize of {}", with,
                      sessions == 1 ? "its session" : format("its {} sessions", sessions));
    if (WEXITSTATUS(status) != 0)
        return format("exited{}{}", with, left_mpi ? " without calling MPI_Finalize" : "");
    if (left_mpi) return "exited without calling MPI_Finalize after MPI_Init";
    bool never = control_->phase(process.rank) == ControlServer::Phase::outside;
    return never ? "ended without calling MPI_Init" : "ended after MPI_Finalize";
}

// The first process that fails gives the exit code and one message; those that die because we end
// the job are not blamed.
void Launcher::judge(Process& process, int status) {
    bool left_mpi = control_->phase(process.rank) == ControlServer::Phase::joined;
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = signal ? 128 + signal : WEXITSTATUS(status);
    // Others may wait for it: it may never have called MPI_Init.
    std::string fate = fate_of(process, status);
    if (state_ == State::running) control_->tell_gone(process.rank, fate);
    if (code == 0 && !left_mpi) return look_for_another_mpi(process);
    if (state_ != State::running) {
        // Asked to end by a signal: the way the processes take is the way of the job.
        if (!exit_code_known_) exit_code_ = code, exit_code_known_ = true;
        return;
    }
    // It has said why, and nobody was told of who died before.
    if (without_cause_ && !signal && gave_up_.contains(process.rank)) return without_cause_();
    bool silent = code == 0;
    if (silent) code = 1;
    if (continues()) return go_on_without(process, code, fate);
    // Our reader has gone (mpirun ... | head): nothing to complain of. Scripts pass on a code.
    bool unread = (signal == SIGPIPE || code == 128 + SIGPIPE) && stdout_->broken();
    bool unchecked = (signal == SIGSEGV || signal == SIGBUS) && left_mpi && !checks_;
    if (!unread)
        say(format("rank {} (pid {}, {}) on {} {}; the job ends{}{}", process.rank, process.pid,
                   process.name, host_of(process), fate, silent ? " with code 1" : "",
                   unchecked ? messages::died_unchecked : ""));
    look_for_another_mpi(process);
    end_job(code, signal ? 0 : kExitGrace, SIGTERM);
}

// --on-death continue: the others have been told, and barriers of the wire-up do without it.
void Launcher::go_on_without(Process& process, int code, const std::string& fate) {
    say(format("rank {} (pid {}, {}) on {} {}; the job goes on without it", process.rank,
               process.pid, process.name, host_of(process), fate));
    if (!exit_code_known_) exit_code_ = code, exit_code_known_ = true;
    control_->retire(process.rank);
}

// Later: what the dead have left behind may be unread, and who was killed is told of first.
void Launcher::check_fence_soon() {
    if (state_ != State::running || running_ == size_) return;
    if (!fence_timer_)
        fence_timer_ = timer([](int, short, void* data) {
            auto* self = static_cast<Launcher*>(data);
            if (self->state_ == State::running) self->check_fence();
        });
    event_active(fence_timer_.get(), EV_TIMEOUT, 1);
}

// A rank that has gone can never enter the barrier in which others wait. Those of PMIx are not
// seen here: whoever has called PMIx_Init is taken to wait for all, as other launchers do.
void Launcher::check_fence() {
    if (running_ == 0) return;
    bool by_pmix = std::any_of(processes_.begin(), processes_.end(), [&](const Process& each) {
        return each.running && control_->runs_by_pmix(each.rank);
    });
    for (Process& process : processes_) {
        if (process.running || control_->waits_in_fence(process.rank)) continue;
        bool never = control_->phase(process.rank) == ControlServer::Phase::outside;
        bool awaited = control_->fence_open(process.rank) || left_parent_waiting(process);
        if (control_->retired(process.rank)) awaited = false;
        if (!awaited && !(never && by_pmix && !process.world_size)) continue;
        say(
            format("rank {} ({}) on {} exited {} while other ranks wait for it in MPI_Init or "
                   "another collective call; the job ends with code 1",
                   process.rank, process.name, host_of(process),
                   never ? "without calling MPI_Init" : "after MPI_Finalize"));
        return end_job(1, 0, SIGTERM);
    }
}

// A rank that aborts because its peer died may tell us before the system tells of the death, which
// is what the user must hear of.
void Launcher::on_abort(int rank, int code, const std::string& message) {
    if (state_ != State::running) return;
    if (!continues() && local_.agent.another_has_failed(rank)) return;
    if (code == MPIX_ERR_PROC_FAILED && !continues()) return await_cause(rank, code, message);
    take_abort(rank, code, message);
}

// The word of a death on another host comes by its agent, which others may overtake, and here a
// rank that leaves by exit(0) closes its connections before it has ended. The first rank that gave
// up is blamed when none comes.
void Launcher::await_cause(int rank, int code, const std::string& message) {
    gave_up_.insert(rank);
    if (without_cause_) return;
    without_cause_ = [this, rank, code, message] { take_abort(rank, code, message); };
    cause_timer_ =
        timer([](int, short, void* self) { static_cast<Launcher*>(self)->without_cause_(); });
    timeval delay = time_of(kCauseGrace);
    event_add(cause_timer_.get(), &delay);
}

void Launcher::take_abort(int rank, int code, const std::string& message) {
    if (state_ != State::running) return;
    // By MPI_Abort, by a fatal error, or by another library's call: the message says which.
    const Process& process = process_of(rank);
    int ours = exit_code_of(code);
    bool zero = (code & 255) == 0;
    say(format("rank {} (pid {}, {}) on {} ended the job with code {}{}{}{}", rank, process.pid,
               process.name, host_of(process), code, message.empty() ? "" : ": ", message,
               zero ? format(", and mpirun ends with code {}", ours) : ""));
    end_job(ours, 0, SIGTERM);
}

// A full disk: what the job computes from now on would be lost as well.
void Launcher::on_lost_output(const std::string& text) {
    say(text);
    if (exit_code_ == 0 && exit_code_known_) exit_code_ = 1;
    end_job(1, 0, SIGTERM);
}

// All files are mostly on one disk.
void Launcher::on_lost_file(int rank, const std::string& path, int error) {
    if (std::exchange(told_of_lost_file_, true)) return;
    on_lost_output(format(messages::lost_file, rank, path, os_text(error)));
}

void Launcher::on_stream_end(Process& process) {
    auto finish = [](const std::unique_ptr<RankStream>& stream, Output* file) {
        if (file && stream && !stream->open()) file->finish();
    };
    finish(process.output, process.output_file.get());
    finish(process.error, process.error_file.get());
    finish_if_done();
}

// Also while hosts are reached.
void Launcher::begin_timeout() {
    if (options_.timeout_seconds <= 0 || timeout_timer_) return;
    timeout_timer_ =
        timer([](int, short, void* self) { static_cast<Launcher*>(self)->on_timeout(); });
    timeval delay = time_of(options_.timeout_seconds);
    event_add(timeout_timer_.get(), &delay);
}

void Launcher::on_timeout() {
    awaits_reader_ = false;
    if (state_ == State::connecting) {
        say(format(messages::time_over_before, options_.timeout_seconds, options_.timeout_by,
                   hosts_missing()));
        exit_code_ = 124;
        exit_code_known_ = true;
        event_base_loopbreak(base_);
        return;
    }
    if (state_ != State::running) return;
    std::string still;
    int count = 0;
    for (const Process& process : processes_)
        if (process.running && ++count <= 8)
            still += format("{}{}", still.empty() ? "" : ", ", process.rank);
    say(format(messages::time_over, options_.timeout_seconds, options_.timeout_by, still,
               count > 8 ? ", ..." : ""));
    report();
    if (!exit_code_known_) exit_code_ = 124;
    exit_code_known_ = true;
    if (options_.stack_traces) return ask_stacks();
    end_job(124, 0, SIGTERM);
}

void Launcher::ask_stacks() {
    ++stacks_awaited_;  // until all have been asked
    auto answered = [this] {
        if (--stacks_awaited_ == 0) end_job(124, 0, SIGTERM);
    };
    for (Process& process : processes_) {
        if (!process.running) continue;
        ++stacks_awaited_;
        node_of(process).host->ask_stacks(
            process.rank, [this, answered, &process](const std::string& text) {
                say(format("calls of rank {} (pid {}, {}):\n{}", process.rank, process.pid,
                           process.name, text));
                answered();
            });
    }
    answered();
}

void Launcher::end_job(int code, double grace_seconds, int signal) {
    if (!exit_code_known_) exit_code_ = code;
    exit_code_known_ = true;
    if (state_ != State::running) return;
    state_ = State::ending;
    if (grace_seconds <= 0) {
        signal_all(signal);
        signal_all(SIGCONT);
        kill_after(kTermGrace);
        return;
    }
    term_timer_ = timer([](int, short, void* data) {
        auto* self = static_cast<Launcher*>(data);
        self->signal_all(SIGTERM);
        self->signal_all(SIGCONT);
        self->kill_after(kTermGrace);
    });
    timeval delay = time_of(grace_seconds);
    event_add(term_timer_.get(), &delay);
}

void Launcher::signal_all(int signal) {
    for (Node& node : nodes_) node.host->signal(signal);
}

void Launcher::kill_after(double seconds) {
    auto strike = [](int, short, void* data) {
        auto* self = static_cast<Launcher*>(data);
        self->state_ = State::killing;
        // Those who ignored the interrupt end by it all the same, as a shell sees it.
        if (self->interrupts_ > 0 && !self->exit_code_known_)
            self->exit_code_ = 128 + self->interrupt_, self->exit_code_known_ = true;
        self->signal_all(SIGKILL);
        // Agents that do not answer are left: their ranks end when they notice that we are gone.
        self->kill_timer_ = self->timer([](int, short, void* again) {
            for (auto& remote : static_cast<Launcher*>(again)->remotes_)
                remote->give_up("it does not answer");
        });
        timeval delay = time_of(kAgentPatience);
        event_add(self->kill_timer_.get(), &delay);
    };
    if (seconds <= 0) return strike(0, 0, this);
    kill_timer_ = timer(strike);
    timeval delay = time_of(seconds);
    event_add(kill_timer_.get(), &delay);
}

// After the last process: what it started goes too, then the rest of the output.
void Launcher::finish_if_done() {
    if (running_ > 0 || state_ == State::done) return;
    if (!swept_) {
        swept_ = true;
        for (Node& node : nodes_) node.host->sweep();
        drain_timer_ = timer([](int, short, void* data) {
            auto* self = static_cast<Launcher*>(data);
            ++self->drain_rounds_;
            self->finish_if_done();
        });
        timeval delay = time_of(kDrainTime);
        event_add(drain_timer_.get(), &delay);
    }
    if (!drained()) return;
    bool waiting = false;
    for (Node& node : nodes_) {
        if (node.host->here()) continue;  // that is the last thing, see clean_up
        node.host->leave();
        waiting = waiting || !node.host->left();
    }
    if (waiting) return;
    state_ = State::done;
    event_base_loopbreak(base_);
}

// Whether all output has been passed on.
bool Launcher::drained() {
    bool open = false, unwritten = false;
    auto look = [&](const Output* out) {
        unwritten = unwritten || (out && !out->idle() && !out->broken());
    };
    for (Process& process : processes_) {
        for (RankStream* stream : {process.output.get(), process.error.get()}) {
            bool far = !node_of(process).host->here();
            // Agents end the streams of their ranks, in the same time.
            if (stream && drain_rounds_ > (far ? kFarDrainRounds : 0)) stream->finish();
            open = open || (stream && stream->open());
        }
        for (const Output* file : {process.output_file.get(), process.error_file.get()}) look(file);
    }
    for (const Output* ours : {stdout_.get(), stderr_.get()}) look(ours);
    // A reader of ours that is merely slow gets all of it, however the job ends; an interrupt, or
    // the end of the time given, ends that too.
    if (!open && (!unwritten || (state_ == State::killing && !awaits_reader_))) return true;
    if (drain_rounds_ > 0) {
        timeval delay = time_of(kDrainPause);
        event_add(drain_timer_.get(), &delay);
    }
    return false;
}

// An agent that is killed while it makes the job's directory would leave it: no watchdog is there
// yet.
void Launcher::dismiss_hosts() {
    for (auto& remote : remotes_) remote->leave();
    auto has_left = [](const auto& remote) { return remote->left(); };
    while (!std::all_of(remotes_.begin(), remotes_.end(), has_left))
        if (event_base_loop(base_, EVLOOP_ONCE) != 0) break;
}

void Launcher::clean_up() {
    tell_of_trace();
    if (debug_mode_ == DebugMode::terminal) tcsetpgrp(0, getpgrp());
    for (auto& remote : remotes_) remote->give_up("");
    control_.reset();
    local_.leave();
}

}  // namespace pomona
